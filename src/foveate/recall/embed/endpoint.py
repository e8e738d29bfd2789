"""Vectors from an endpoint that speaks OpenAI's protocol for embeddings, by the standard library alone.

It is asked in batches, each within a time and, like every model, within the limits and on the books. After a failure it
is paused for a while; searches use words meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable, SettingsError
from foveate.models import Answer, Ask
from foveate.models.caller import Caller
from foveate.models.names import find_key, understand
from foveate.models.settings import ModelsSettings
from foveate.recall.settings import RecallSettings
from foveate.secrets import scrub_line
from foveate.tokens import count_tokens
from foveate.turn import Message, Text, Usage

if TYPE_CHECKING:
    from foveate.recall.table import Floats

KEY = "recall.embeddings"
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_SAID_BYTES = 4_096
"""What is read of a refusal."""
MAX_DIMENSIONS = 8_192
PIECE_BYTES = 256 * 1024
REST_SECONDS = 30.0
"""After a failure the endpoint is not asked for so long."""
REFUSALS = (400, 401, 403, 404, 405, 422, 501)
"""Statuses that another try does not change."""


class EndpointEmbedder:
    """A model behind an address. How long its vectors are is learnt from its first answer, and part of its name."""

    is_local = False

    def __init__(self, settings: RecallSettings, caller: Caller) -> None:
        self.dimensions = 0
        self._endpoint = EmbeddingEndpoint(settings, caller.settings)
        self._caller = caller
        self._batch = settings.embeddings_batch
        self._rests_until = 0.0

    @property
    def name(self) -> str:
        place = self._endpoint.place
        return f"{place} {self.dimensions}" if self.dimensions else place

    def knows(self, text: str) -> bool:
        """Its vocabulary is not known here."""
        return bool(text)

    async def learn(self) -> None:
        if not self.dimensions:
            await self.embed(["How long is a vector?"])

    async def embed(self, texts: Sequence[str]) -> Floats:
        import numpy as np  # noqa: PLC0415

        rests = self._rests_until - time.monotonic()
        if rests > 0:
            problem = f"it failed, and is asked again in {rests:.0f} s"
            raise ModelHeldBack(self._endpoint.place, problem, reason="breaker", retry_after_seconds=rests)
        parts = [texts[start : start + self._batch] for start in range(0, len(texts), self._batch)]
        made = [await self._ask(part) for part in parts]
        return np.concatenate(made) if made else np.zeros((0, self.dimensions), np.float32)

    async def _ask(self, texts: Sequence[str]) -> Floats:
        ask = Ask(
            purpose="embed",
            messages=tuple(Message("user", (Text(text),)) for text in texts),
            max_output_tokens=0,
            input_tokens=sum(map(count_tokens, texts)),
        )
        self._caller.lend(self._endpoint)
        try:
            answered = await self._caller.ask(ask, [self._endpoint.name], max_calls=1)
            assert isinstance(answered.answer, VectorAnswer)
            vectors = answered.answer.vectors
            if vectors.shape[1] != (self.dimensions or vectors.shape[1]):
                await self._caller.mark_unfit(answered)
                problem = f"its vectors have {vectors.shape[1]:,} numbers instead of {self.dimensions:,}, as before"
                raise ModelFailed(self._endpoint.place, problem, reason="malformed")
        except ModelError:
            self._rests_until = time.monotonic() + REST_SECONDS
            raise
        self.dimensions = vectors.shape[1]
        return vectors


@dataclass(frozen=True, slots=True)
class VectorAnswer(Answer):
    """An answer in vectors."""

    vectors: Floats
    """A row of length 1 for each text."""


class _NoRedirect(HTTPRedirectHandler):
    """A key goes to the host it is for, and to no other."""

    def redirect_request(self, *_asked: object, **_named: object) -> None:
        return None


class EmbeddingEndpoint:
    """A `foveate.models.Model` whose answers are `VectorAnswer`, one vector for each message."""

    def __init__(self, recall: RecallSettings, models: ModelsSettings) -> None:
        try:
            name = f"{recall.embeddings_model}@{recall.embeddings}"
            parsed = understand(name, models, (name,))
        except ModelUnavailable as error:
            raise SettingsError(KEY, error.problem) from error
        key = find_key(parsed)
        if key is None and parsed.needs_key:
            raise SettingsError(KEY, f"no key; set the environment variable {' or '.join(parsed.key_variables)}")
        self.provider = f"{parsed.provider}/embeddings"  # which may fail while the same server talks
        self.place = f"{parsed.model}@{parsed.provider}"
        self._model = parsed.model
        self._url = f"{parsed.base_url}/embeddings"
        self._secret = key.value if key else ""
        self._seconds = recall.embeddings_seconds
        self._opener = build_opener(_NoRedirect)

    @property
    def name(self) -> str:
        """Differs from that of a model which talks at the same address."""
        return f"{self._model}@{self._url}"

    async def ask(self, ask: Ask) -> VectorAnswer:
        texts = [message.text for message in ask.messages]
        try:
            answer = await asyncio.wait_for(asyncio.to_thread(self._post, texts), self._seconds)
        except TimeoutError:
            raise self._failed(f"no answer within {self._seconds:g} s", "timeout") from None
        return self._read(answer, len(texts))

    def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:  # noqa: ARG002 - as a `Model` has it
        raise ModelUnavailable(self.place, "it is an embedding model, not a chat model", reason="name")

    async def close(self) -> None:
        pass

    def _post(self, texts: Sequence[str]) -> bytes:
        """The body of the answer. Errors are raised without a cause, which could show a key."""
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
                failed = ModelUnavailable(self.place, problem, reason="refused")
        except (OSError, HTTPException) as error:
            failed = self._failed(scrub_line(f"{self._url} can't be reached: {error}", [self._secret]), "network")
        raise failed

    def _read(self, answer: bytes, count: int) -> VectorAnswer:
        import numpy as np  # noqa: PLC0415

        try:
            told: dict[str, Any] = json.loads(answer)
            rows = sorted(told["data"], key=lambda row: row.get("index", 0))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._failed("its answer is no list of embeddings", "malformed") from None
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():  # noqa: PLR2004 - rows of numbers
            raise self._failed(f"its answer has the shape {vectors.shape}, for {count} texts", "malformed")
        if not 1 <= vectors.shape[1] <= MAX_DIMENSIONS:
            problem = f"its vectors have {vectors.shape[1]:,} numbers instead of 1 to {MAX_DIMENSIONS:,}"
            raise self._failed(problem, "malformed")
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        message = Message("assistant", (Text(f"{count} vectors"),), model=self._model, usage=_usage(told))
        return VectorAnswer(message, "stop", vectors)

    def _failed(self, problem: str, reason: str) -> ModelFailed:
        return ModelFailed(self.place, problem, reason=reason)


def _usage(told: Mapping[str, Any]) -> Usage | None:
    usage = told.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return Usage(input_tokens=tokens) if isinstance(tokens, int) and tokens > 0 else None
