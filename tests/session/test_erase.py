"""An erased turn or text is nowhere in the store, and the store stays whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import zstandard

from foveate import Foveate
from foveate.errors import ErasedMeanwhile, ForkInUse, InputError, InvalidMessage, TurnNotFound, TurnPruned
from foveate.intake.chain import read_history
from foveate.intake.recorder import Placement, Recorder, SessionChoice
from foveate.intake.sessions import ClientId
from foveate.server.gateway.wires import WIRES
from foveate.session.client_calls import CallNote
from foveate.session.sent import SentBodies
from foveate.store import erase
from foveate.store.bodies import ZSTD_MAGIC
from foveate.store.erase import SENT, SENT_ELSEWHERE, TITLES
from foveate.store.operations import Derived
from foveate.turn import Message, Text, ToolResult
from support.engine import assistant, opened, talk, tool_step, user, with_store

SECRET = "zebrafish-4417"
STRATEGIES = ["gradient", "standard", "checkpoint", "hybrid", "topics", "oneshot"]


async def tell(fov: Foveate, strategy: str = "gradient", **given: Any) -> Any:
    """A conversation whose fourth turn has a secret in the prompt, a tool call, its result and the answer."""
    session = await fov.session("s", budget_tokens=6_000, strategy=strategy, **given)
    await talk(session, 3)
    await session.record(
        [
            user(f"My password is {SECRET}, keep it safe."),
            *tool_step(4, f"stored {SECRET} in the vault\n" * 20),
            assistant(f"I have stored {SECRET}."),
        ]
    )
    return session


def holders(path: Path, words: Sequence[str] = (SECRET, "zebrafish")) -> list[str]:
    """The files of a store whose bytes have one of these words, compressed or not, free pages included."""
    files = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))]
    data = {file.name: with_frames(file.read_bytes()).lower() for file in files if file.exists()}
    return [name for name, raw in data.items() if any(word.encode() in raw for word in words)]


def with_frames(data: bytes) -> bytes:
    """The bytes of a file, and what its compressed values say."""
    frames = []
    place = data.find(ZSTD_MAGIC)
    while place >= 0:
        with suppress(zstandard.ZstdError):
            frames.append(zstandard.ZstdDecompressor().decompressobj().decompress(data[place : place + 100_000]))
        place = data.find(ZSTD_MAGIC, place + 1)
    return b"\n".join([data, *frames])


async def sound(fov: Foveate) -> bool:
    return [found.problem async for found in fov.check() if found.problem] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("last", [False, True])
def test_an_erased_turn_is_in_no_file_context_search_or_export(strategy: str, last: bool, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        session = await tell(fov, strategy)
        if not last:
            await talk(session, 6, first=5)
        await fov.settle()
        await session.context("What is my password?")
        await session.call_tool("get_turn", {"turn_id": "T-4"})  # onto the board
        assert await session.search(SECRET)
        assert holders(path)
        preview = await session.erase("T-4")
        assert not preview.is_erased
        assert preview.counts["messages"] == 4
        assert await session.search(SECRET)
        report = await session.erase("T-4", by="Anna", dry_run=False)
        assert report.is_erased
        assert report.counts["renditions"] >= 1
        for handle in (session, await fov.session("s")):
            assert SECRET not in (await handle.context("What is my password?")).text
            assert await handle.search(SECRET) == []
        await fov.settle()
        assert SECRET not in (await session.context("And now?")).text
        for form in ("json", "markdown", "openai"):
            assert SECRET not in "".join([piece async for piece in session.export(form)])
        with pytest.raises(TurnPruned, match="erased on 20"):
            await session.load_turn("T-4")
        outline = (await session.outline("T-4", "T-4"))[0]
        assert outline.is_pruned
        assert outline.erased_at
        assert (await session.record([user("Next?"), assistant("Yes.")])).id == ("T-5" if last else "T-11")
        assert await sound(fov)
        assert holders(path) == []

    asyncio.run(with_store(path, job))
    assert holders(path) == []


def test_an_erasure_is_audited_without_what_it_erased(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await session.erase("T-4", by="Anna", dry_run=False)
        (row,) = await session.erasures()
        assert (row.kind, row.turns, row.by, row.counts["messages"]) == ("turns", ("T-4",), "Anna", 4)
        assert row.overwritten_at
        rows = await fov.store.passages.read(lambda db: db.execute("SELECT * FROM erasures").fetchall())
        assert SECRET not in repr(rows)
        digests = await fov.store.passages.read(
            lambda db: db.execute("SELECT digest FROM messages WHERE erased_us IS NOT NULL").fetchall()
        )
        assert {bytes(digest) for (digest,) in digests} == {b""}  # a hash of a short text can be guessed

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_erased_text_is_replaced_and_the_rest_of_its_turn_stays(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        session = await tell(fov, title=f"About {SECRET}")
        call = {"id": "c9", "type": "function", "function": {"name": "exec", "arguments": json.dumps({"k": SECRET})}}
        await session.record(
            [
                {"role": "user", "content": "Use it."},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c9", "content": json.dumps({"out": SECRET})},
                {"role": "assistant", "content": "Used."},
            ]
        )
        await session.goals.add(f"Rotate {SECRET}")
        await session.documents.give("epic", f"Everything about {SECRET}")
        pin = await session.pin(f"Never print {SECRET}.")
        await talk(session, 4, first=20)
        await fov.settle()
        await session.context("What is my password?")
        report = await session.erase(text=SECRET, by="Anna", dry_run=False)
        assert report.turns == ("T-4", "T-5")
        assert [quoted.id for quoted in report.pins] == [pin.id]
        assert (await session.load_turn("T-4")).messages[0].text == "My password is [erased], keep it safe."
        arguments = (await session.load_turn("T-5")).messages[1].tool_calls[0].arguments
        assert arguments == {"k": "[erased]"}
        assert (await session.refresh()).title == "About [erased]"
        assert [goal.title for goal in await session.goals.list()] == ["Rotate [erased]"]
        await fov.settle()
        found = await session.search("keep it safe")
        assert found
        assert found[0].turn_id == "T-4"
        assert SECRET in (await session.context("What is my password?")).text  # the pin is the user's
        report = await session.erase(text=SECRET, pins=True, by="Anna", dry_run=False)
        assert report.counts == {"pins": 1, **{k: v for k, v in report.counts.items() if k != "pins"}}
        assert await session.pins() == []
        assert SECRET not in (await session.context("What is my password?")).text
        assert await session.search(SECRET) == []
        assert await sound(fov)
        assert (await session.erase(text=SECRET)).counts.get("messages") is None
        assert holders(path, (SECRET,)) == []

    asyncio.run(with_store(path, job))
    assert holders(path, (SECRET,)) == []


def test_a_text_is_erased_in_all_sessions_of_a_tenant_and_in_no_other(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        anna, bob = fov.tenant("anna"), fov.tenant("bob")
        for view in (anna, bob):
            for name in ("one", "two"):
                await (await view.session(name)).record([user(f"It is {SECRET}."), assistant("Noted.")])
        await (await anna.session("three")).record([user("Nothing."), assistant("Noted.")])
        assert [report.session_id for report in await anna.erase_text(SECRET)] == ["two", "one"]
        reports = await anna.erase_text(SECRET, dry_run=False)
        assert all(report.is_erased for report in reports)
        assert await anna.erase_text(SECRET) == []
        assert (await (await bob.session("one")).load_turn(1)).messages[0].text == f"It is {SECRET}."
        assert (await (await anna.session("one")).load_turn(1)).messages[0].text == "It is [erased]."

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_turn_that_a_fork_reads_is_erased_only_with_its_forks(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        fork = await session.fork("fork", "T-4")
        deep = await fork.fork("deep")
        await fork.record([user("In the fork."), assistant("Yes.")])
        await deep.record([user("Deep."), assistant("Yes.")])
        early = await session.fork("early", "T-2")
        await early.record([user("Early."), assistant("Yes.")])
        await fov.settle()
        for each in (fork, deep, early):
            await each.context("My password?")
        assert (await session.erase("T-4")).forks == ("fork", "deep")
        with pytest.raises(ForkInUse):
            await session.erase("T-4", dry_run=False)
        with pytest.raises(InputError, match="belongs to session 's'"):
            await fork.erase("T-4")
        assert await fork.search(SECRET)
        await session.erase("T-4", forks=True, dry_run=False)
        for each in (session, fork, deep):
            assert await each.search(SECRET) == []
            assert SECRET not in (await each.context("My password?")).text
        assert (await fork.load_turn("T-5")).messages[0].text == "In the fork."
        assert holders(path) == []
        assert await sound(fov)

    asyncio.run(with_store(path, job))


def test_a_rendition_in_progress_does_not_write_an_erased_turn_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    add: Any = Derived.add_renditions

    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await talk(session, 3, first=5)
        erased: list[object] = []

        async def late(derived: Derived, *given: Any, **named: Any) -> Any:
            if not erased:
                erased.append(await session.erase("T-4", dry_run=False, overwrite=False))
            return await add(derived, *given, **named)

        monkeypatch.setattr(Derived, "add_renditions", late)
        await fov.settle()
        assert erased
        assert await session.search(SECRET) == []
        await fov.overwrite_erased()
        assert holders(path) == []

    asyncio.run(with_store(path, job))


def test_passages_and_eras_made_before_an_erasure_are_not_stored_after_it(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await talk(session, 80, first=5)
        await fov.settle()
        origin = await fov.store.origin("s")
        eras = await fov.store.derived.eras("s", 1, 0, 99)
        assert eras
        await session.erase("T-4", dry_run=False)
        await fov.store.derived.add_eras("s", eras, origin)
        assert await fov.store.derived.eras("s", 1, 0, 99) != eras

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_erasure_that_was_interrupted_before_the_file_was_rewritten_is_finished_later(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await fov.settle()
        report = await session.erase("T-4", dry_run=False, overwrite=False)
        assert holders(path)  # in free pages, or in the journal
        assert any("--sweep" in note for note in report.notes)
        assert not (await session.erasures())[0].overwritten_at
        problems = [found async for found in fov.check() if found.problem]
        assert [found.advice for found in problems] == ["foveate erase s --sweep"]
        assert await fov.overwrite_erased() == ""
        assert (await session.erasures())[0].overwritten_at
        assert await sound(fov)
        assert holders(path) == []

    asyncio.run(with_store(path, job))


def test_a_repeated_record_of_an_erased_turn_adds_nothing(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        messages = [user(f"It is {SECRET}."), assistant("Noted.")]
        await session.record_all(messages, key="k", exact=True)
        await session.record([user("Next."), assistant("Yes.")])
        await session.erase("T-1", dry_run=False)
        assert [turn.id for turn in await session.record_all(messages, key="k", exact=True)] == ["T-1"]
        assert (await session.refresh()).turns == 2

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("how", ["turn", "text"])
def test_a_key_made_from_the_text_goes_with_it_and_a_repeated_record_adds_nothing(how: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    messages = [user("Keep it safe."), assistant("Noted.")]

    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record_all([user("First."), assistant("Yes.")])
        await session.record_all(messages, key=f"a {SECRET}", exact=True)
        turns, text = (["T-2"], None) if how == "turn" else ([], SECRET)
        report = await session.erase(*turns, text=text, dry_run=False)
        assert report.is_erased
        if how == "text":
            assert report.counts["keys of messages"] == 2
        assert [turn.id for turn in await session.record_all(messages, key=f"a {SECRET}", exact=True)] == ["T-2"]
        assert (await session.refresh()).turns == 2
        assert holders(path) == []

    asyncio.run(with_store(path, job))
    assert holders(path) == []


def test_an_answer_in_progress_is_not_added_to_a_turn_that_was_erased(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record(user(f"It is {SECRET}."))
        await session.erase("T-1", dry_run=False)
        with pytest.raises(TurnPruned):
            await session.record(assistant(f"So it is {SECRET}."), turn=1)
        await fov.settle()
        assert await session.search(SECRET) == []
        await session.record([user("Next."), assistant("Yes.")])
        assert (await session.load_turn("T-2")).messages[-1].text == "Yes."

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("what", ["turn", "text"])
@pytest.mark.parametrize("kept", ["answer", "round", "partial", "response", "branch"])
def test_what_is_made_for_a_request_is_not_stored_after_an_erasure(tmp_path: Path, what: str, kept: str) -> None:
    path = tmp_path / "chat.db"
    said = [{"role": "assistant", "content": f"It is {SECRET}."}]
    result = Message("tool", (ToolResult("c1", (Text(f"{SECRET}"),), name="get_turn"),))

    async def make(recorder: Recorder, placed: Placement) -> None:
        if kept == "round":
            await recorder.add_round(placed, "openai", said, [result])
        elif kept == "partial":
            await recorder.add_partial(placed, "openai", said)
        elif kept == "response":
            await recorder.add_response(placed, {"id": "r", "output": said})
        else:
            await recorder.add_answer(placed, "openai", said=said, shown=said)

    async def job(fov: Foveate) -> None:
        recorder = Recorder(fov, fov.clients, "")
        session = await fov.session("s")
        await talk(session, 2)
        placed = await place(recorder, "s", f"It is {SECRET}.")
        if kept == "branch":
            await session.record(user("A newer turn."))
        turns, text = (["T-3"], None) if what == "turn" else ([], SECRET)
        assert (await session.erase(*turns, text=text, dry_run=False)).is_erased
        with pytest.raises(ErasedMeanwhile):
            await make(recorder, placed)
        recorder.release(placed)
        await fov.settle()
        assert await fov.search(SECRET) == []
        assert [info.id for info in await fov.sessions()] == ["s"]

    asyncio.run(with_store(path, job))
    assert holders(path) == []


def test_an_answer_of_a_fork_is_not_stored_after_an_erasure_in_its_parent(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        recorder = Recorder(fov, fov.clients, "")
        await (await tell(fov)).fork("f", "T-4")
        placed = await place(recorder, "f", "What was it?")
        await (await fov.session("s")).erase("T-4", forks=True, dry_run=False)
        said = [{"role": "assistant", "content": f"It is {SECRET}."}]
        with pytest.raises(ErasedMeanwhile):
            await recorder.add_answer(placed, "openai", said=said, shown=said)
        recorder.release(placed)
        await fov.settle()
        assert await fov.search(SECRET) == []

    asyncio.run(with_store(tmp_path / "chat.db", job))


async def place(recorder: Recorder, name: str, prompt: str) -> Placement:
    """Begin a request of a client that names its session."""
    request = WIRES["openai"].read({"messages": [{"role": "user", "content": prompt}]}, path="/v1")
    history = read_history("openai", request.messages)
    placed = await recorder.place(request, history, ClientId(name, "header", is_ours=True), SessionChoice())
    assert isinstance(placed, Placement)
    return placed


def test_a_request_that_begins_after_an_erasure_is_recorded_with_its_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        recorder = Recorder(fov, fov.clients, "")
        session = await tell(fov)
        await session.erase("T-4", dry_run=False)
        placed = await place(recorder, "s", "And now?")
        await recorder.add_answer(placed, "openai", said=[{"role": "assistant", "content": "Yes."}], shown=[])
        recorder.release(placed)
        assert [message.text for message in (await session.load_turn("T-5")).messages] == ["And now?", "Yes."]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_title_made_from_an_erased_prompt_is_in_no_file(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    said = f"My password is {SECRET}, please keep it somewhere safe until the end of the year, or longer."
    prompt = f"<system-reminder>Be brief.</system-reminder>\n{said}"

    async def job(fov: Foveate) -> None:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}]}
        request = WIRES["openai"].read(body, path="/v1/chat/completions")
        recorder = Recorder(fov, fov.clients, "")
        named = ClientId("s", "header")
        placed = await recorder.place(request, read_history("openai", request.messages), named, SessionChoice())
        assert isinstance(placed, Placement)
        answer = [{"role": "assistant", "content": "Noted."}]
        await recorder.add_answer(placed, "openai", said=answer, shown=answer)
        recorder.release(placed)
        session = await fov.session("s")
        assert session.info.title.startswith(f"My password is {SECRET}")
        assert session.info.title.endswith("…")
        child = await session.fork("child", 0)
        fork = await session.fork("fork", "T-1")
        again = await fork.fork("again", "T-1", title=None)
        chosen = await session.fork("chosen", 0, title="Keys of the house")
        await talk(session, 2, first=2)
        await fov.settle()
        assert (await session.erase("T-2")).counts.get(TITLES) is None
        preview = await session.erase("T-1")
        assert preview.counts[TITLES] == 4
        assert holders(path)
        report = await session.erase("T-1", forks=True, dry_run=False)
        assert report.counts[TITLES] == 4
        titles = [(await each.refresh()).title for each in (session, child, fork, again, chosen)]
        assert titles == [
            "[erased]",
            "[erased]",
            "[erased], from T-1",
            "[erased], from T-1, from T-1",
            "Keys of the house",
        ]
        assert SECRET not in "".join([piece async for piece in session.export("json")])
        assert (await session.erase("T-1")).counts.get(TITLES) is None
        assert await sound(fov)
        assert holders(path) == []

    asyncio.run(with_store(path, job))
    assert holders(path, (SECRET, "zebrafish", "password")) == []


@pytest.mark.parametrize(
    ("title", "prompt"),
    [
        (SECRET, f"{SECRET}"),
        (f"Keep {SECRET} safe", f"Keep\n  {SECRET}  safe, will you?"),
        (f"Keep {SECRET} s…", f"<task>\nKeep {SECRET} safe\n</task>"),
        (f"/keep {SECRET}", f"<command-name>/keep</command-name><command-args>{SECRET}</command-args>"),
        (f"Keep {SECRET}\ud800".encode("utf-8", "replace").decode(), f"Keep {SECRET}\ud800"),
    ],
)
def test_a_title_that_is_the_beginning_of_an_erased_prompt_is_replaced(title: str, prompt: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", title=title)
        await session.record([user(prompt), assistant("Noted.")])
        await session.erase("T-1", dry_run=False, overwrite=False)
        assert (await session.refresh()).title == "[erased]"

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("title", ["", "…", "The vault", "is zebrafish-4417", "Into the", ", from T-1"])
def test_a_title_of_other_words_stays(title: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", title=title)
        await session.record([user(f"My password is {SECRET}, keep it."), assistant("Into the vault.")])
        await session.erase("T-1", dry_run=False, overwrite=False)
        assert (await session.refresh()).title == title

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_bad_input_is_rejected_and_erases_nothing(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        for given, error in (
            ({}, InvalidMessage),
            ({"text": "abc"}, InvalidMessage),
            ({"text": "   \n  "}, InvalidMessage),
        ):
            with pytest.raises(error):
                await session.erase(**given, dry_run=False)
        with pytest.raises(InvalidMessage):
            await session.erase("T-4", text=SECRET, dry_run=False)
        with pytest.raises(InvalidMessage):
            await session.erase("four", dry_run=False)
        with pytest.raises(TurnNotFound):
            await session.erase("T-9", dry_run=False)
        assert await session.erasures() == []
        assert await session.search(SECRET)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_text_of_many_turns_is_erased_while_others_record(tmp_path: Path) -> None:
    async def job() -> None:
        async with opened(tmp_path / "chat.db") as fov:
            session = await fov.session("s")
            for number in range(30):
                await session.record([user(f"{number}: {SECRET}"), assistant("Noted.")])

            async def more() -> None:
                for number in range(5):
                    await session.record([user(f"later {number}: {SECRET}"), assistant("Noted.")])

            await asyncio.gather(more(), session.erase(text=SECRET, dry_run=False))
            report = await session.erase(text=SECRET, dry_run=False)
            assert report.counts.get("messages", 0) <= 5
            assert not await session.search(SECRET)

    asyncio.run(job())


def test_an_erasure_that_fails_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the power failed")

    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await fov.settle()
        before = [piece async for piece in session.export()]
        monkeypatch.setattr(erase, "_note", fail)
        for given in ({"text": SECRET}, {}):
            with pytest.raises(RuntimeError):
                await session.erase(*(() if given else ("T-4",)), **given, dry_run=False)
        monkeypatch.undo()
        assert [piece async for piece in session.export()] == before
        assert await session.search(SECRET)
        assert await session.erasures() == []
        assert await sound(fov)
        assert (await session.erase("T-4", dry_run=False)).is_erased

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_contexts_board_that_was_read_before_an_erasure_is_not_stored_after_it(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await talk(session, 3, first=5)
        await fov.settle()
        await session.call_tool("get_turn", {"turn_id": "T-4"})
        origin = await fov.store.origin("s")
        board = await fov.store.artefacts.board("s")
        assert board
        await session.erase("T-4", dry_run=False)
        await fov.store.artefacts.keep_board("s", board, origin)
        assert await fov.store.artefacts.board("s") is None

    asyncio.run(with_store(tmp_path / "chat.db", job))


WORDS_OF_FORMATS = (
    "anthropic", "openai", "gemini", "foveate", "openai-responses", "text", "content", "role", "type", "user", "tool",
    "name", "function", "parts", "assistant", "thinking", "tool_use", "arguments", "input", "model", "read_file",
)  # fmt: skip
SAID: dict[str, list[Any]] = {
    "openai": [
        {"role": "user", "content": [{"type": "text", "text": "Hello there."}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": "Fine."},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "Hello there."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Fine."}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Hello there."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {"path": "a"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read_file", "response": {"result": "ok"}}}]},
        {"role": "model", "parts": [{"text": "Fine."}]},
    ],
}


@pytest.mark.parametrize("word", WORDS_OF_FORMATS)
def test_erasing_a_word_of_a_format_leaves_every_message_readable(word: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        for name, said in SAID.items():
            session = await fov.session(name)
            await session.record(said, format=cast("Any", name))
            await session.record([user(f"I work at {word}."), assistant("Fine.")])
            before = await session.load_turn("T-1")
            await session.erase(text=word, dry_run=False, overwrite=False)
            after = await session.load_turn("T-1")
            assert [shape(message) for message in after.messages] == [shape(message) for message in before.messages]
            assert after.messages[0].text == "Hello there."
            assert after.messages[-1].text == "Fine."
            assert (await session.load_turn("T-2")).messages[0].text == "I work at [erased]."
            assert len((await session.context("And now?")).request("anthropic")["messages"]) >= 5
            assert (await session.erase(text=word)).counts.get("messages") is None

    asyncio.run(with_store(tmp_path / "chat.db", job))


def shape(message: Message) -> tuple[str, list[str]]:
    return message.role, [type(part).__name__ for part in message.parts]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("/home/alice/secret", r'{"path": "\/home\/alice\/secret"}'),
        ("O'Brien's", r'{"path": "O\u0027Brien\u0027s"}'),
        ("José García", r'{"path": "Jos\u00E9 Garc\u00EDa"}'),
        ("a<b>", r'{"path": "a\u003Cb\u003e"}'),
        ("secret-word", r'{"path": "\u0073ecret-word"}'),
        ("x 😀 y", r'{"path": "x \uD83D\ude00 y"}'),
        ('say "no"', r'{"path": "say \"no\""}'),
        ("C:\\new\\x", r'{"path": "C:\\new\\x"}'),
        ("line\none", r'{"path": "line\none"}'),
    ],
)
def test_a_text_is_erased_however_json_escapes_it(text: str, arguments: str, tmp_path: Path) -> None:
    assert json.loads(arguments) == {"path": text}
    nested = json.dumps({"body": arguments}, ensure_ascii=True)

    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        for given in (arguments, nested):
            call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": given}}
            await session.record(
                [
                    {"role": "user", "content": "Read it."},
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
                ]
            )
        report = await session.erase(text=text, dry_run=False)
        assert report.turns == ("T-1", "T-2")
        calls = [(await session.load_turn(each)).messages[1].tool_calls[0] for each in report.turns]
        assert calls[0].arguments == {"path": "[erased]"}
        outer: Any = calls[1].arguments
        assert json.loads(outer["body"]) == {"path": "[erased]"}

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_two_fields_whose_names_are_erased_stay_two(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        call = {"type": "tool_use", "id": "t1", "name": "f", "input": {"alice": "A", "bobby": "B"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
        said: list[Any] = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": [call]}]
        await session.record([*said, {"role": "user", "content": [result]}], format="anthropic")
        await session.erase(text="alice", dry_run=False, overwrite=False)
        await session.erase(text="bobby", dry_run=False, overwrite=False)
        turn = await session.load_turn("T-1")
        assert turn.messages[1].tool_calls[0].arguments == {"[erased]": "A", "[erased] 2": "B"}

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("word", ["title", "status", "active", "normal", "steps"])
def test_erasing_a_word_of_a_goals_fields_leaves_it_readable(word: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await session.record([{"role": "user", "content": f"The {word} of it."}])
        await session.goals.add(f"Write the {word}", steps=["First"])
        await session.erase(text=word, dry_run=False, overwrite=False)
        (goal,) = await session.goals.list()
        assert (goal.title, goal.status, goal.priority) == ("Write the [erased]", "active", "normal")
        assert [step.title for step in goal.steps] == ["First"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("given", [{"turns": ["T-4"]}, {"text": SECRET}])
def test_an_erasure_removes_the_sent_requests_of_sessions_that_can_have_it_and_counts_them(
    given: dict[str, Any], tmp_path: Path
) -> None:
    async def job(fov: Foveate) -> None:
        session = await tell(fov)
        await talk(session, 1, first=5)
        fork = await session.fork("fork", "T-5")
        scoped = await fov.session("scoped", scope="user:anna")
        other = await fov.session("other")
        bodies = SentBodies(is_stored=True)
        for place, name in enumerate(("s", fork.id, scoped.id, other.id)):
            note = CallNote(request_id=f"r{place}", format="openai", model="m", address="https://h", path="/v1")
            note.session, note.body = name, b'{"messages":[]}'
            row = bodies.take(note).row
            assert row is not None
            await fov.store.sent.add([(name, row)], kept=50, most_bytes=1_000_000)
        turns, text = given.get("turns", ()), given.get("text")
        preview = await session.erase(*turns, text=text, forks=True)
        done = await session.erase(*turns, text=text, forks=True, dry_run=False)
        for report in (preview, done):
            assert (report.counts[SENT], report.counts[SENT_ELSEWHERE]) == (1, 2)
        left = {name: len(await fov.store.sent.list_sent(name, limit=9)) for name in ("s", "fork", "scoped", "other")}
        assert left == {"s": 0, "fork": 0, "scoped": 0, "other": 1}

    asyncio.run(with_store(tmp_path / "a.db", job))


@pytest.mark.parametrize("command", ["erase", "prune"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_turn_with_many_steps_that_was_removed_is_not_divided(strategy: str, command: str, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", budget_tokens=2_000, strategy=strategy)
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        steps = [message for number in range(200) for message in tool_step(number, f"word {number} " * 5)]
        await session.record([user("Go."), *steps, assistant("Done.")], at=long_ago)
        await talk(session, 6)
        await fov.settle()
        await session.context("And now?")
        if command == "erase":
            await session.erase("T-1", dry_run=False, overwrite=False)
        else:
            await fov.prune("s", before=long_ago + timedelta(days=1), dry_run=False)
        await talk(session, 2, first=8)
        for handle in (session, await fov.session("s")):
            context = await handle.context("And now?")  # without a fallback: a defect raises here
            assert "word 199" not in context.text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_removed_turn_leaves_the_others_of_a_range_readable(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        await talk(session, 5)
        await fov.settle()
        await session.erase("T-2", dry_run=False, overwrite=False)
        rest = ["T-1", "T-3", "T-4", "T-5"]
        assert [turn.id for turn in await session.load_turns()] == rest
        for level in ("R", "C", "T"):
            assert [turn.turn_id for turn in await session.get_turns(1, 5, level)] == rest
        assert await session.load_turns(1, 2) == await session.load_turns(1, 1)
        for wanted in (session.load_turn("T-2"), session.load_turns(2, 2), session.get_turn(2)):
            with pytest.raises(TurnPruned):
                await wanted
        answer = await session.call_tool("get_turns", {"first": "T-1", "last": "T-5", "level": "R"})
        assert "not readable any more: T-2." in answer
        await session.erase("T-3", dry_run=False, overwrite=False)
        answer = await session.call_tool("get_turns", {"first": "T-1", "last": "T-5", "level": "C"})
        assert "not readable any more: T-2 to T-3." in answer

    asyncio.run(with_store(tmp_path / "chat.db", job))
