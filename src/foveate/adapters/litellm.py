"""LiteLLM: a callback that records what `acompletion` is asked and answers, and keeps requests within a budget.

    litellm.callbacks = [FoveateLogger(chat)]
    await litellm.acompletion(model="…", messages=[…])

LiteLLM calls hooks that may change a request in its asynchronous functions only; `completion` is not recorded. An
answer that was streamed is recorded when LiteLLM reports it, or with the next request, whichever comes first.
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
        """Requests without answer, by the call's id."""

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Record what is new, and send the view."""
        if getattr(call_type, "value", call_type) not in CALL_TYPES or not kwargs.get("messages"):
            return None
        self._release()
        given = list(kwargs["messages"])
        systems = [message for message in given if message.get("role") in ("system", "developer")]
        messages = [message for message in given if message.get("role") not in ("system", "developer")]
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
        """Record an answer that came whole."""
        await self._answer(request_data, response)

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Record an answer that was streamed, once it is complete."""
        await self._answer(kwargs, kwargs.get("async_complete_streaming_response") or response_obj)

    async def async_log_failure_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,  # noqa: ARG002
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """No answer comes."""
        if (view := self._views.pop(str(kwargs.get(CALL_ID, "")), None)) is not None:
            self._conversation.release(view)

    async def _answer(self, request: Mapping[str, Any], response: Any) -> None:
        choices = getattr(response, "choices", None)
        message = getattr(choices[0], "message", None) if choices else None
        if message is None:
            return  # a stream that has only begun
        view = self._views.pop(str(request.get(CALL_ID, "")), None)
        if view is not None:
            said: Sequence[dict[str, Any]] = [_filled(message.model_dump(exclude_none=True))]
            await self._bridge.wait(self._conversation.answer(view, FORMAT, said))

    def _release(self) -> None:
        """The next request has the answers of those before it."""
        for view in self._views.values():
            self._conversation.release(view)
        self._views.clear()


def _filled(message: dict[str, Any]) -> dict[str, Any]:
    """The message without what LiteLLM adds to every answer."""
    return {name: value for name, value in message.items() if value or name in ("role", "content")}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
