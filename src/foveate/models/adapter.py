"""The adapter to real providers: pydantic-ai sends a request; the answer is canonical, or a `ModelError`.

The provider's own package does not retry: the `Caller` does. Its timeouts apply to calls without a `Caller`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from foveate.errors import ModelError, ModelUnavailable, contained
from foveate.models import Answer, Ask
from foveate.models.adapter_messages import OUTPUT_TOOL, AnswerShape, answer_of, to_messages, to_tools
from foveate.models.failures import CallTarget, TooMuchSaid, failure
from foveate.models.names import ApiKey, ModelName, address_of, find_key
from foveate.models.settings import ModelsSettings
from foveate.secrets import secrets_in
from foveate.unpack import Unpacker, UnpackError

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.messages import ModelMessage, ModelResponseStreamEvent
    from pydantic_ai.models import Model as Adapter
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.batch import BatchRequest, EncodedBatchRequest

INSTALL: Final = "pip install 'foveate[models]'"
GRACE_SECONDS: Final = 60.0
"""Seconds that a connection times out after the `Caller`."""
MAX_ANSWER_CHARS: Final = 4_000_000
THINKING_ROOM_TOKENS: Final = 2_048
"""Added to the output limit of a model whose thinking can't be disabled, if only its answer is needed."""
Feature = Literal["temperature", "schema"]
"""Features that an endpoint may reject; they are then omitted."""
_REFUSES: Final[dict[Feature, re.Pattern[str]]] = {
    "temperature": re.compile(r"temperature", re.IGNORECASE),
    "schema": re.compile(r"response_format|json_schema|structured.output|output_format|grammar", re.IGNORECASE),
}
MAX_TRIES: Final = 1 + len(_REFUSES)
"""Maximum number of requests per `ask`: the first, and one for each feature that the endpoint rejects. A rejected
request is not billed, and the rejected feature is not sent again."""
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
Mode = Literal["text", "native", "tool", "prompted"]
"""How a structured answer is requested."""
JOB_ERROR = "BatchJobError"
"""Raised by pydantic-ai for a job that ended without results."""


def load(parsed: ModelName, settings: ModelsSettings, *, grace_seconds: float = GRACE_SECONDS) -> ProviderModel:
    """Load the model with its key from the environment; raise `ModelUnavailable` with what is missing."""
    key = find_key(parsed)
    if key is None and parsed.needs_key:
        variables = " or ".join(parsed.key_variables)
        raise ModelUnavailable(parsed.name, f"no key; set the environment variable {variables}", reason="key")
    if key is not None and not _PRINTABLE.fullmatch(key.value):
        problem = f"the value of {key.variable} can't be a key: it contains spaces or non-ASCII characters"
        raise ModelUnavailable(parsed.name, problem, reason="key")
    read_seconds = max(settings.timeout_seconds, settings.stall_seconds) + grace_seconds
    try:
        client = http_client(read_seconds)
        adapter = make_adapter(parsed, key, client)
    except ImportError as error:
        problem = f"a package is missing ({error.name or error}); install it: {INSTALL}"
        failed = ModelUnavailable(parsed.name, problem, reason="extra")
    else:
        return ProviderModel(parsed, adapter, client, key)
    raise failed


class ProviderModel:
    """A `Model` of a real provider."""

    def __init__(
        self, parsed: ModelName, adapter: Adapter[Any], client: httpx2.AsyncClient, key: ApiKey | None
    ) -> None:
        self._parsed = parsed
        self._adapter = adapter
        self._client = client
        self._refused: set[Feature] = set()
        address = adapter.base_url or ""
        self._target = CallTarget(
            name=parsed.name,
            model=parsed.model,
            host=urlsplit(address).netloc.rpartition("@")[2] or parsed.provider,
            key_variable=key.variable if key else " or ".join(parsed.key_variables),
            has_key=key is not None,
            secrets=(*((key.value,) if key else ()), *secrets_in(address)),
        )

    def __repr__(self) -> str:
        return f"ProviderModel({self.name!r})"

    @property
    def name(self) -> str:
        return self._parsed.name

    @property
    def provider(self) -> str:
        return self._parsed.provider

    async def ask(self, ask: Ask) -> Answer:
        for _ in range(MAX_TRIES):
            request = self._request(ask)
            with contained() as outcome:  # callers get a ModelError for any exception of a provider's package
                return await self._answer(request)
            failed = failure(outcome.raised, self._target)
            if not self._do_without(outcome.raised, request):
                break
        # Raised outside any handler, so that no chained error shows a key.
        raise failed

    async def stream(self, ask: Ask) -> AsyncIterator[str | Answer]:
        for _ in range(MAX_TRIES):
            request = self._request(ask)
            given_out = 0
            with contained() as outcome:
                async for piece in self._pieces(request):
                    given_out += 1
                    yield piece
                return
            failed = failure(outcome.raised, self._target, in_stream=given_out > 0)
            if given_out or not self._do_without(outcome.raised, request):
                break
        raise failed

    async def connect(self) -> None:
        """Import what a request needs and open a connection, which the first request then reuses.

        It sends the provider neither a key nor a request that costs; what it answers does not matter.
        """
        import httpx2  # noqa: PLC0415 - only with the extra

        await asyncio.to_thread(import_module, "pydantic_ai.direct")
        if address := self._adapter.base_url:
            with suppress(httpx2.HTTPError):
                await self._client.head(address, timeout=CONNECT_SECONDS)

    @property
    def takes_batches(self) -> bool:
        return self._batch.is_available

    async def submit(self, asks: Mapping[str, Ask]) -> str:
        requests = {key: self._request(ask) for key, ask in asks.items()}
        with contained() as outcome:
            return await self._batch.submit(requests)
        raise failure(outcome.raised, self._target)

    async def collect(self, handle: str, asks: Mapping[str, Ask]) -> dict[str, Answer | ModelError] | None:
        requests = {key: self._request(ask) for key, ask in asks.items()}
        with contained() as outcome:
            return await self._batch.collect(handle, requests, self._target)
        raise failure(outcome.raised, self._target)

    @cached_property
    def _batch(self) -> ProviderBatch:
        return ProviderBatch(batch_adapter(self._parsed, self._adapter))

    async def close(self) -> None:
        await self._client.aclose()

    async def _answer(self, request: ProviderRequest) -> Answer:
        from pydantic_ai.direct import model_request  # noqa: PLC0415 - only with the extra

        response = await model_request(
            self._adapter,
            request.messages,
            model_settings=request.settings,
            model_request_parameters=request.parameters,
        )
        return answer_of(response, AnswerShape(self.name, is_structured=request.mode != "text"))

    async def _pieces(self, request: ProviderRequest) -> AsyncIterator[str | Answer]:
        from pydantic_ai.direct import model_request_stream  # noqa: PLC0415

        given_out_chars = 0
        async with model_request_stream(
            self._adapter,
            request.messages,
            model_settings=request.settings,
            model_request_parameters=request.parameters,
        ) as events:
            async for event in events:
                piece = _text_of(event)
                given_out_chars += len(piece)
                if given_out_chars > MAX_ANSWER_CHARS:
                    raise TooMuchSaid(f"more than {MAX_ANSWER_CHARS:,} characters")
                yield piece
            response = events.get()
        yield answer_of(response, AnswerShape(self.name, is_structured=request.mode != "text", was_streamed=True))

    def most_output_tokens(self, ask: Ask) -> int:
        """Return the output limit, plus room for thinking if that can't be disabled and only the answer is needed."""
        thinks = ask.purpose != "chat" and self._adapter.profile.get("thinking_always_enabled")
        return ask.max_output_tokens + (THINKING_ROOM_TOKENS if thinks else 0)

    def _request(self, ask: Ask) -> ProviderRequest:
        mode = self._mode(ask)
        is_chat = ask.purpose == "chat"
        marks = is_chat and self._parsed.kind in ("anthropic", "openrouter")
        messages = to_messages(ask.messages, self._parsed, system=self._adapter.system, marks=marks)
        settings: dict[str, Any] = {"max_tokens": self.most_output_tokens(ask), "max_retries": 0}
        if not is_chat:
            settings["thinking"] = False
        if ask.temperature is not None and self._takes_temperature(is_thinking=is_chat):
            settings["temperature"] = ask.temperature
        settings.update(_cache_settings(self._parsed, is_chat=is_chat))
        return ProviderRequest(mode, messages, settings, _parameters(ask, mode))

    def _mode(self, ask: Ask) -> Mode:
        profile = self._adapter.profile
        if ask.schema is None:
            return "text"
        if profile.get("supports_json_schema_output") and "schema" not in self._refused:
            return "native"
        return "tool" if profile.get("supports_tools", True) and not ask.tools else "prompted"

    def _takes_temperature(self, *, is_thinking: bool) -> bool:
        """Return whether temperature can be sent; models reject it while reasoning."""
        # The profiles of all families are merged into one dictionary with each family's keys.
        profile: dict[str, Any] = dict(self._adapter.profile)
        if "temperature" in self._refused or profile.get("anthropic_disallows_sampling_settings"):
            return False
        if not profile.get("openai_supports_reasoning"):
            return True
        reasons = profile.get("thinking_enabled_by_default", False) if is_thinking else False
        return bool(profile.get("openai_supports_reasoning_effort_none")) and not reasons

    def _do_without(self, error: Exception, request: ProviderRequest) -> bool:
        """Omit the feature that the request was rejected for, if any, permanently; return whether to retry. True at
        most once per feature."""
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        sent: set[Feature] = set()
        if "temperature" in request.settings:
            sent.add("temperature")
        if request.mode == "native":
            sent.add("schema")
        for feature in sorted(sent - self._refused):
            if _REFUSES[feature].search(str(error)):
                self._refused.add(feature)
                return True
        return False


def _parameters(ask: Ask, mode: Mode) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart  # noqa: PLC0415
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
    from pydantic_ai.output import OutputObjectDefinition  # noqa: PLC0415
    from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

    tools = to_tools(ask.tools)
    schema = dict(ask.schema or {})
    match mode:
        case "text":
            return ModelRequestParameters(function_tools=tools)
        case "native":
            output = OutputObjectDefinition(json_schema=schema, name=OUTPUT_TOOL)
            return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=output)
        case "tool":
            described = "Gives the answer."
            tool = ToolDefinition(
                name=OUTPUT_TOOL, description=described, parameters_json_schema=schema, kind="output", strict=False
            )
            return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
        case "prompted":
            wanted = f"Answer with one JSON object of this schema, and nothing else:\n{json.dumps(schema)}"
            return ModelRequestParameters(function_tools=tools, instruction_parts=[InstructionPart(wanted)])


def _cache_settings(parsed: ModelName, *, is_chat: bool) -> dict[str, Any]:
    """Return cache breakpoints for providers that cache only marked content. Instructions repeat in every request; the
    rest repeats only in a chat, and writing it to the cache costs extra."""
    match parsed.kind:
        case "anthropic":
            return {"anthropic_cache_instructions": True, "anthropic_cache": is_chat}
        case "openrouter":
            return {"openrouter_cache_instructions": True, "openrouter_cache_messages": is_chat}
    return {}


def _text_of(event: ModelResponseStreamEvent) -> str:
    """Return the text that an event adds; empty for reasoning, a tool call, or the end of a part."""
    if event.event_kind == "part_start" and event.part.part_kind == "text":
        return event.part.content
    if event.event_kind == "part_delta" and event.delta.part_delta_kind == "text":
        return event.delta.content_delta
    return ""


CONNECT_SECONDS: Final = 15.0


MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
KEPT_CONNECTIONS: Final = 100
KEEP_SECONDS: Final = 3.0
"""How long an idle connection is reused: servers of local models close it after 5 seconds."""


NO_KEY: Final = "no-key"
"""Sent to an endpoint without a key: OpenAI's package requires one."""


# A stream must report its end; other servers than OpenAI's may support only the older name of the output limit.
_ANY_ENDPOINT: Final = {"openai_chat_streaming_requires_finish_reason": True}


_OTHER_ENDPOINT: Final = {**_ANY_ENDPOINT, "openai_chat_supports_max_completion_tokens": False}


def http_client(read_seconds: float) -> httpx2.AsyncClient:
    """Make a client that rejects answers that unpack to more than MAX_ANSWER_BYTES and logs no password in a URL."""
    import httpx2  # noqa: PLC0415 - only with the extra
    from pydantic_ai.models import create_async_httpx2_client  # noqa: PLC0415

    class Limited(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream, encoding: str) -> None:
            self._stream = stream
            self._encoding = encoding

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken_bytes = 0
            try:
                unpacker = Unpacker(self._encoding)
                async for chunk in self._stream:
                    for piece in unpacker.feed(chunk):
                        taken_bytes += len(piece)
                        if taken_bytes > MAX_ANSWER_BYTES:
                            raise TooMuchSaid(f"more than {MAX_ANSWER_BYTES:,} bytes")
                        yield piece
            except UnpackError as error:
                raise httpx2.DecodingError(f"the answer {error}") from error

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Limited(response.stream, response.headers.pop("content-encoding", ""))

    async def forget_user(request: httpx2.Request) -> None:
        """Remove credentials from the URL, which is logged; the key is in a header."""
        request.url = request.url.copy_with(userinfo=b"")

    client = create_async_httpx2_client(
        timeout=httpx2.Timeout(read_seconds, connect=CONNECT_SECONDS),
        limits=httpx2.Limits(max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEEP_SECONDS),
    )
    client.headers["accept-encoding"] = "gzip, deflate"
    client.event_hooks = {**client.event_hooks, "request": [forget_user], "response": [limit]}
    return client


def make_adapter(parsed: ModelName, key: ApiKey | None, client: httpx2.AsyncClient) -> Adapter[Any]:
    """Make the adapter for the provider of a model."""
    secret = key.value if key else None
    match parsed.kind:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
            from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

            return AnthropicModel(parsed.model, provider=AnthropicProvider(api_key=secret, http_client=client))
        case "google":
            from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
            from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

            return GoogleModel(parsed.model, provider=GoogleProvider(api_key=secret, http_client=client))
        case "openrouter":
            from pydantic_ai.models.openrouter import OpenRouterModel  # noqa: PLC0415
            from pydantic_ai.providers.openrouter import OpenRouterProvider  # noqa: PLC0415

            router = OpenRouterProvider(openai_client=_openai(parsed, secret, client))
            return OpenRouterModel(parsed.model, provider=router, profile=_profile(_ANY_ENDPOINT))
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415

    match parsed.kind:
        case "openai":
            from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

            openai = OpenAIProvider(openai_client=_openai(parsed, secret, client))
            return OpenAIChatModel(parsed.model, provider=openai, profile=_profile(_ANY_ENDPOINT))
        case "ollama":
            from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415
            from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415

            ollama = OllamaProvider(openai_client=_openai(parsed, secret, client))
            return OllamaModel(parsed.model, provider=ollama, profile=_profile(_OTHER_ENDPOINT))
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

    other = OpenAICompatibleProvider(parsed.provider, openai_client=_openai(parsed, secret, client))
    return OpenAIChatModel(parsed.model, provider=other, profile=_profile(_OTHER_ENDPOINT))


def _profile(values: dict[str, bool]) -> Any:
    """Cast a part of a profile: each family has its own class, but all are dictionaries."""
    return dict(values)


def _openai(parsed: ModelName, secret: str | None, client: httpx2.AsyncClient) -> AsyncOpenAI:
    """Make OpenAI's client. Account settings in the environment apply to OpenAI only."""
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415

    if parsed.kind == "openai":
        return AsyncOpenAI(api_key=secret, http_client=client, max_retries=0)
    return AsyncOpenAI(
        api_key=secret or NO_KEY,
        base_url=address_of(parsed),
        http_client=client,
        max_retries=0,
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},
    )


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """The arguments of a pydantic-ai request."""

    mode: Mode
    messages: list[ModelMessage]
    settings: Any
    """A `ModelSettings` with a provider's own keys."""
    parameters: ModelRequestParameters


def batch_adapter(parsed: ModelName, adapter: Adapter[Any]) -> Adapter[Any]:
    """Return the model for batches, which use the Responses API at OpenAI."""
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
        """Submit as few batches as the provider allows; return one handle for all of them."""
        encoded = [await self._adapter.batch_encode(_batch_request(key, request)) for key, request in requests.items()]
        created = [await self._adapter.batch_create(group) for group in self._groups(encoded)]
        return bytes(_handles().dump_json(created)).decode()

    async def collect(
        self, handle: str, requests: Mapping[str, ProviderRequest], target: CallTarget
    ) -> dict[str, Answer | ModelError] | None:
        """Return the result of each request; None while a batch is in progress."""
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
                # The job ended without results, and does not list its requests.
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
        """Yield groups of requests that can share a batch."""
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
