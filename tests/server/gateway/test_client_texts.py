"""What a client sends besides the conversation, in a conversation that no longer fits its budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.gateway import HEADERS, body_of, gateway, run
from support.upstream import Upstream, say

LONG = "A sentence about the tide tables of the harbour, with many words in it. " * 60
SHORT = LONG[:800]
RULE = "<system-reminder>\nContents of /work/CLAUDE.md:\n\nAnswer in French, never in <T-1-R>.\n</system-reminder>\n"
ENVIRONMENT = "# Environment\n - Primary working directory: /work\nDeferred tools: WebFetch"


def anthropic(number: int) -> list[dict[str, Any]]:
    first = [{"role": "user", "content": [{"type": "text", "text": RULE}, {"type": "text", "text": LONG}]}]
    return (
        [*first, {"role": "system", "content": ENVIRONMENT}]
        if number == 0
        else [{"role": "user", "content": f"question {number}: {LONG}"}]
    )


def responses(number: int) -> list[dict[str, Any]]:
    text = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nAnswer in French.\n</INSTRUCTIONS>"
    context = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"
    content = [{"type": "input_text", "text": text}, {"type": "input_text", "text": context}]
    first = [{"type": "message", "role": "user", "content": content}] if number == 0 else []
    said = [{"type": "input_text", "text": f"question {number}: {LONG}"}]
    return [*first, {"type": "message", "role": "user", "content": said}]


def chat(number: int) -> list[dict[str, Any]]:
    middle = [{"role": "developer", "content": "From now on, answer in French."}] if number == 1 else []
    return [{"role": "user", "content": f"question {number}: {LONG}"}, *middle]


@pytest.mark.parametrize(
    ("path", "field", "spoken", "texts"),
    [
        ("/v1/messages", "messages", anthropic, ["Answer in French", "working directory: /work", "WebFetch"]),
        ("/v1/responses", "input", responses, ["Answer in French.", "<cwd>/work</cwd>"]),
        ("/v1/chat/completions", "messages", chat, ["From now on, answer in French."]),
    ],
)
def test_what_a_client_instructs_is_in_every_request_once_the_conversation_is_compressed(
    tmp_path: Path, path: str, field: str, spoken: Any, texts: list[str]
) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(LONG))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=8_000) as (_, client):
            for number in range(9):
                history += spoken(number)
                body = {**body_of([]), field: history}
                if field == "input":
                    del body["messages"], body["max_tokens"]
                reply = await client.post(path, json=body, headers=HEADERS)
                assert reply.status_code == 200, reply.text
                kind = "output_text" if field == "input" else "text"
                history.append({"role": "assistant", "content": [{"type": kind, "text": LONG}]})
        sent = [json.dumps(body) for body in upstream.bodies]
        assert "<T-1" in sent[-1] or "T-1-through" in sent[-1]
        missing = [(index, text) for index, one in enumerate(sent) for text in texts if index and text not in one]
        assert missing == []

    run(scenario)


def test_a_newer_version_of_an_instruction_replaces_the_older_one_when_its_turn_is_compressed(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream(lambda _: say(SHORT))
        history: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=4_000) as (_, client):
            for number in range(24):
                note = f"<system-reminder>\nCurrent branch: feature-{number}\n</system-reminder>\n"
                content = [{"type": "text", "text": note}, {"type": "text", "text": f"question {number}: {SHORT}"}]
                history.append({"role": "user", "content": content})
                await client.post("/v1/messages", json=body_of(history), headers=HEADERS)
                history.append({"role": "assistant", "content": SHORT})
        pins = [str(body.get("system", "")) for body in upstream.bodies]
        assert [pin.count("feature-") for pin in pins[-6:]] == [1] * 6
        assert all(f"feature-{number}" in json.dumps(upstream.bodies[number]["messages"]) for number in range(24))
        # Between two rebuilds the pins, which are in the cached prefix, are the same.
        assert len(set(pins[-6:])) < 6

    run(scenario)


def files(number: int) -> list[dict[str, Any]]:
    """Return what Aider adds to the prompt of a turn: its file in the present version, with the fixed reply."""
    content = f"f.py\n```\nversion = {number}\n{LONG}\n```"
    added = f"I have *added these files to the chat* so you can go ahead and edit them.\n\n{content}\n"
    return [
        {"role": "user", "content": added},
        {"role": "assistant", "content": "Ok, any changes I propose will be to those files."},
    ]


@pytest.mark.parametrize("budget_tokens", [100_000, 8_000])
def test_a_file_that_aider_sends_anew_with_each_prompt_goes_out_once_in_its_newest_version(
    tmp_path: Path, budget_tokens: int
) -> None:
    rules = "\n\nTo suggest changes to a file you MUST return the entire content of the updated file."

    async def scenario() -> None:
        upstream = Upstream(lambda _: say(LONG))
        done: list[dict[str, Any]] = []
        async with gateway(tmp_path, upstream, budget_tokens=budget_tokens) as (fov, client):
            for number in range(8):
                messages = [*done, *files(number), {"role": "user", "content": f"question {number}{rules}"}]
                await client.post("/v1/chat/completions", json=body_of(messages), headers=HEADERS)
                if budget_tokens == 100_000:
                    assert upstream.bodies[-1]["messages"] == messages
                done += [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": LONG}]
            (info,) = await fov.sessions()
            session = await fov.open_session(info.id)
            log = [message.text for turn in await session.load_turns() for message in turn.messages]
        sent = [json.dumps(body["messages"]) for body in upstream.bodies]
        assert [text.count("version = ") for text in sent] == [1] * 8
        assert all(f"version = {number}" in text for number, text in enumerate(sent))
        assert [text.count("MUST return the entire content") for text in sent] == [1] * 8
        assert [sum(f"version = {number}" in text for text in log) for number in range(8)] == [1] * 8

    run(scenario)


def test_a_prompt_of_another_client_that_quotes_aiders_rules_is_recorded_whole(tmp_path: Path) -> None:
    text = "Explain this:\n# File editing rules:\nReturn edits like this. What does it mean?"

    async def scenario() -> None:
        upstream = Upstream(lambda _: say("ok"))
        async with gateway(tmp_path, upstream) as (fov, client):
            messages = [{"role": "user", "content": text}]
            await client.post("/v1/chat/completions", json=body_of(messages), headers=HEADERS)
            (info,) = await fov.sessions()
            (turn,) = await (await fov.open_session(info.id)).load_turns()
        assert (turn.messages[0].text, turn.messages[0].kind) == (text, "message")

    run(scenario)


FACT = "The port of the harbour service is 8443."


@pytest.mark.parametrize("question", ["And now?", "What is the port of the harbour service?"])
def test_in_a_folder_too_messages_go_out_as_they_came_with_system_messages_and_thinking(
    tmp_path: Path, question: str
) -> None:
    thinking = [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}, *say("Noted.")]
    tools = [{"name": "Bash", "description": "Run.", "input_schema": {"type": "object"}}]

    async def scenario() -> None:
        upstream = Upstream(lambda _: thinking)
        async with gateway(tmp_path, upstream) as (fov, client):

            async def ask(session: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
                headers = {**HEADERS, "x-foveate-session": session}
                await client.post("/v1/messages", json=body_of(messages, tools=tools), headers=headers)
                sent: list[dict[str, Any]] = upstream.bodies[-1]["messages"]
                return sent

            system = {"role": "system", "content": ENVIRONMENT, "clear_at": "next_user_message"}
            told: list[dict[str, Any]] = [{"role": "user", "content": FACT}, system]
            for number in range(40):
                told += [
                    {"role": "assistant", "content": "Noted."},
                    {"role": "user", "content": f"Refactor module number {number} of the lighthouse project."},
                ]
            await ask("s-1", told)
            await fov.settle()
            await fov.prepare("s-1")
            messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello, rename the tide module."}, system]
            await ask("s-2", messages)
            messages += [{"role": "assistant", "content": thinking}, {"role": "user", "content": question}]
            *before, newest = await ask("s-2", messages)
        for block in before[-1]["content"]:  # where the gateway lets the provider cache what comes before
            block.pop("cache_control", None)
        assert before == messages[:-1]
        if "port" in question:
            assert FACT in newest["content"][0]["text"]
            assert newest["content"][-1]["text"] == question
        else:
            assert newest == messages[-1]

    run(scenario)
