"""LiteLLM: a callback that records the requests and answers of `acompletion`, and keeps requests within a budget.

    litellm.callbacks = [FoveateLogger(chat)]
    await litellm.acompletion(model="…", messages=[…])

LiteLLM calls hooks that may change a request only in its asynchronous functions; `completion` is not recorded. A
streamed answer is recorded when LiteLLM reports it, or with the next request, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from foveate.adapters.bridge import AnySession, Bridge
from foveate.intake.conversation import Conversation, Overhead, View

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise ImportError(f"{error.name or 'litellm'} is missing: pip install 'foveate[litellm]'") from error

FORMAT: Final = "openai"
CALL_TYPES: Final = ("acompletion", "completion")
CALL_ID: Final = "litellm_call_id"


class FoveateLogger(CustomLogger):
    """An endless conversation for LiteLLM."""

    def __init__(self, session: AnySession) -> None:
        super().__init__()
        self._bridge = Bridge(session)
        self._conversation = Conversation(self._bridge.session)
        self._views: dict[str, View] = {}
        """Unanswered requests, by the call's id."""

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Record new messages, and send the view."""
        if getattr(call_type, "value", call_type) not in CALL_TYPES or not kwargs.get("messages"):
            return None
        self._release()
        everything = list(kwargs["messages"])
        systems = [message for message in everything if message.get("role") in ("system", "developer")]
        messages = [message for message in everything if message.get("role") not in ("system", "developer")]
        overhead = Overhead("\n\n".join(map(_text, systems)), kwargs.get("tools") or ())
        view = await self._bridge.wait(self._conversation.view(FORMAT, messages, overhead))
        self._views[str(kwargs.get(CALL_ID, ""))] = view
        extra = [{"role": "system", "content": view.extra_system}] if view.extra_system else []
        return {**kwargs, "messages": [*systems, *extra, *view.messages]}

    async def async_post_call_success_deployment_hook(
        self,
        request_data: dict[str, Any],
        response: Any,
        call_type: Any,  # noqa: ARG002 - LiteLLM's signature
    ) -> Any:
        """Record an answer that was not streamed."""
        await self._answer(request_data, response)

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Record a streamed answer once it is complete."""
        await self._answer(kwargs, kwargs.get("async_complete_streaming_response") or response_obj)

    async def async_log_failure_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,  # noqa: ARG002
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Release a request that gets no answer."""
        if (view := self._views.pop(str(kwargs.get(CALL_ID, "")), None)) is not None:
            self._conversation.release(view)

    async def _answer(self, request: Mapping[str, Any], response: Any) -> None:
        choices = getattr(response, "choices", None)
        message = getattr(choices[0], "message", None) if choices else None
        if message is None:
            return  # a stream that has only begun
        view = self._views.pop(str(request.get(CALL_ID, "")), None)
        if view is not None:
            answer: Sequence[dict[str, Any]] = [_filled(message.model_dump(exclude_none=True))]
            await self._bridge.wait(self._conversation.answer(view, FORMAT, answer))

    def _release(self) -> None:
        """Release unanswered requests: the next request contains their answers."""
        for view in self._views.values():
            self._conversation.release(view)
        self._views.clear()


def _filled(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message without the fields that LiteLLM adds to every answer."""
    return {name: value for name, value in message.items() if value or name in ("role", "content")}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
