"""The prompt store: versions, checks, overrides that reach the models, and modes."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

import foveate
from foveate.agents.run import Caps
from foveate.client import Foveate
from foveate.errors import BudgetExceeded, InputError, InvalidPrompt, PromptNotFound, Refused
from foveate.session.prompts import MAX_PROMPT_CHARS
from support.chats import scripted_store as chat_store
from support.refining import honest, scripted_store, talk, with_model
from support.runs import BUDGET_TOKENS, by_iteration, events_of_run

LATIN = "Mode: Latin. Answer in Latin.\n"


def run(folder: Path, job: Callable[[Foveate], Awaitable[None]]) -> None:
    async def work() -> None:
        async with foveate.open(folder / "chat.db") as fov:
            await job(fov)

    asyncio.run(work())


def test_versions_supersede_and_a_reset_brings_the_built_in_back(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        prompts = fov.prompts
        shipped = await prompts.get("explain/standard")
        assert (shipped.version, shipped.is_built_in) == (0, True)
        versions = [(await prompts.set("explain/standard", text)).version for text in ("One.", "One.\n", "Two.")]
        assert versions == [1, 1, 2]
        assert (await prompts.get("explain/standard", 1)).text == "One.\n"
        assert (await prompts.get("explain/standard", 0)).text == shipped.text
        back = await prompts.reset("explain/standard")
        assert back is not None
        assert back.text == shipped.text
        assert [info.version for info in await prompts.history("explain/standard")] == [0, 1, 2, 3]
        assert (await prompts.get("explain/standard")).is_built_in
        await prompts.set("own/greeting", "Hello {name}.")
        assert await prompts.render("own/greeting", name="Ada") == "Hello Ada.\n"
        assert await prompts.reset("own/greeting") is None
        with pytest.raises(PromptNotFound, match="did you mean"):
            await prompts.get("explain/standart")
        with pytest.raises(PromptNotFound):
            await prompts.render("own/greeting", name="Ada")

    run(tmp_path, job)


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("compress/request", "<s>{source}</s>", r"needs {limits}, {nonce}; its variables: {limits}, {nonce}, {source}"),
        ("compress/rules", "Obey {who}.", "has no {who}; it has no variables"),
        ("modes/latin", "Speak {language}.", "has no {language}"),
        ("own/a", "{{include:own/a}}", "includes itself: own/a → own/a"),
        ("own/a", "{{include:own/b}}", "includes 'own/b', which does not exist"),
        ("own/a", " \n", "has no text"),
        ("own/a", "x" * (MAX_PROMPT_CHARS + 1), "up to 200,000 can be stored"),
        ("Own A", "x", "can't be the key of a prompt"),
        ("../a", "x", "can't be the key of a prompt"),
    ],
)
def test_a_wrong_prompt_is_not_stored(tmp_path: Path, key: str, text: str, problem: str) -> None:
    async def job(fov: Foveate) -> None:
        before = await fov.prompts.list()
        with pytest.raises(InputError) as got:
            await fov.prompts.set(key, text)
        assert problem in str(got.value)
        assert await fov.prompts.list() == before

    run(tmp_path, job)


def test_a_change_that_closes_a_cycle_or_breaks_an_include_is_rejected(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.prompts.set("own/b", "text")
        await fov.prompts.set("own/a", "{{include:own/b}}")
        with pytest.raises(InvalidPrompt, match="own/b → own/a → own/b"):
            await fov.prompts.set("own/b", "{{include:own/a}}")
        with pytest.raises(InvalidPrompt, match="includes 'own/b', which does not exist"):
            await fov.prompts.reset("own/b")

    run(tmp_path, job)


def test_a_tenant_has_prompts_and_modes_of_its_own(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        acme = fov.tenant("acme")
        await fov.prompts.set("modes/shared", "Shared.")
        await acme.prompts.set("modes/latin", LATIN)
        await acme.prompts.set("modes/developer", "Theirs.")
        with pytest.raises(Refused, match="is the owner's"):
            await acme.prompts.set("compress/rules", "Mine.")
        with pytest.raises(InputError, match="no mode 'latin'; available: assistant, debugger, developer, planning"):
            await fov.session("s", mode="latin")
        theirs = await acme.session("s", mode="developer")
        assert "Theirs." in (await theirs.context("Hi")).system
        await theirs.set_mode("shared")
        assert "Shared." in (await theirs.context("Hi")).system
        own = await fov.session("s", mode="developer")
        assert "Mode: developer." in (await own.context("Hi")).system

    run(tmp_path, job)


def test_an_override_reaches_the_model_that_compresses_and_its_hash_the_accounts(tmp_path: Path) -> None:
    async def work() -> None:
        async with scripted_store(tmp_path / "chat.db", honest, with_model(processes=1)) as (fov, model):
            rules = (await fov.prompts.get("compress/rules")).text
            await fov.prompts.set("compress/rules", f"In the style of the house.\n{rules}")
            session = await fov.session("s")
            await talk(session, 1)
            await fov.settle()
            sent = model.asks[0].messages[0].text
            assert sent.startswith("In the style of the house.\nYou condense one turn")
        with closing(sqlite3.connect(tmp_path / "chat.db")) as connection:
            hashes = {value for (value,) in connection.execute("SELECT prompt_hash FROM calls")}
        assert hashlib.sha256(sent.encode()).hexdigest() in hashes

    asyncio.run(work())


def test_an_override_reaches_contexts_and_runs(tmp_path: Path) -> None:
    async def work() -> None:
        model = by_iteration({})
        async with chat_store(tmp_path / "run.db", model) as fov:
            await fov.prompts.set("run/instructions", "Work on it. Then write STATUS: done.")
            session = await fov.session("run", strategy="oneshot", budget_tokens=BUDGET_TOKENS)
            await events_of_run(fov, session, caps=Caps(max_iterations=1))
            assert model.asks[0].messages[0].text.startswith("Work on it. Then write STATUS: done.\n")
            await fov.prompts.set("explain/standard", "My own explanation.")
            other = await fov.session("other", strategy="standard", budget_tokens=2_000)
            await other.pin("Never on a Friday.")
            assert "My own explanation.\n" in (await other.context("Hi")).system

    asyncio.run(work())


def test_a_mode_is_in_the_system_prompt_counted_and_sized_by_tier(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        sizes = []
        for budget in (4_000, 8_000, 16_000, 32_000, 64_000):
            session = await fov.session(f"s{budget}", strategy="checkpoint", budget_tokens=budget, mode="developer")
            plain = await fov.session(f"p{budget}", strategy="checkpoint", budget_tokens=budget)
            shown = await session.context("Hi", system="Be brief.")
            bare = await plain.context("Hi", system="Be brief.")
            assert shown.system.startswith("Be brief.\n\nMode: developer.\nCore mandates:\n")
            assert "{{" not in shown.system
            assert shown.tokens <= budget
            sizes.append(shown.tokens - bare.tokens)
        assert sizes[0] == sizes[1] < sizes[2] < sizes[3] < sizes[4] < 700
        assert sizes[0] > 50

    run(tmp_path, job)


@pytest.mark.parametrize("system", ["Be brief.", "Be brief. \n", " "])
def test_the_system_prompt_stays_as_it_is_before_a_mode(tmp_path: Path, system: str) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", mode="planning")
        assert (await session.context("Hi", system=system)).system.startswith(f"{system}\n\nMode: planning.\n")

    run(tmp_path, job)


def test_a_mode_is_never_compressed_and_shown_in_the_status_line(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", strategy="checkpoint", budget_tokens=8_000, mode="debugger")
        answer = {"role": "assistant", "content": "x " * 200}
        turns = [[{"role": "user", "content": f"{number} " * 50}, answer] for number in range(60)]
        await session.record([message for turn in turns for message in turn])
        mode = await fov.prompts.text("modes/debugger", tier=2)
        assert mode in (await session.context("Hi")).system
        status = await session.checkpoints.status()
        assert status.mode == "debugger"
        assert " · tier 2 basic · mode debugger · reliability " in status.line
        fork = await session.fork("fork")
        assert fork.info.mode == "debugger"
        assert (await session.set_mode("")).mode == ""
        assert "· mode" not in (await session.checkpoints.status()).line

    run(tmp_path, job)


def test_a_mode_too_large_for_the_budget_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.prompts.set("modes/long", "Do it well. " * 2_000)
        session = await fov.session("s", budget_tokens=2_000, mode="long")
        with pytest.raises(BudgetExceeded, match="system"):
            await session.context("Hi")

    run(tmp_path, job)


def test_a_mode_that_was_removed_is_left_out(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.prompts.set("modes/latin", LATIN)
        session = await fov.session("s", mode="latin")
        assert LATIN in (await session.context("Hi")).system
        await fov.prompts.reset("modes/latin")
        assert "Latin" not in (await session.context("Hi")).system

    run(tmp_path, job)
