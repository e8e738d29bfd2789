"""Answers by Idempotency-Key: a write that is sent again is answered again, not done again.

They are kept in memory, up to a limit. Recorded turns are also kept apart durably, by the keys of their messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from foveate.cache import BoundedCache
from foveate.server.problems import ProblemError

Where = tuple[str, ...]
"""Who asks for what under which key."""
SERVER_ERROR = 500
MAX_KEPT_BYTES = 65_536
"""Larger answers are not kept: those are contexts, which can be made again."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """The answer to a request with this body, or the promise of one."""

    digest: bytes
    answer: asyncio.Future[Response]


class Replies:
    """The latest answers of one server."""

    def __init__(self, limit: int) -> None:
        self._kept: BoundedCache[Where, _Reply] = BoundedCache(limit)

    async def once(self, where: Where, digest: bytes, make: Callable[[], Awaitable[Response]]) -> Response:
        """The answer that was given before, or else the one that `make` gives now.

        `ProblemError` 422 if the key was used for another body. An error is not kept: the request may be repeated.
        """
        known = self._kept.get(where)
        if known is not None:
            if known.digest != digest:
                raise ProblemError(422, "this Idempotency-Key was used for a different request", kind="key-reused")
            return _again(await asyncio.shield(known.answer))
        promise: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._kept[where] = _Reply(digest, promise)
        try:
            made = await make()
        except BaseException as error:
            self._kept.pop(where)
            if isinstance(error, Exception):
                promise.set_exception(error)
                promise.exception()  # nobody may be waiting for it
            else:
                promise.cancel()
            raise
        promise.set_result(made)
        if made.status_code >= SERVER_ERROR or len(made.body) > MAX_KEPT_BYTES:
            self._kept.pop(where)
        return made


def _again(made: Response) -> Response:
    headers = {**dict(made.headers), "idempotent-replayed": "true"}
    return Response(made.body, made.status_code, headers)
