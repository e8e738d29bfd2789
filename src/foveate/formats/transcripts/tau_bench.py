"""Results of tau-bench: a JSON list of runs, each run a session named `<file>/<task>-<trial>`.

A run's messages are OpenAI's. Its other fields (task, reward, …) come after them as one display-only record: the same
run with an empty `traj`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import BinaryIO

from foveate.errors import InvalidMessage
from foveate.formats import (
    SessionHeader,
    TranscriptItem,
    TranscriptMessage,
    TranscriptProblem,
    parse_message,
    render_messages,
)
from foveate.formats.files import PlacedRecord, array_elements, content_key, encode_json, read_each, read_list
from foveate.formats.parse import listed_at
from foveate.formats.parse import record as as_record
from foveate.turn import Json, Message

NAME = "tau-bench"


def detect(head: bytes, name: str) -> bool:  # noqa: ARG001
    start = head.lstrip()
    return start.startswith(b"[") and b'"task_id"' in start and (b'"reward"' in start or b'"traj"' in start)


def read(stream: BinaryIO, name: str) -> Iterator[TranscriptItem]:
    stem = PurePath(name).stem or "session"
    times: dict[str, int] = {}

    def read_run(record: PlacedRecord) -> Iterator[TranscriptItem]:
        run = record.value
        if not isinstance(run, Mapping) or not isinstance(run.get("traj"), list):
            yield TranscriptProblem(record.place, "is not a run: it has no list 'traj'")
            return
        session = f"{stem}/{run.get('task_id', record.number)}-{run.get('trial', 0)}"
        times[session] = times.get(session, 0) + 1
        if times[session] > 1:
            session = f"{session}-{times[session]}"
        yield from _read_run(run, session, record.place)

    return read_each(array_elements(stream, "run"), read_run)


def _read_run(run: Mapping[str, Json], session: str, place: str) -> Iterator[TranscriptItem]:
    title = f"tau-bench task {run.get('task_id')}, trial {run.get('trial', 0)}"
    yield SessionHeader(session, title=title, platform=NAME, is_named_by_file=True)
    records = listed_at(run, "traj")
    yield from read_list(session, records, "openai", f"{place}, ")
    rest: dict[str, Json] = {**run, "traj": []}
    yield TranscriptMessage(session, content_key(len(records), rest), parse_message(NAME, rest), place)


def parse(data: Json, path: str) -> Message:
    run = as_record(data, path)
    if run.get("traj") != []:
        raise InvalidMessage(f"{path}.traj", "must be empty: a run's messages are kept one by one")
    return Message("system", kind="display")


def write(messages: Sequence[Message]) -> Iterator[str]:
    """Yield a list of one run; an unknown run has neither task nor reward."""
    run: Mapping[str, Json] = {"task_id": None, "reward": None, "info": {}, "traj": [], "trial": 0}
    conversation = []
    for message in messages:
        if message.original is not None and message.original.format == NAME:
            run = as_record(message.original.data, "run")
        else:
            conversation.append(message)
    yield encode_json([{**run, "traj": render_messages("openai", conversation)}]) + "\n"
