"""A chat by a provider's own package, as a program of the user's would do it: the whole history with each request.

python bench/clients/sdk_chat.py FORMAT HISTORY.json NUMBER PROMPT       # $TEST_URL is the server, $TEST_KEY the key

A prompt that begins with `repeat 300: ` is asked 300 times, with a number; `edit: ` replaces the last prompt.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

URL, KEY = os.environ["TEST_URL"], os.environ["TEST_KEY"]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SYSTEM = "You are a helpful assistant."
MAX_ROUNDS = 5
EDIT = "edit: "
Messages = list[dict[str, Any]]


def run(arguments: dict[str, Any]) -> str:
    """The tool: nothing is really run."""
    return f"ran: {arguments.get('command', '')}"


def ask_openai(messages: Messages) -> bool:
    from openai import OpenAI

    tool = {"type": "function", "function": {"name": "run", "description": "Run a command", "parameters": SCHEMA}}
    client: Any = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    sent = [{"role": "system", "content": SYSTEM}, *messages]
    calls: dict[int, dict[str, Any]] = {}
    text = ""
    for chunk in client.chat.completions.create(model="scripted", messages=sent, tools=[tool], stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = part.id or call["id"]
                call["name"] = part.function.name or call["name"]
                call["arguments"] += part.function.arguments or ""
    reply: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        reply["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls.values()
        ]
    messages.append(reply)
    for call in calls.values():
        result = run(json.loads(call["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return bool(calls)


def ask_responses(messages: Messages) -> bool:
    from openai import OpenAI

    tool = {"type": "function", "name": "run", "description": "Run a command", "parameters": SCHEMA, "strict": False}
    client: Any = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    with client.responses.stream(
        model="scripted", instructions=SYSTEM, input=messages, tools=[tool], store=False
    ) as stream:
        response = stream.get_final_response()
    called = False
    for item in response.output:
        kept = item.model_dump(mode="json", exclude_none=True, exclude={"parsed_arguments"})
        for part in kept.get("content", []):
            part.pop("parsed", None)
        messages.append(kept)
        if item.type == "function_call":
            called = True
            result = run(json.loads(item.arguments))
            messages.append({"type": "function_call_output", "call_id": item.call_id, "output": result})
    return called


def ask_anthropic(messages: Messages) -> bool:
    from anthropic import Anthropic

    tool = {"name": "run", "description": "Run a command", "input_schema": SCHEMA}
    client: Any = Anthropic(base_url=URL, api_key=KEY)
    with client.messages.stream(
        model="claude-haiku-4-5", max_tokens=1_000, system=SYSTEM, messages=messages, tools=[tool]
    ) as stream:
        reply = stream.get_final_message()
    content = [block.model_dump(mode="json", exclude_none=True, exclude={"parsed_output"}) for block in reply.content]
    messages.append({"role": "assistant", "content": content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if calls:
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": run(call.input)} for call in calls]
        messages.append({"role": "user", "content": results})
    return bool(calls)


def ask_gemini(messages: Messages) -> bool:
    from google import genai
    from google.genai import types

    declared = {"name": "run", "description": "Run a command", "parameters": SCHEMA}
    client: Any = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL))
    config: dict[str, Any] = {"system_instruction": SYSTEM, "tools": [{"function_declarations": [declared]}]}
    config["automatic_function_calling"] = {"disable": True}
    parts: list[dict[str, Any]] = []
    for chunk in client.models.generate_content_stream(model="gemini-scripted", contents=messages, config=config):
        parts += [part.model_dump(mode="json", exclude_none=True) for part in chunk.candidates[0].content.parts]
    messages.append({"role": "model", "parts": parts})
    calls = [part["function_call"] for part in parts if "function_call" in part]
    if calls:
        results = [
            {"function_response": {"name": call["name"], "response": {"result": run(call.get("args", {}))}}}
            for call in calls
        ]
        messages.append({"role": "user", "parts": results})
    return bool(calls)


ASK = {"openai": ask_openai, "openai-responses": ask_responses, "anthropic": ask_anthropic, "gemini": ask_gemini}


def is_prompt(message: dict[str, Any]) -> bool:
    """Whether the user says something in it, as against a tool's result."""
    said = message.get("content") or [part for part in message.get("parts", []) if "text" in part]
    return message.get("role") == "user" and "tool_result" not in json.dumps(said) and bool(said)


def main(name: str, path: Path, number: int, prompt: str) -> None:
    messages: Messages = json.loads(path.read_text("utf-8")) if number else []
    if prompt.startswith(EDIT):
        prompts = [place for place, message in enumerate(messages) if is_prompt(message)]
        messages, prompt = messages[: prompts[-1]], prompt.removeprefix(EDIT)
    times = re.match(r"repeat (\d+): ", prompt)
    for place in range(int(times[1]) if times else 1):
        words = f"This is number {place + 1} of them. {prompt[times.end() :]}" if times else prompt
        said = {"parts": [{"text": words}]} if name == "gemini" else {"content": words}
        messages.append({"role": "user", **said})
        for _ in range(MAX_ROUNDS):
            if not ASK[name](messages):
                break
    path.write_text(json.dumps(messages), "utf-8")
    print(json.dumps(messages[-1])[:500])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
