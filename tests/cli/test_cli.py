"""What holds for every command: help, errors without a traceback, JSON, and output that nothing can break."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from foveate import sync
from foveate.cli import NESTED, cli, main
from foveate.cli.ui.output import CLOSED_PIPE
from support.command_line import AWKWARD, SHOWN, Shell, command, shell_with
from support.command_line_page import PAGE, generate, helps
from support.patience import PATIENCE_SECONDS, wait_until

HELPS = dict(helps())
COMMANDS = [words.split()[1:] for words in HELPS if words != "foveate"]


@pytest.mark.parametrize("words", HELPS)
def test_the_help_of_every_command_has_an_example(words: str) -> None:
    examples = [line for line in HELPS[words].splitlines() if re.match(rf"  .*\b{words}\b", line)]
    assert examples, HELPS[words]


WITHOUT_JSON = (["hook"], ["mcp"], ["ui"])
"""Commands whose output is a protocol or a browser."""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_is_for_and_every_command_answers_in_json(words: list[str]) -> None:
    found: click.Command | None = cli
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found
    options = [param for param in found.params if isinstance(param, click.Option)]
    assert [option.opts for option in options if not option.help and not option.hidden] == []
    if words not in WITHOUT_JSON and (not isinstance(found, click.Group) or found.invoke_without_command):
        assert "--json" in {name for option in options for name in option.opts}


def test_an_option_in_front_of_a_groups_command_is_told_where_it_stands(tmp_path: Path) -> None:
    said = Shell(tmp_path / "chat.db").error("goal", "--json", code=2)
    assert "No such option '--json'. Options come after a subcommand: add, step, decide, artifact, done, list." in said


def test_the_page_of_the_command_line_is_current() -> None:
    assert PAGE.read_text("utf-8") == generate(), "run `python tests/command_line_page.py`"


def test_every_command_is_documented() -> None:
    page = PAGE.read_text("utf-8")
    context = click.Context(cli)
    assert all(f"\n## foveate {name}\n" in page for name in cli.list_commands(context))


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_goes_to_the_screen_and_is_no_error(flag: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    for words in ([], *COMMANDS):
        assert shell(*words, flag).startswith(f"Usage: {' '.join(['foveate', *words])} ")
    assert not shell.db.exists()


def test_a_command_that_is_not_there_is_a_mistake_with_a_hint(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert "Did you mean sessions?" in shell.error("sesions", code=2)
    assert "No such command 'xyzzy'" in shell.error("xyzzy", code=2)
    assert "No such option" in shell.error("stats", "--nope", code=2)


STORE_COMMANDS = [
    ["sessions"],
    ["show", "s"],
    ["export", "s"],
    ["fork", "s", "t"],
    ["stats"],
    ["prune", "s", "--older-than", "1d"],
    ["doctor"],
    ["context", "s"],
    ["levels", "s", "T-1"],
    ["compress", "s"],
    ["replay", "s"],
    ["search", "-s", "s", "x"],
    ["pin", "s"],
    ["unpin", "s", "P-1"],
    ["board", "s"],
    ["sessions", "rename", "s", "x"],
    ["sessions", "label", "s", "--platform", "x"],
    ["sessions", "delete", "s", "--yes"],
]


@pytest.mark.parametrize("words", STORE_COMMANDS, ids=" ".join)
def test_a_store_that_is_not_there_is_not_made_by_reading_it(words: list[str], tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    assert "does not exist yet; 'foveate import' creates it" in shell.error(*words)
    assert not shell.db.exists()


@pytest.mark.parametrize("words", STORE_COMMANDS, ids=" ".join)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(words: list[str], tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    shell.db.write_text("just some words, and not a database at all")
    # `doctor` reports it with what to do; the others fail with an error.
    said = shell(*words, code=1) if words[0] == "doctor" else shell.error(*words)
    assert "is not a database" in " ".join(said.split())
    assert shell.db.read_text() == "just some words, and not a database at all"


@pytest.mark.parametrize(
    "words", [words for words in STORE_COMMANDS if "s" in words and words[0] != "import"], ids=" ".join
)
def test_a_session_that_is_not_there_is_named(words: list[str], tmp_path: Path) -> None:
    shell = shell_with(tmp_path, "other")
    assert "no session 's'; 'foveate sessions' lists those that exist" in shell.error(*words)


def test_the_store_is_the_one_that_db_or_the_environment_names(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    (tmp_path / "b").mkdir()
    other = shell_with(tmp_path / "b", "elsewhere")
    assert [info["id"] for info in shell.json("sessions")] == ["s"]
    assert [info["id"] for info in shell.json("sessions", "--db", str(other.db))] == ["elsewhere"]


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert "is a directory" in Shell(tmp_path).error("sessions", code=2)


def test_without_a_name_the_store_is_made_in_the_home_folder_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "Hello"}\n')
    environment = Shell(tmp_path / "x").environment(HOME=str(tmp_path))
    del environment["FOVEATE_DB"]
    subprocess.run(command("import", "talk.jsonl"), cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / ".foveate").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / ".foveate" / "foveate.db").stat().st_mode & 0o777 == 0o600


def test_a_home_folder_that_takes_no_store_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "Hello"}\n')
    (tmp_path / ".foveate").write_text("in the way")
    environment = Shell(tmp_path / "x").environment(HOME=str(tmp_path))
    del environment["FOVEATE_DB"]
    run = subprocess.run(
        command("import", "talk.jsonl"), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr == f"Error: {tmp_path / '.foveate'}: can't be created: File exists; name a file with --db\n"


def awkward_store(folder: Path) -> Shell:
    """A store whose every text is awkward."""
    call = {"id": "c1", "type": "function", "function": {"name": AWKWARD, "arguments": AWKWARD}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": AWKWARD, "name": AWKWARD},
        {"role": "assistant", "content": AWKWARD, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": AWKWARD},
        {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": AWKWARD}}]},
    ]
    shell = shell_with(folder, "[bold]s[/bold]", messages, turns=1)
    with sync.open(shell.db) as fov:
        clean = AWKWARD.replace("\ud83d", "")
        session = fov.open_session("[bold]s[/bold]")
        session.rename(clean)
        session.label(platform=clean, channel=clean)
        session.fork("fork [/]")
    return shell


@pytest.mark.parametrize("colours", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ["sessions"],
        ["stats"],
        ["show", "[bold]s[/bold]"],
        ["show", "[bold]s[/bold]", "T-1"],
        ["show", "[bold]s[/bold]", "T-1", "--full"],
        ["prune", "[bold]s[/bold]", "--older-than", "2027-01-01"],
        ["prune", "--all", "--older-than", "2027-01-01"],
        ["doctor"],
        ["sessions", "rename", "[bold]s[/bold]", "[red]x[/]"],
        ["sessions", "label", "[bold]s[/bold]", "--channel", "[red]x[/]"],
        ["fork", "[bold]s[/bold]", "[red]f[/]"],
        ["compress", "[bold]s[/bold]"],
        ["context", "[bold]s[/bold]"],
        ["levels", "[bold]s[/bold]", "T-1"],
        ["search", "[bold]s[/bold]", "end"],
        ["pin", "[bold]s[/bold]", "[red]p[/]"],
        ["board", "[bold]s[/bold]"],
    ],
    ids=" ".join,
)
def test_no_content_styles_or_breaks_the_output(words: list[str], colours: bool, tmp_path: Path) -> None:
    shell = Shell(awkward_store(tmp_path).db, width=400)
    shown = shell(*words, colours=colours)
    shown.encode()
    assert not re.search(r"[\x07\u202e]", shown)
    without_our_styles = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in without_our_styles
    if words[0] in ("sessions", "stats") and len(words) == 1:
        assert "[bold]s[/bold]" in without_our_styles
    if "T-1" in words and words[0] == "show":
        assert without_our_styles.count(SHOWN) == 6


@pytest.mark.parametrize(
    "words",
    [["show", "[bold]s[/bold]", "T-1", "--json"], ["show", "[bold]s[/bold]", "--messages", "openai"]],
    ids=" ".join,
)
def test_json_holds_awkward_text_exactly(words: list[str], tmp_path: Path) -> None:
    shell = awkward_store(tmp_path)
    for answer in (shell(*words).encode(), shell.really(*words, LC_ALL="C").stdout):
        assert json.dumps(AWKWARD) in json.dumps(json.loads(answer))


def test_a_terminal_without_utf8_gets_escapes_not_a_traceback(tmp_path: Path) -> None:
    shell = awkward_store(tmp_path)
    for words in (["sessions"], ["show", "[bold]s[/bold]", "T-1"]):
        run = shell.really(*words, PYTHONIOENCODING="ascii")
        assert (run.returncode, run.stderr) == (0, b"")
        assert run.stdout.isascii()


@pytest.mark.parametrize("words", [["export", "s"], ["show", "s", "T-1"]], ids=" ".join)
def test_a_reader_that_goes_away_ends_the_command_quietly(words: list[str], tmp_path: Path) -> None:
    shell = shell_with(tmp_path, messages=[{"role": "user", "content": "a line of words\n" * 50_000}], turns=1)
    with subprocess.Popen(
        command(*words), env=shell.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_SECONDS) == CLOSED_PIPE


FULL = Path("/dev/full")
"""A device that takes no byte."""


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_full_disk_under_standard_output_is_one_sentence_in_every_command(
    is_buffered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = shell_with(tmp_path)
    monkeypatch.setenv("FOVEATE_DB", str(shell.db))
    answers = [words for words in STORE_COMMANDS if words[0] not in ("fork", "unpin")]  # errors here, of another kind
    helps_of_all = [[*words, "--help"] for words in COMMANDS]
    for words in (["--version"], ["--help"], ["sessions", "--json"], *answers, *helps_of_all):
        below = FULL.open("wb", buffering=-1 if is_buffered else 0)
        with io.TextIOWrapper(below, write_through=not is_buffered) as full, monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["foveate", *words])
            patched.setattr(sys, "stdout", full)
            with pytest.raises(SystemExit) as ended:
                main()
        last = capsys.readouterr().err.splitlines()[-1]
        assert (ended.value.code, last) == (1, "Error: standard output: No space left on device"), words


def test_a_stream_that_was_closed_before_the_start_discards_the_output(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    script = f"{shlex.join(command('sessions'))} >&-"
    run = subprocess.run(["sh", "-c", script], env=shell.environment(), capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_an_interrupt_ends_an_import_in_a_sentence_and_keeps_a_sound_store(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    path = tmp_path / "talk.jsonl"
    lines = "".join(json.dumps({"role": "user", "content": f"Hello {number}"}) + "\n" for number in range(100_000))
    path.write_text(lines)
    process = subprocess.Popen(
        command("import", str(path)),
        env=shell.environment(),
        stderr=subprocess.PIPE,
        # What a shell starts in the background ignores interrupts, and so would this.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - nothing else runs here
    )
    wait_until(lambda: process.poll() is not None or (shell.db.exists() and _has_turns(shell.db)))
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert told.decode().strip() == "Interrupted; everything recorded so far is kept."
    assert shell.json("doctor")["ok"]


def _has_turns(db: Path) -> bool:
    with sync.open(db) as fov:
        return any(info.turns for info in fov.sessions())


def test_commands_are_grouped_in_the_help_each_once(tmp_path: Path) -> None:
    shown = Shell(tmp_path / "chat.db")("--help")
    assert re.findall(r"^([A-Z][a-z ]+):$", shown, re.MULTILINE) == [
        "Options",
        "Daily use",
        "Inspect",
        "Connect",
        "Serve",
        "Maintain",
        "Advanced",
    ]
    listed = re.findall(r"^  ([a-z]+)  +[A-Z]", shown, re.MULTILINE)
    assert sorted(listed) == cli.list_commands(click.Context(cli))


def test_a_nested_command_is_the_same_under_its_old_name(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    shell("demo", "--turns", "3")
    assert shell("sessions", "levels", "demo", "T-1") == shell("levels", "demo", "T-1")
    assert shell("store", "compress", "--all", "--json") == shell("compress", "--all", "--json")
    listed = shell("--help")
    assert not any(f"\n  {name} " in listed for names in NESTED.values() for name in names)
    assert "board" in shell("sessions", "--help")


def test_a_store_may_be_named_before_the_command(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    other = tmp_path / "other.db"
    shell("--db", str(other), "demo", "--turns", "3")
    assert other.exists()
    assert '"demo"' in shell("--db", str(other), "sessions", "--json")
    assert not shell.db.exists()


def test_the_budget_of_a_session_is_shown_and_set(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    shell("demo", "--turns", "3")
    assert "demo has a budget of 16,000 tokens." in shell("sessions", "budget", "demo")
    assert "demo has a budget of 32,000 tokens." in shell("sessions", "budget", "demo", "32k")
    assert "demo has a budget of 32,000 tokens." in shell("sessions", "budget", "demo")
    assert "Error" in shell.error("sessions", "budget", "demo", "lots", code=2)
