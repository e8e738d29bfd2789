"""SWE-agent's trajectories: a `.traj` file is one JSON object and one session, named after the file.

Its `history` is the conversation. Everything else (steps, environment, statistics, configuration) comes after it
as one display-only record: the same object with an empty `history`. Roles are unchanged: for a model without native
tool calls, SWE-agent shows each observation as a user message, so each opens a turn, which keeps an action next to
the observation it answers. A demonstration before the task is an injection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import PurePath
from typing import BinaryIO

from foveate.formats import (
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    load,
    parse_message,
    render_messages,
)
from foveate.formats.files import content_key, decode_json, encode_json, read_list, read_whole
from foveate.formats.parse import record as as_record
from foveate.formats.parse import text_at, value_at
from foveate.turn import Json, Message, Reasoning

NAME = "swe-agent"


def detect(head: bytes, name: str) -> bool:
    start = head.lstrip()
    if not start.startswith(b"{"):
        return False
    return name.endswith(".traj") or (b'"trajectory"' in start and (b'"environment"' in start or b'"history"' in start))


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    try:
        raw = read_whole(stream)
        if not raw.strip():
            return
        trajectory = decode_json(raw)
    except ValueError as error:
        yield TranscriptProblem("the file", str(error))
        return
    history = value_at(trajectory, "history")
    if not isinstance(trajectory, Mapping) or not isinstance(history, list):
        yield TranscriptProblem("the file", "is not a trajectory: it has no list 'history'")
        return
    session = PurePath(name).stem or "session"
    yield SessionHeader(session, model=_model(trajectory), platform=NAME, is_named_by_file=True)
    yield from read_list(session, history, NAME)
    if len(trajectory) > 1:
        rest: dict[str, Json] = {**trajectory, "history": []}
        yield TranscriptMessage(
            session, content_key(len(history), rest), parse_message(NAME, rest), "after the messages"
        )


def _model(trajectory: Mapping[str, Json]) -> str | None:
    """Return the configured model; newer versions store the configuration as JSON text."""
    config = trajectory.get("replay_config")
    if isinstance(config, str):
        try:
            config = decode_json(config.encode(errors="surrogatepass"))
        except ValueError:
            return None
    return text_at(config, "agent", "model", "name")


def parse(data: Json, path: str) -> Message:
    """Parse a message of the history, or the rest of the trajectory."""
    record = as_record(data, path)
    if "role" not in record and record.get("history") == []:
        return Message("system", kind="display")
    message = load("openai").parse(_as_openai(record), path)
    thinking = record.get("thinking_blocks")
    if isinstance(thinking, list):
        message = replace(message, parts=(*_reasoning(thinking), *message.parts))
    return replace(message, kind="injection") if record.get("is_demo") is True else message


def _as_openai(record: Mapping[str, Json]) -> dict[str, Json]:
    """Return an OpenAI message; SWE-agent lists the ids of the calls that a result answers, one per step."""
    kept: dict[str, Json] = {
        key: record[key] for key in ("role", "content", "name", "tool_calls", "tool_call_id") if key in record
    }
    if kept.get("tool_calls") is None:
        kept.pop("tool_calls", None)
    ids = record.get("tool_call_ids")
    if kept.get("role") == "tool" and "tool_call_id" not in kept and isinstance(ids, list) and ids:
        kept["tool_call_id"] = ids[0]
    return kept


def _reasoning(blocks: list[Json]) -> Iterator[Reasoning]:
    for block in blocks:
        text = text_at(block, "thinking")
        if text is not None:
            yield Reasoning(text, signature=text_at(block, "signature"))


def write(messages: Sequence[Message]) -> Iterator[str]:
    history: list[Json] = []
    trajectory: Mapping[str, Json] = {}
    for native, run in groupby(messages, key=lambda message: message.original and message.original.format == NAME):
        if not native:
            history.extend(map(_of_agent, render_messages("openai", list(run))))
            continue
        for data in (message.original.data for message in run if message.original):
            if isinstance(data, Mapping) and data.get("history") == []:
                trajectory = data
            else:
                history.append(data)
    yield encode_json({**trajectory, "history": history}) + "\n"


def _of_agent(rendered: Json) -> Json:
    """Return an OpenAI message as a step of SWE-agent's only agent."""
    record = dict(as_record(rendered, "message"))
    answered = record.pop("tool_call_id", None)
    if answered is not None:
        record["tool_call_ids"] = [answered]
    return {**record, "agent": "main"}
