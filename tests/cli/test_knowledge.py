"""`foveate knowledge`: list, show, decide, edit, export, import."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import foveate
from foveate.knowledge.run import learn
from foveate.store.knowledge import KnowledgeSource
from support.command_line import AWKWARD, SHOWN, Shell
from support.stores.knowledge import item

LESSON, OTHER = "k-1a2b3c4d5e", "k-1f00000000"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    async def prepare() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            await (await fov.session("chat")).record([{"role": "user", "content": "Run make test."}])
            sources = (KnowledgeSource("chat", 1),)
            other = replace(item(OTHER, scope="user:anna"), title="Names", kind="profile")
            await fov._store.knowledge.add("", [replace(item(LESSON), sources=sources), other])

    asyncio.run(prepare())
    return Shell(tmp_path / "chat.db", width=120)


def test_items_are_listed_by_scope_kind_and_state_with_their_sources(shell: Shell) -> None:
    listed = shell("knowledge", "list")
    assert LESSON in listed
    assert "project:shop" in listed
    assert [each["id"] for each in shell.json("knowledge", "list", "--scope", "user:anna")] == [OTHER]
    assert [each["sources"] for each in shell.json("knowledge", "list", "--kind", "lesson")] == [["chat/T-1"]]
    assert shell.json("knowledge", "list", "--state", "pinned") == []
    assert "'foveate knowledge learn' makes it" in shell("knowledge", "list", "--scope", "org:nobody")
    assert "is not a scope" in shell.error("knowledge", "list", "--scope", "shop")
    assert "\x1b[33mproposed" in shell("knowledge", "list", colours=True)


def test_an_item_is_shown_with_its_turns_and_its_versions_with_diffs(shell: Shell) -> None:
    shown = shell("knowledge", "show", "k-1a")
    assert "Run the tests with make." in shown
    assert "foveate show chat T-1" in shown
    shell("knowledge", "pin", "k-1a", "--reason", "it is right")
    versions = shell("knowledge", "show", "k-1a", "--versions")
    assert "pinned by person: it is right" in versions
    assert "-- state: proposed\n+- state: pinned\n" in versions
    assert [each["version"] for each in shell.json("knowledge", "show", "k-1a", "--versions")] == [1, 2]
    assert shell.json("knowledge", "show", "k-1a")["sources"] == ["chat/T-1"]
    assert "2 items match it" in shell.error("knowledge", "show", "k-1")
    assert "'foveate knowledge list' lists those that exist" in shell.error("knowledge", "show", "k-9")


def test_several_items_are_decided_on_together_or_not_at_all(shell: Shell) -> None:
    assert "no knowledge 'k-9'" in shell.error("knowledge", "approve", LESSON, "k-9")
    assert [each["state"] for each in shell.json("knowledge", "list")] == ["proposed", "proposed"]
    decided = shell("knowledge", "approve", LESSON, OTHER).splitlines()
    assert decided == [f"approved {LESSON}  Tests", f"approved {OTHER}  Names"]
    assert shell.json("knowledge", "retire", LESSON, "--reason", "old")[0]["state"] == "retired"
    assert [each["id"] for each in shell.json("knowledge", "list")] == [OTHER]


def test_an_item_is_edited_by_options_or_a_file_and_the_diff_is_shown(shell: Shell) -> None:
    edited = shell("knowledge", "edit", LESSON, "--text", "Run make check.", "--reason", "it was renamed")
    assert "-Run the tests with make.\n+Run make check.\n" in edited
    assert edited.endswith(f"{LESSON} is now version 2 (approved).\n")
    assert shell("knowledge", "edit", LESSON, "--text", "Run make check.") == "Nothing changed.\n"
    shell("knowledge", "edit", LESSON, "--file", "-", "--title", "Checks", given="Run make.\n")
    after = shell.json("knowledge", "show", LESSON)
    assert (after["title"], after["text"], after["version"]) == ("Checks", "Run make.", 3)
    assert "not both" in shell.error("knowledge", "edit", LESSON, "--text", "x", "--file", "-", code=2)


def test_an_item_is_edited_in_an_editor_and_a_broken_text_is_kept(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert shell("knowledge", "edit", LESSON) == "Nothing changed.\n"
    monkeypatch.setenv("EDITOR", "sed -i 's/with make/with tox/; s/: proposed/: pinned/'")
    assert f"{LESSON} is now version 2 (pinned)." in shell("knowledge", "edit", LESSON)
    assert shell.json("knowledge", "show", LESSON)["text"] == "Run the tests with tox."
    assert not list(tmp_path.glob("foveate-knowledge-*"))
    monkeypatch.setenv("EDITOR", "sed -i s/@2/@x/")
    assert "your text is kept in" in shell.error("knowledge", "edit", LESSON)
    (kept,) = tmp_path.glob("foveate-knowledge-*")
    assert "@x" in kept.read_text()
    monkeypatch.delenv("EDITOR")
    assert "give --text" in shell.error("knowledge", "edit", LESSON, code=2)


def test_an_export_is_edited_and_imported_back(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "knowledge.md"
    assert shell("knowledge", "export", "-o", str(path)).startswith(f"Wrote {path} (2 items, ")
    assert shell("knowledge", "export") == path.read_text()
    assert shell("knowledge", "import", str(path)) == "Imported: 0 new, 0 changed, 2 unchanged.\n"
    path.write_text(path.read_text().replace("with make", "with tox", 1) + "\n## Ports\n\nThe shop has 8443.\n")
    planned = shell("knowledge", "import", str(path), "--dry-run")
    assert planned == f"{LESSON} text\nnew          Ports\nWould import: 1 new, 1 changed, 1 unchanged.\n"
    assert len(shell.json("knowledge", "list")) == 2
    imported = shell.json("knowledge", "import", str(path), "--scope", "project:shop")
    assert [(each["version"], each["scope"], each["maker"]) for each in imported["items"]] == [
        (2, "project:shop", "person"),
        (1, "project:shop", "person"),
    ]
    again = shell("knowledge", "import", str(path), "--scope", "project:shop")
    assert again == "Imported: 0 new, 0 changed, 3 unchanged.\n"


def test_a_broken_file_imports_nothing_and_names_the_line(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "knowledge.md"
    text = shell("knowledge", "export").replace("with make", "with tox").replace(OTHER, "k-9999999999")
    path.write_text(text)
    said = shell.error("knowledge", "import", str(path))
    assert (
        f"{path}: line {text[: text.index('k-9999999999')].count(chr(10)) + 1}: there is no item k-9999999999" in said
    )
    assert "nothing was imported" in said
    assert shell.json("knowledge", "show", LESSON)["version"] == 1
    path.write_bytes(b"\xff")
    assert "is not UTF-8" in shell.error("knowledge", "import", str(path))


def test_awkward_text_does_not_reach_the_terminal(shell: Shell) -> None:
    shell("knowledge", "edit", LESSON, "--text", AWKWARD.replace("\ud83d", ""), "--title", "\x1b[31mred")
    for arguments in (("list",), ("show", LESSON), ("show", LESSON, "--versions")):
        assert "\x1b" not in shell("knowledge", *arguments).replace(AWKWARD.replace("\ud83d", ""), "")
    assert SHOWN.split()[0] in shell("knowledge", "show", LESSON)


@pytest.fixture
def taught(tmp_path: Path) -> Shell:
    """A store from which something was learned today, and something that it replaced."""

    async def prepare() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            chat = await fov.session("chat", channel="shop")
            for said in ("The standup is at 7:45.", "Standup is at 7:15 now, not 7:45."):
                await chat.record([{"role": "user", "content": said}])
                await learn(fov, "project:shop", quick=True)

    asyncio.run(prepare())
    return Shell(tmp_path / "chat.db", width=120)


def test_without_a_subcommand_it_says_what_was_learned_since_yesterday(taught: Shell) -> None:
    shown = taught("knowledge")
    assert "+ k-" in shown
    assert "Standup is at 7:15 now" in shown
    assert "1 new, 0 changed, 1 replaced" in shown
    assert len(shown.splitlines()) <= 24
    assert [each["text"] for each in taught.json("knowledge")["replaced"]] == ["The standup is at 7:45."]


def test_an_item_is_shown_with_what_was_said_earlier_and_when(taught: Shell) -> None:
    (item_id,) = (each["id"] for each in taught.json("knowledge", "list", "--kind", "lesson"))
    shown = taught("knowledge", "show", item_id)
    assert "The standup is at 7:45." in shown
    assert "said 1 time:" in shown


def test_rejected_proposals_are_listed_with_their_reasons(taught: Shell) -> None:
    assert "No proposal of a model was rejected." in taught("knowledge", "rejected")
    (item_id,) = (each["id"] for each in taught.json("knowledge", "list", "--kind", "lesson"))
    taught("knowledge", "reject", item_id)
    assert taught.json("knowledge", "list", "--kind", "lesson") == []
