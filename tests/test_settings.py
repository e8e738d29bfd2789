"""Settings come from a file, the environment and code, in that order, and a wrong one is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import SettingsError
from foveate.recall.settings import RecallSettings
from foveate.settings import Settings, describe, load_settings, sections, settings_of, settings_table
from support.settings_page import PAGE, generate

TOML = '[store]\nreaders = 2\nsynchronous = "normal"\n\n[session]\nbudget_tokens = 5000\n'
YAML = "store:\n  readers: 2\n  synchronous: normal\nsession:\n  budget_tokens: 5000\n"


def load(overrides: dict[Any, Any] | None = None, **environment: str) -> Settings:
    return load_settings(environment=environment, overrides=overrides)


def refused(overrides: dict[Any, Any] | None = None, **environment: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(overrides, **environment)
    return caught.value


def test_without_anything_said_the_defaults_hold() -> None:
    assert load() == Settings()


@pytest.mark.parametrize(("name", "text"), [("f.toml", TOML), ("f.yaml", YAML), ("f.yml", YAML), ("F.YAML", YAML)])
def test_a_file_may_be_toml_or_yaml(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    settings = load_settings(tmp_path / name, environment={})
    assert (settings.store.readers, settings.store.synchronous) == (2, "normal")
    assert settings.session.budget_tokens == 5000
    assert settings.events == Settings().events


@pytest.mark.parametrize("name", ["empty.toml", "empty.yaml"])
def test_an_empty_file_says_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    assert load_settings(tmp_path / name, environment={}) == Settings()


def test_the_environment_sets_keys_by_part_and_name() -> None:
    settings = load(FOVEATE_STORE__READERS="7", FOVEATE_SESSION__MODEL="gpt-5", FOVEATE_STORE__LOCK_TIMEOUT_SECONDS="1")
    assert (settings.store.readers, settings.session.model, settings.store.lock_timeout_seconds) == (7, "gpt-5", 1.0)


def test_settings_as_a_table_read_back_as_they_were() -> None:
    overrides = {
        "store": {"readers": 7},
        "server": {"upstreams": {"one": {"url": "http://127.0.0.1:1", "models": ["a*"]}}},
        "gradient": {"raw_share": 0.2},
        "profiles": {"project:shop": {"gradient": {"raw_share": 0.3}}},
    }
    chosen = load_settings(environment={}, overrides=overrides)
    assert settings_of(settings_table(chosen)) == chosen
    assert settings_of(settings_table(Settings())) == Settings()


def test_other_variables_are_not_settings() -> None:
    assert load(FOVEATE_DB="chat.db", PATH="/bin", STORE__READERS="9", HOME__X="y") == Settings()
    assert load(FOVEATE_ENDPOINT_KEY="k", FOVEATE_TEAM_KEY="k", FOVEATE_SERVICE_HOST="10.0.0.1") == Settings()


def test_a_list_in_the_environment_is_parted_by_commas() -> None:
    settings = load(FOVEATE_MODELS__FALLBACKS="openai:gpt-5-mini, local,", FOVEATE_TOPICS__PHRASE_LANGUAGES="de,en")
    assert settings.models.fallbacks == ("openai:gpt-5-mini", "local")
    assert settings.topics.phrase_languages == ("de", "en")


def test_a_variable_reaches_a_table_inside_a_section() -> None:
    settings = load(FOVEATE_TOOLS__WEB__ALLOW_HOSTS="wiki.intranet, 127.0.0.1:80", FOVEATE_TOOLS__EXEC__PROCESSES="9")
    assert settings.tools.web.allow_hosts == ("wiki.intranet", "127.0.0.1:80")
    assert settings.tools.exec.processes == 9
    with pytest.raises(SettingsError, match=r"tools\.web\.serch.*did you mean tools\.web\.search"):
        load(FOVEATE_TOOLS__WEB__SERCH="x")


def test_one_name_stands_for_a_list_of_one() -> None:
    assert load({"models": {"fallbacks": "local"}}).models.fallbacks == ("local",)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("FOVEATE_MODELS_DEFAULT", "FOVEATE_MODELS__DEFAULT"),
        ("FOVEATE_MODELS_DAILY_USD", "FOVEATE_MODELS__DAILY_USD"),
        ("FOVEATE_STORE_READER", "FOVEATE_STORE__READERS"),
        ("FOVEATE_SESSION_BUDGET_TOKENS", "FOVEATE_SESSION__BUDGET_TOKENS"),
    ],
)
def test_a_variable_that_is_nearly_a_settings_is_refused_with_the_one_that_was_meant(variable: str, meant: str) -> None:
    error = refused(None, **{variable: "1"})
    assert str(error) == f"setting {variable}: does not exist; did you mean {meant}?"


def test_overrides_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[store]\nreaders = 2\ngroup_limit = 2\ncompression_level = 2\n")
    environment = {"FOVEATE_STORE__READERS": "3", "FOVEATE_STORE__GROUP_LIMIT": "3"}
    store = load_settings(path, environment=environment, overrides={"store": {"readers": 4}}).store
    assert (store.readers, store.group_limit, store.compression_level) == (4, 3, 2)


def test_a_variable_names_the_file_for_programs_that_are_given_none(tmp_path: Path) -> None:
    named, given_ = tmp_path / "named.toml", tmp_path / "given.toml"
    named.write_text("[store]\nreaders = 2\n")
    given_.write_text("[store]\nreaders = 3\n")
    assert load(FOVEATE_CONFIG=str(named)).store.readers == 2
    assert load_settings(given_, environment={"FOVEATE_CONFIG": str(named)}).store.readers == 3


def test_a_file_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "f.toml").write_text(TOML)
    assert load(FOVEATE_CONFIG="~/f.toml").store.readers == 2


def test_the_real_environment_is_read_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_EVENTS__QUEUE_LIMIT", "12")
    assert load_settings().events.queue_limit == 12


def test_loading_changes_nothing_it_was_given() -> None:
    overrides = {"store": {"readers": 4}}
    load(overrides, FOVEATE_STORE__GROUP_LIMIT="3")
    assert overrides == {"store": {"readers": 4}}


@pytest.mark.parametrize(
    ("overrides", "key", "takes"),
    [
        ({"store": {"readers": 0}}, "store.readers", "a whole number from 1 to 64; got 0"),
        ({"store": {"readers": 65}}, "store.readers", "a whole number from 1 to 64; got 65"),
        ({"store": {"readers": "many"}}, "store.readers", "a whole number from 1 to 64; got 'many'"),
        ({"store": {"readers": 2.5}}, "store.readers", "a whole number from 1 to 64; got 2.5"),
        ({"store": {"readers": True}}, "store.readers", "a whole number from 1 to 64; got True"),
        ({"store": {"readers": None}}, "store.readers", "a whole number from 1 to 64; got None"),
        ({"store": {"readers": [1]}}, "store.readers", "a whole number from 1 to 64; got [1]"),
        ({"store": {"lock_timeout_seconds": 0}}, "store.lock_timeout_seconds", "a number above 0, up to 3,600; got 0"),
        (
            {"store": {"lock_timeout_seconds": float("nan")}},
            "store.lock_timeout_seconds",
            "a number above 0, up to 3,600; got nan",
        ),
        ({"store": {"synchronous": "off"}}, "store.synchronous", "full or normal; got 'off'"),
        ({"session": {"strategy": ""}}, "session.strategy", "text, not empty; got ''"),
        ({"session": {"model": 5}}, "session.model", "text, or none; got 5"),
        (
            {"models": {"requests_per_minute": "two"}},
            "models.requests_per_minute",
            "a whole number of at least 1, or none; got 'two'",
        ),
        ({"models": {"fallbacks": 5}}, "models.fallbacks", "a list of texts; got 5"),
        ({"models": {"daily_usd": "inf"}}, "models.daily_usd", "a number from 0 to 1,000,000, or none; got 'inf'"),
        (
            {"models": {"unknown_price": {"input": 1.0, "output": float("inf")}}},
            "models.unknown_price.output",
            "a number from 0 to 100,000; got inf",
        ),
        (
            {"models": {"prices": {"x": 5}}},
            "models.prices[...]",
            "a table by name; each value is a table with keys such as input; got {'x': 5}",
        ),
        ({"store": 5}, "store", "a table with keys such as synchronous; got 5"),
        ({"store": None}, "store", "a table with keys such as synchronous; got None"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key_and_what_that_takes(
    overrides: dict[str, object], key: str, takes: str
) -> None:
    error = refused(overrides)
    assert error.key == key
    assert error.problem == f"takes {takes}"
    assert str(error) == f"setting {key}: takes {takes}"


@pytest.mark.parametrize(
    ("overrides", "key", "hint"),
    [
        ({"store": {"reader": 2}}, "store.reader", "did you mean store.readers?"),
        ({"stroe": {"readers": 2}}, "stroe", "did you mean store?"),
        ({"session": {"xyz": 2}}, "session.xyz", "available: session.strategy, "),
        ({"qqq": 1}, "qqq", "available: store, "),
        ({"store": {1: 2}}, "store.1", "available: store.synchronous"),
        ({None: 2}, "None", "available: store"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(
    overrides: dict[object, object], key: str, hint: str
) -> None:
    error = refused(overrides)
    assert error.key == key
    assert "does not exist" in error.problem
    assert hint in error.problem


def test_a_wrong_variable_is_named_by_its_key() -> None:
    assert refused(FOVEATE_STORE__READERS="many").key == "store.readers"
    assert refused(FOVEATE_STORE__READERZ="2").key == "store.readerz"
    assert refused(FOVEATE_NOPE__X="2").key == "nope"
    assert refused(FOVEATE_STORE__READERS__MORE="2").key == "store.readers"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("f.toml", b"[store\n", "is not TOML"),
        ("f.toml", b"\xff\xfe", "is not TOML"),
        ("f.yaml", b"store: [1\n", "is not YAML"),
        ("f.yaml", b"\xff\xfe\xff", "is not YAML"),
        ("f.yaml", b"store: 2026-99-99\n", "is not YAML"),
        ("f.yaml", b"[" * 5000, "is not YAML"),
        ("f.yaml", b"- store\n", "must have sections"),
        ("f.yaml", b"just words\n", "must have sections"),
    ],
)
def test_a_broken_file_is_refused_by_name(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=problem) as caught:
        load_settings(path, environment={})
    assert caught.value.key == str(path)


@pytest.mark.parametrize(
    ("content", "key", "written"),
    [
        ("1: x", "1", "1"),
        ("on: x", "true", "true"),
        ("null: x", "null", "null"),
        ("2026-01-02: x", "2026-01-02", "2026-01-02"),
        ("store: {1.5: x}", "store.1.5", "1.5"),
        ("gradient: {no: x}", "gradient.false", "false"),
        ("tools: {mcp_servers: {1: {command: x}}}", "tools.mcp_servers.1", "1"),
        ("models: {prices: {null: [1, 2]}}", "models.prices.null", "null"),
        ("profiles: {me: {1: {interval: 3}}}", "profiles.me.1", "1"),
        ("store: &a {x: *a, list: [{1: *a}]}", "store.list[0].1", "1"),
    ],
)
def test_a_key_of_yaml_that_is_no_text_is_refused_by_name_at_every_level(
    content: str, key: str, written: str, tmp_path: Path
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load_settings(path, environment={})
    problem = f"YAML does not read {written} as text; write it in quotes (in {path})"
    assert (caught.value.key, caught.value.problem) == (key, problem)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't be read: No such file") as caught:
        load_settings(tmp_path / "f.toml", environment={})
    assert caught.value.key == str(tmp_path / "f.toml")
    with pytest.raises(SettingsError, match="can't be read: Is a directory"):
        load_settings(tmp_path, environment={})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Settings().store.readers = 3  # type: ignore[misc]


def test_describe_lists_every_key_with_what_it_takes_and_its_default() -> None:
    described = {key: (takes, default) for key, takes, default in describe()}
    parts = {name: msgspec.to_builtins(getattr(Settings(), name)) for name in sections()}
    assert set(described) == {f"{part}.{key}" for part, values in parts.items() for key in values}
    assert described["store.synchronous"] == ("full or normal", "full")
    assert described["store.readers"] == ("a whole number from 1 to 64", 4)
    assert described["session.model"] == ("text, or none", None)
    assert described["context.cache_ttl_seconds"] == ("a number above 0, or none", None)
    assert described["models.fallbacks"] == ("a list of texts", ())
    assert described["checkpoint.tier_tokens"][0] == "a list of 4 whole numbers"
    assert not [
        takes for takes, _ in described.values() if re.search(r"[\[\]<>=|]|\b_|_\b|typing|msgspec|Optional", takes)
    ]


def test_the_page_of_the_settings_is_current() -> None:
    assert PAGE.read_text("utf-8") == generate(), "run `python tests/settings_page.py`"


@given(st.sampled_from(describe()))
def test_every_default_is_taken_when_it_is_said(row: tuple[str, str, object]) -> None:
    part, _, key = row[0].partition(".")
    assert load({part: {key: row[2]}}) == Settings()


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)


def outcome(overrides: dict[str, object]) -> Settings | SettingsError:
    try:
        return load(overrides)
    except SettingsError as error:
        return error


@given(st.sampled_from(describe()), json_like)
def test_any_value_is_taken_or_refused_by_its_key(row: tuple[str, str, object], value: object) -> None:
    part, _, key = row[0].partition(".")
    match outcome({part: {key: value}}):
        case SettingsError() as error:
            assert error.key.startswith(row[0])
        case taken:
            said = {name: msgspec.to_builtins(getattr(taken, name)) for name in sections()}
            assert load(said) == taken


@given(st.dictionaries(st.text(max_size=8), json_like, max_size=3))
def test_whatever_is_given_the_answer_is_settings_or_an_error_that_names_the_key(overrides: dict[str, object]) -> None:
    match outcome(overrides):
        case SettingsError() as error:
            assert any(error.key.startswith(part) for part in overrides)
        case taken:
            assert taken == Settings()


@pytest.mark.parametrize(
    ("part", "values", "problem"),
    [
        ("gradient", {"recent": 0.5}, "add up to 1"),
        ("allotments", {"board": 0.4, "recall": 0.8}, "leave room for the history"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_with_the_reason(
    part: str, values: dict[str, float], problem: str
) -> None:
    with pytest.raises(SettingsError, match=rf"setting {part}: .*{problem}"):
        load_settings(environment={}, overrides={part: values})


@pytest.mark.parametrize(
    ("toml", "environment", "overrides"),
    [
        ('[recall]\nmethod = "rrf"\ncandidates = 7', {}, {}),
        ("[recall]\ncandidates = 7", {"FOVEATE_RECALL__HOPS": "2"}, {}),
        ("[recall]\ncandidates = 7", {}, {"recall": {"reranker_path": "x.onnx"}}),
    ],
    ids=["file", "environment", "code"],
)
def test_a_retired_key_is_ignored_with_a_warning(
    toml: str,
    environment: dict[str, str],
    overrides: dict[str, object],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "f.toml"
    path.write_text(toml)
    assert load_settings(path, environment=environment, overrides=overrides).recall == RecallSettings(candidates=7)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the setting recall.")
    assert "is ignored" in caplog.messages[0]


def test_a_mistyped_strategy_names_its_key() -> None:
    with pytest.raises(SettingsError, match=r"session\.strategy: no strategy 'gradiant'.*did you mean gradient\?"):
        load(FOVEATE_SESSION__STRATEGY="gradiant")


def test_the_default_file_is_in_the_configuration_folder(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "foveate" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[session]\nbudget_tokens = 7000\n")
    assert load(HOME=str(tmp_path)).session.budget_tokens == 7_000
    assert load(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "other")).session.budget_tokens == 100_000


def test_a_profile_changes_a_strategy_for_the_sessions_of_its_scope(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    profile = '[profiles."project:shop".gradient]\nage_weight = 1.5\nraw_share = 0.2\n'
    path.write_text(f"[gradient]\nraw_share = 0.3\n{profile}")
    loaded = load_settings(path, environment={})
    given = loaded.given_for("project:shop", "gradient", {"raw_share": 0.4})
    assert given == {"age_weight": 1.5, "raw_share": 0.4}
    assert loaded.given_for("user:anna", "gradient", {}) == loaded.given_for("project:shop", "topics", {}) == {}
    assert loaded.gradient.raw_share == 0.3


@pytest.mark.parametrize(
    ("profiles", "key"),
    [
        ({"project:shop": {"gradient": {"raw_shares": 0.2}}}, "profiles.project:shop.gradient.raw_shares"),
        ({"project:shop": {"gradient": {"raw_share": 2}}}, "profiles.project:shop.gradient.raw_share"),
        ({"project:shop": {"recall": {"enabled": False}}}, "profiles.project:shop.recall"),
        ({"project:shop": {"gradient": 3}}, "profiles.project:shop.gradient"),
        ({"project:shop": 3}, "profiles.project:shop"),
        (3, "profiles"),
    ],
)
def test_a_wrong_profile_is_refused_by_its_key(profiles: object, key: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(environment={}, overrides={"profiles": profiles})
    assert error.value.key == key
