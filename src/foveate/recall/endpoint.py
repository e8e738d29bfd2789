"""Vectors from an endpoint that speaks OpenAI's protocol for embeddings, by the standard library alone.

It is asked in batches, each within a time. After a failure it is left alone for a while; searches then go by words.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable, SettingsError
from foveate.models._secrets import scrub_line
from foveate.models.names import find_key, parse_name
from foveate.settings import RecallSettings

if TYPE_CHECKING:
    from foveate.recall.vectors import Floats

KEY = "recall.embeddings"
KEY_VARIABLES: Mapping[str, str] = {"api.openai.com": "OPENAI_API_KEY", "openrouter.ai": "OPENROUTER_API_KEY"}
"""Where the keys of known hosts are; `models.key_variables` has the others'."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_SAID_BYTES = 4_096
"""What is read of a refusal."""
MAX_DIMENSIONS = 8_192
PIECE_BYTES = 256 * 1024
REST_SECONDS = 30.0
"""After a failure the endpoint is not asked for so long."""
REFUSALS = (400, 401, 403, 404, 422)
"""Statuses that another try does not change."""


class _NoRedirect(HTTPRedirectHandler):
    """A key goes to the host it is for, and to no other."""

    def redirect_request(self, *_asked: object, **_named: object) -> None:
        return None


class EndpointEmbedder:
    """A model behind an address. How long its vectors are is learnt from its first answer, and part of its name."""

    is_local = False

    def __init__(self, settings: RecallSettings, key_variables: Mapping[str, str]) -> None:
        try:
            asked = f"{settings.embeddings_model}@{settings.embeddings}"
            parsed = parse_name(asked, key_variables={**KEY_VARIABLES, **key_variables})
        except ModelUnavailable as error:
            raise SettingsError(KEY, error.problem) from error
        key = find_key(parsed)
        if key is None and parsed.needs_key:
            raise SettingsError(KEY, f"no key; set the environment variable {' or '.join(parsed.key_variables)}")
        self.dimensions = 0
        self._model = parsed.model
        self._url = f"{parsed.base_url}/embeddings"
        self._place = f"{parsed.model}@{parsed.provider}"
        self._secret = key.value if key else ""
        self._seconds = settings.embeddings_seconds
        self._batch = settings.embeddings_batch
        self._rests_until = 0.0
        self._opener = build_opener(_NoRedirect)

    @property
    def name(self) -> str:
        return f"{self._place} {self.dimensions}" if self.dimensions else self._place

    async def learn(self) -> None:
        if not self.dimensions:
            await self.embed(["How long is a vector?"])

    async def embed(self, texts: Sequence[str]) -> Floats:
        import numpy as np  # noqa: PLC0415

        rests = self._rests_until - time.monotonic()
        if rests > 0:
            problem = f"it failed, and is asked again in {rests:.0f} s"
            raise ModelHeldBack(self._place, problem, reason="breaker", retry_after_seconds=rests)
        parts = [texts[start : start + self._batch] for start in range(0, len(texts), self._batch)]
        made = [await self._ask(part) for part in parts]
        return np.concatenate(made) if made else np.zeros((0, self.dimensions), np.float32)

    async def _ask(self, texts: Sequence[str]) -> Floats:
        try:
            answer = await asyncio.wait_for(asyncio.to_thread(self._post, texts), self._seconds)
            vectors = self._read(answer, len(texts))
        except TimeoutError:
            failed: ModelError = self._failed(f"no answer within {self._seconds:g} s", "timeout")
        except ModelError as error:
            failed = error
        else:
            return vectors
        self._rests_until = time.monotonic() + REST_SECONDS
        raise failed

    def _post(self, texts: Sequence[str]) -> bytes:
        """The body of the answer. What goes wrong is told without a chain, which could show a key."""
        body = json.dumps({"model": self._model, "input": list(texts), "encoding_format": "float"}).encode()
        headers = {"Content-Type": "application/json"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        request = Request(self._url, body, headers)  # noqa: S310 - the address was read, and is http or https
        end = time.monotonic() + self._seconds
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                pieces: list[bytes] = []
                while piece := response.read(PIECE_BYTES):
                    pieces.append(piece)
                    if len(pieces) * PIECE_BYTES > MAX_ANSWER_BYTES or time.monotonic() > end:
                        raise self._failed("its answer is too large, or too slow", "malformed")
                return b"".join(pieces)
        except HTTPError as error:
            with error:
                said = scrub_line(error.read(MAX_SAID_BYTES).decode("utf-8", "replace"), [self._secret])
            problem = f"{self._url} answers {error.code}: {said}"
            failed: ModelError = self._failed(problem, "server")
            if error.code in REFUSALS:
                failed = ModelUnavailable(self._place, problem, reason="refused")
        except (OSError, HTTPException) as error:
            failed = self._failed(scrub_line(f"{self._url} can't be reached: {error}", [self._secret]), "network")
        raise failed

    def _read(self, answer: bytes, count: int) -> Floats:
        """A row of length 1 for each text."""
        import numpy as np  # noqa: PLC0415

        try:
            rows: list[Any] = json.loads(answer)["data"]
            rows = sorted(rows, key=lambda row: row.get("index", 0))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._failed("its answer is no list of embeddings", "malformed") from None
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():  # noqa: PLR2004 - rows of numbers
            raise self._failed(f"its answer has the shape {vectors.shape}, for {count} texts", "malformed")
        size = vectors.shape[1]
        if not 1 <= size <= MAX_DIMENSIONS or size != (self.dimensions or size):
            known = f"{self.dimensions}, as before" if self.dimensions else f"1 to {MAX_DIMENSIONS:,}"
            raise self._failed(f"its vectors have {size:,} numbers instead of {known}", "malformed")
        self.dimensions = size
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors

    def _failed(self, problem: str, reason: str) -> ModelFailed:
        return ModelFailed(self._place, problem, reason=reason)
