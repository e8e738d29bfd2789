"""Batch endpoints of real providers, by pydantic-ai's `batch_…` methods: OpenAI, Anthropic and Google have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from foveate.errors import ModelError, contained
from foveate.models import Answer
from foveate.models.adapter_messages import AnswerShape, answer_of
from foveate.models.failures import CallTarget, failure
from foveate.models.names import ModelName

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model as Adapter
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.batch import BatchRequest, EncodedBatchRequest

Mode = Literal["text", "native", "tool", "prompted"]
"""How an answer gets its shape."""
JOB_ERROR = "BatchJobError"
"""What pydantic-ai raises for a job that ended without results."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A request as pydantic-ai takes it."""

    mode: Mode
    messages: list[ModelMessage]
    settings: Any
    """A `ModelSettings`, with keys of one provider in it."""
    parameters: ModelRequestParameters


def batch_adapter(parsed: ModelName, adapter: Adapter[Any]) -> Adapter[Any]:
    """The model for batches: OpenAI's are requests of its Responses API."""
    if parsed.kind != "openai":
        return adapter
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415 - only with the extra
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    assert isinstance(adapter, OpenAIChatModel)
    return OpenAIResponsesModel(parsed.model, provider=OpenAIProvider(openai_client=adapter.client))


class ProviderBatch:
    """Batches of one model."""

    def __init__(self, adapter: Adapter[Any]) -> None:
        self._adapter = adapter

    @property
    def is_available(self) -> bool:
        return self._adapter.batch_max_requests is not None

    async def submit(self, requests: Mapping[str, ProviderRequest]) -> str:
        """Create as few batches as the provider allows; the text names them all."""
        encoded = [await self._adapter.batch_encode(_batch_request(key, request)) for key, request in requests.items()]
        created = [await self._adapter.batch_create(group) for group in self._groups(encoded)]
        return bytes(_handles().dump_json(created)).decode()

    async def collect(
        self, handle: str, requests: Mapping[str, ProviderRequest], target: CallTarget
    ) -> dict[str, Answer | ModelError] | None:
        """The result of each request; None while a batch is in progress."""
        batches = [await self._adapter.batch_status(batch) for batch in _handles().validate_json(handle)]
        if any(batch.status != "ended" for batch in batches):
            return None
        found: dict[str, Answer | ModelError] = {}
        for batch in batches:
            with contained() as outcome:
                results = await self._adapter.batch_results(batch)
            if outcome.error is not None:
                if type(outcome.raised).__name__ != JOB_ERROR:
                    raise outcome.raised
                # The job ended without results, and does not say which requests it had.
                found |= {key: failure(outcome.raised, target) for key in requests if key not in found}
                continue
            for result in results:
                request = requests.get(result.custom_id)
                if request is None:
                    continue
                with contained() as outcome:
                    response = self._adapter.batch_decode(result, _batch_request(result.custom_id, request))
                    shape = AnswerShape(target.name, is_structured=request.mode != "text")
                    found[result.custom_id] = answer_of(response, shape)
                if result.custom_id not in found:
                    found[result.custom_id] = failure(outcome.raised, target)
        return found

    def _groups(self, encoded: Sequence[EncodedBatchRequest]) -> Iterator[list[EncodedBatchRequest]]:
        """Requests that can be in one batch together."""
        most_requests, most_bytes = self._adapter.batch_max_requests or 1, self._adapter.batch_max_bytes
        group: list[EncodedBatchRequest] = []
        size = 0
        for request in sorted(encoded, key=lambda one: one.group):
            own = self._adapter.batch_request_size(request)
            is_full = len(group) == most_requests or (most_bytes is not None and size + own > most_bytes)
            if group and (is_full or group[0].group != request.group):
                yield group
                group, size = [], 0
            group.append(request)
            size += own
        if group:
            yield group


def _handles() -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415
    from pydantic_ai.models.batch import Batch  # noqa: PLC0415

    return TypeAdapter(list[Batch])


def _batch_request(key: str, request: ProviderRequest) -> BatchRequest:
    from pydantic_ai.models.batch import BatchRequest  # noqa: PLC0415

    return BatchRequest(
        custom_id=key,
        messages=request.messages,
        model_settings=request.settings,
        model_request_parameters=request.parameters,
    )
