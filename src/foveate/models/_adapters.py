"""Making pydantic-ai's adapter for a name, and the HTTP client that it and the `ProviderModel` share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from foveate.models._failures import TooMuchSaid
from foveate.models.names import Key, ModelName, address_of

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model as Adapter

CONNECT_SECONDS: Final = 15.0
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
NO_KEY: Final = "no-key"
"""Sent where an endpoint has no key: OpenAI's package insists on one."""

# A stream must say that it is done; a server that is not OpenAI's may know the older name of the output limit only.
_ANY_ENDPOINT: Final = {"openai_chat_streaming_requires_finish_reason": True}
_OTHER_ENDPOINT: Final = {**_ANY_ENDPOINT, "openai_chat_supports_max_completion_tokens": False}


def http_client(read_seconds: float) -> httpx2.AsyncClient:
    """A client that reads no answer larger than MAX_ANSWER_BYTES, and logs no password of an address."""
    import httpx2  # noqa: PLC0415 - only with the extra
    from pydantic_ai.models import create_async_httpx2_client  # noqa: PLC0415

    class Limited(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken_bytes = 0
            async for chunk in self._stream:
                taken_bytes += len(chunk)
                if taken_bytes > MAX_ANSWER_BYTES:
                    raise TooMuchSaid(f"more than {MAX_ANSWER_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = Limited(response.stream)

    async def forget_user(request: httpx2.Request) -> None:
        """It is in a header by now; what stands in the address is logged."""
        request.url = request.url.copy_with(userinfo=b"")

    client = create_async_httpx2_client(timeout=httpx2.Timeout(read_seconds, connect=CONNECT_SECONDS))
    client.event_hooks = {**client.event_hooks, "request": [forget_user], "response": [limit]}
    return client


def make_adapter(parsed: ModelName, key: Key | None, client: httpx2.AsyncClient) -> Adapter[Any]:
    """The adapter for the provider that the name leads to."""
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
    """A part of a profile: each family's keys are typed in a class of its own, which all are dictionaries."""
    return dict(values)


def _openai(parsed: ModelName, secret: str | None, client: httpx2.AsyncClient) -> AsyncOpenAI:
    """OpenAI's client. What its environment says of an OpenAI account is for OpenAI only."""
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415

    if parsed.kind == "openai":
        return AsyncOpenAI(api_key=secret, http_client=client, max_retries=0)
    return AsyncOpenAI(
        api_key=secret or NO_KEY,
        base_url=address_of(parsed),
        http_client=client,
        max_retries=0,
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
    )
