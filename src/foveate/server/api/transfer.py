"""Import and export as streams, and comparisons of strategies as jobs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict
from starlette.responses import StreamingResponse

from foveate.client import Foveate
from foveate.client import open as open_store
from foveate.errors import InputError
from foveate.importer import ImportReport, unpacked_bytes
from foveate.replay.compare import compare
from foveate.replay.report import Comparison
from foveate.replay.script import Surroundings
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.jobs import Advance, JobResource
from foveate.server.bodies import spool_body
from foveate.server.problems import ProblemError
from foveate.server.settings import MB
from foveate.server.time_limits import allow_long
from foveate.session import Session
from foveate.session.values import SessionInfo
from foveate.settings import Settings, check_strategy, load_settings, strategy_names
from foveate.turn import Turn

routes = Endpoints("transfer")
Write = Callable[[BinaryIO], Awaitable[object]]
"""Writes a transcript into a file."""
BUDGETS_TOKENS = [16_000, 64_000]
DOCUMENTS = ("goals", "epic", "tasks")


class ImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of an import."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "transcript.jsonl"
    """The file name; also the name of a session without an id."""
    format: str | None = None
    """Default: detected."""
    session: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Id of its first session. Default: the transcript's own."""


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of an export."""

    format: str = "json"
    """`json` (everything), `markdown`, or a transcript format."""
    first: str = "T-1"
    last: str | None = None
    after: str | None = None
    """Turns that began after this time: `2026-11-15`, `7d` (ago) or `yesterday`."""
    before: str | None = None


class CompareBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a comparison."""

    strategies: list[str] = []
    """Default: all."""
    budgets_tokens: Annotated[list[Annotated[int, Meta(ge=1, le=100_000_000)]], Meta(min_length=1, max_length=10)] = (
        msgspec.field(default_factory=lambda: list(BUDGETS_TOKENS))
    )
    needles: Annotated[list[str], Meta(max_length=100)] = []
    """Texts to look for in the last context."""
    every: Annotated[int, Meta(ge=1)] | None = None
    """Make only one call in this many. Default: chosen by the number of calls."""
    turns: Annotated[int, Meta(ge=1)] | None = None
    """Compare only this many turns from the beginning."""


@routes.add("POST", "/import", right="write", status=201, takes="application/octet-stream")
async def import_transcript(call: Call, query: ImportQuery) -> ImportReport:
    """Import a transcript, sent as the body. A second import adds only new messages."""
    if Path(query.name).name != query.name or query.name in (".", "..") or "\0" in query.name:
        raise ProblemError(422, f"name: {query.name[:50]!r} is not the name of a file")
    allow_long(call.request)
    max_mb = call.parts.settings.max_body_mb
    return await import_named(
        call.view,
        query.name,
        lambda file: spool_body(call.request, file, max_mb=max_mb),
        max_mb=max_mb,
        format_name=query.format,
        session_id=query.session,
    )


@routes.add("GET", "/sessions/{session}/export", right="read", media="text/plain")
async def export_session(session: Session, query: ExportQuery) -> str:
    """Export a conversation as a stream."""
    pieces = session.export(**asdict(query))
    return StreamingResponse(await export_stream(pieces), media_type="text/plain")  # type: ignore[return-value]


@routes.add("POST", "/sessions/{session}/compare", right="read", status=202)
async def compare_strategies(call: Call, session: Session, body: CompareBody) -> JobResource:
    """Replay a session through each strategy and budget, as a job. No model is called, and nothing is changed."""
    comparison = await PlannedComparison.of(call.view, session, body)

    async def work(advance: Advance) -> dict[str, Any]:
        summary: dict[str, Any] = msgspec.to_builtins((await comparison.run(advance)).summary(), enc_hook=str)
        return summary

    name = comparison.info.id
    started = call.parts.jobs.start(call.principal, "compare", name, total=comparison.total, work=work)
    return started.shown(call.principal)


async def import_named(
    view: Foveate,
    name: str,
    write: Write,
    *,
    max_mb: int,
    format_name: str | None = None,
    session_id: str | None = None,
) -> ImportReport:
    """Import a transcript that `write` stores in a file of this name. Errors use the client's name of the file."""
    with tempfile.TemporaryDirectory(prefix="foveate-import-") as folder:
        return await _import_into(
            view, Path(folder) / name, write, max_mb=max_mb, format_name=format_name, session_id=session_id
        )


async def _import_into(
    view: Foveate,
    path: Path,
    write: Write,
    *,
    max_mb: int,
    format_name: str | None = None,
    session_id: str | None = None,
) -> ImportReport:
    try:
        with path.open("wb") as file:
            await write(file)
        if await asyncio.to_thread(unpacked_bytes, path, format_name) > max_mb * MB:
            advice = "server.max_body_mb raises the limit; 'foveate import' has a larger one"
            raise ProblemError(413, f"{path.name} unpacks to more than {max_mb} MB; {advice}")
        report = await view.import_file(path, format=format_name, session_id=session_id)
    except (OSError, ValueError) as error:
        raise ProblemError(422, f"the transcript can't be read: {type(error).__name__}") from error
    except InputError as error:
        error.args = (str(error).replace(str(path), path.name),)
        raise
    report.source = path.name
    return report


@dataclass(frozen=True, slots=True)
class PlannedComparison:
    """A comparison whose turns are read from the store."""

    info: SessionInfo
    settings: Settings
    turns: list[Turn]
    around: Surroundings
    options: CompareBody

    @classmethod
    async def of(cls, view: Foveate, session: Session, options: CompareBody) -> PlannedComparison:
        """Read a session; raise `InputError` if there is nothing to compare."""
        for name in options.strategies:
            check_strategy(name)
        turns = await session.load_turns(1, options.turns)
        if not turns:
            raise InputError(f"session {session.id!r} has no turns to compare")
        documents = {name: await session.documents.get(name) for name in DOCUMENTS}
        around = Surroundings(session.info.title, tuple(pin.text for pin in await session.pins()), documents)
        return cls(session.info, view.settings, turns, around, options)

    @classmethod
    async def of_file(cls, name: str, write: Write, options: CompareBody, *, max_mb: int) -> PlannedComparison:
        """Read the longest session of a transcript that `write` stores in a file of this name.

        The transcript is imported into a temporary store.
        """
        raw = load_settings(overrides={"compress": {"enabled": False}, "store": {"synchronous": "normal"}})
        with tempfile.TemporaryDirectory(prefix="foveate-compare-") as folder:
            async with open_store(Path(folder) / "read.db", settings=raw) as fov:
                report = await _import_into(fov, Path(folder) / f"transcript-{name}", write, max_mb=max_mb)
                if not report.sessions:
                    raise InputError(f"{name}: no conversation was found in it (read as {report.format})")
                longest = max(report.sessions, key=lambda session: session.found)
                return await cls.of(fov, await fov.open_session(longest.id), options)

    @property
    def total(self) -> int:
        """Number of steps of the comparison."""
        runs = len(set(self.options.budgets_tokens)) * len(set(self.options.strategies) or strategy_names())
        return len(self.turns) * (1 + runs)

    async def run(self, advance: Advance) -> Comparison:
        """Replay the session through the strategies."""
        info = self.info
        return await compare(
            self.turns,
            strategies=self.options.strategies,
            budgets_tokens=tuple(dict.fromkeys(self.options.budgets_tokens)),
            needles=self.options.needles,
            strategy_settings={info.strategy: info.strategy_settings} if info.strategy_settings else {},
            settings=self.settings,
            model=info.model,
            around=self.around,
            every=self.options.every,
            progress=advance,
        )


async def export_stream(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Return the export as bytes; invalid arguments raise here, before the response starts."""
    return _chunks(await anext(pieces, ""), pieces)


async def _chunks(first: str, rest: AsyncIterator[str]) -> AsyncIterator[bytes]:
    yield first.encode("utf-8", "surrogatepass")
    async for piece in rest:
        yield piece.encode("utf-8", "surrogatepass")
        await asyncio.sleep(0)
