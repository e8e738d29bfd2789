"""`foveate compress` with and without a model: what it finishes, what it leaves for later, and what it says of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from foveate import sync
from foveate.compress.model import assign, groups
from foveate.tokens import O200K
from support.command_line import Shell
from support.faithful import faithful_answer
from support.refining import said, with_model


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A store with two turns that are worth asking about, made without a model; the second one is open."""
    monkeypatch.setenv("FOVEATE_MODELS__BACKOFF_SECONDS", "0")
    with sync.open(tmp_path / "chat.db") as fov:
        fov.session("s").record([*said(1), *said(2)])
        fov.settle()
    return Shell(tmp_path / "chat.db", 120)


def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: object) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"reply": [reply]}))
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"scripted:{script}")


def good_answer() -> object:
    """What passes for the first turn."""
    models = with_model().models
    assignment = assign(groups(models)[0], 1, said(1), O200K.base, nonce="0123456789abcdef", settings=models)
    return json.loads(faithful_answer(assignment.ask))


def test_turns_that_no_model_has_seen_are_given_to_it_with_again(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(tmp_path, monkeypatch, {"says_json": good_answer()})
    assert shell.json("compress", "s")["s"]["by_model"] == 0
    done = shell.json("compress", "s", "--again")["s"]
    assert (done["done"], done["by_model"], done["waiting"], done["problem"]) == (1, 1, 0, None)
    head, _, row, *rest = shell("compress", "--all").splitlines()
    assert head.split()[-4:] == ["model", "rejected", "fallbacks", "queued"]
    assert row.split() == ["s", "2", "0", "1", "0", "0", "0"]
    assert rest == []


def test_what_a_model_could_not_do_is_left_for_later_with_the_reason(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(tmp_path, monkeypatch, {"fails": "server"})
    shown = " ".join(shell("compress", "s", "--again").split())
    assert "A model is called for 1 more turn from 20" in shown
    assert "it fails, as its script says" in shown
    assert "A model is called for 1 more turn from 20" in " ".join(shell("stats").split())
    done = shell.json("compress", "s")["s"]
    assert (done["fallbacks"], done["rendered"], done["by_model"]) == (1, 1, 0)


def test_an_answer_that_can_not_be_read_is_told_with_who_asks_again_and_when(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(tmp_path, monkeypatch, {"says": "no JSON at all"})
    shown = " ".join(shell("compress", "s", "--again").split())
    assert "its answer could not be read), by the next 'foveate store compress'" in shown
    assert "A model is called for 1 more turn from 20" in shown


def test_a_turn_that_is_given_up_is_told_of_with_why(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {level: {"user": "nothing", "assistant": "of it"} for level in ("compressed", "tiny")}
    answering(tmp_path, monkeypatch, {"says_json": lost})
    shown = " ".join(shell("compress", "s", "--again").split())
    assert "No model is retried for 1 turn (" in shown
    assert "its answers did not pass the guard): the rule-based version is used." in shown
    assert "'foveate store compress --again' retries." in shown


def test_commands_that_only_read_ask_no_model(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(tmp_path, monkeypatch, {"fails": "server"})
    shell("compress", "s", "--again")
    before = shell.json("stats", "--cost")["costs"]
    for arguments in (["stats"], ["context", "s"], ["levels", "s", "T-1"], ["search", "s", "backup"], ["sessions"]):
        shell(*arguments)
    assert shell.json("stats", "--cost")["costs"] == before


def test_again_without_a_model_does_fallbacks_again(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(tmp_path, monkeypatch, {"fails": "server"})
    shell("compress", "s", "--again")
    monkeypatch.delenv("FOVEATE_MODELS__DEFAULT")
    assert shell.json("compress", "s")["s"]["fallbacks"] == 1
    done = shell.json("compress", "s", "--again")["s"]
    assert (done["done"], done["fallbacks"], done["rendered"], done["waiting"]) == (1, 0, 2, 0)


def test_progress_tells_of_the_models_turns_too(tmp_path: Path) -> None:
    async def run() -> None:
        from support.refining import honest, scripted_store, talk

        async with scripted_store(tmp_path / "chat.db", honest, with_model(enabled=False)) as (fov, _):
            await talk(await fov.session("s"), 3)
            steps: list[int] = []
            await fov.settle(progress=steps.append)
            assert sum(steps) == 4 + 3

    asyncio.run(run())
