"""Where a model's name leads."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import ModelUnavailable
from foveate.models import Purpose
from foveate.models.names import (
    ENDPOINT_KEY,
    PLUGINS,
    SERVICES,
    ApiKey,
    ModelName,
    find_key,
    load_model,
    models_for,
    parse_name,
    understand,
)
from foveate.models.settings import ModelsSettings

SECRET = "sk-ant-Zq8vX2mN4pL7wR1t"


def refused(name: str) -> str:
    with pytest.raises(ModelUnavailable) as caught:
        parse_name(name, plugins=("scripted",))
    assert caught.value.reason == "name"
    return str(caught.value)


@pytest.mark.parametrize("prefix", sorted(SERVICES))
def test_a_provider_is_the_prefix_and_everything_behind_the_first_colon_is_the_model(prefix: str) -> None:
    parsed = parse_name(f"{prefix}:vendor/model-2:8b")
    assert (parsed.kind, parsed.provider, parsed.model) == (prefix, prefix, "vendor/model-2:8b")
    assert parsed.needs_key == (prefix != "ollama")


def test_an_endpoint_is_a_model_at_an_address() -> None:
    parsed = parse_name("vendor/qwen3:8b@http://127.0.0.1:8080/v1")
    assert parsed == ModelName(
        "vendor/qwen3:8b@http://127.0.0.1:8080/v1",
        "endpoint",
        "vendor/qwen3:8b",
        "127.0.0.1:8080",
        "http://127.0.0.1:8080/v1",
        (ENDPOINT_KEY,),
        needs_key=False,
    )


@pytest.mark.parametrize(
    ("address", "base_url"),
    [
        ("http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/", "http://localhost:8080/v1"),
        ("https://LLM.example.com/api/v1/", "https://llm.example.com/api/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
    ],
)
def test_an_address_without_a_path_leads_to_v1(address: str, base_url: str) -> None:
    assert parse_name(f"m@{address}").base_url == base_url


@pytest.mark.parametrize("listed", ["llm.example.com", "llm.example.com:8443"])
def test_an_endpoints_key_is_in_the_variable_that_settings_name(listed: str) -> None:
    parsed = parse_name("m@https://llm.example.com:8443/v1", key_variables={listed: "TEAM_KEY"})
    assert parsed.key_variables == ("TEAM_KEY",)
    assert parsed.needs_key


@pytest.mark.parametrize("name", ["local", "local:2048", "local:some/file.gguf"])
def test_local_needs_neither_key_nor_address(name: str) -> None:
    parsed = parse_name(name)
    assert (parsed.kind, parsed.provider, parsed.needs_key) == ("local", "local", False)


def test_a_plug_ins_prefix_leads_to_it() -> None:
    assert parse_name("scripted:some/file", plugins=("scripted",)).kind == "plugin"
    assert parse_name("scripted", plugins=("scripted",)).provider == "scripted"
    assert "scripted" in PLUGINS.registered


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "the name is empty"),
        ("  ", "the name is empty"),
        ("openai:gpt 5", "a space"),
        ("openai:gpt\n5", "a space"),
        ("openai:\x00", "unprintable"),
        ("openai:", "write openai:MODEL"),
        ("openai", "write openai:MODEL"),
        ("gpt-5-mini", "did you mean openai:gpt-5-mini?"),
        ("claude-haiku-4-5", "did you mean anthropic:claude-haiku-4-5?"),
        ("gemini:flash", "did you mean google:flash?"),
        ("opnai:gpt-5", "did you mean openai:gpt-5?"),
        ("locl", "did you mean local?"),
        ("http://localhost:8080/v1", "write MODEL@http://localhost:8080/v1"),
        ("@http://localhost:8080/v1", "the model is missing"),
        ("m@localhost:8080", "must begin with http:// or https://"),
        ("m@ftp://host/v1", "use http:// or https://"),
        ("m@http:///v1", "has no host"),
        ("m@http://host:99999/v1", "can't be read"),
        ("m@http://host:eighty/v1", "can't be read"),
        ("m@http://[::1/v1", "can't be read"),
        ("m@http://host/v1/chat/completions", "omit /chat/completions"),
        ("zzz:model", "write openai:MODEL, anthropic:MODEL"),
        ("o" * 600, "longer than"),
    ],
)
def test_a_wrong_name_says_what_to_write(name: str, said: str) -> None:
    assert said in refused(name)


@pytest.mark.parametrize(
    "name",
    [
        f"openai:{SECRET}",
        f"m@http://user:{SECRET}@host/v1",
        f"m@http://{SECRET}@host/v1",
        "m@http://host/v1?key=Zq8vX2mN4pL7wR1t",
        f"{SECRET}",
        f"openai:gpt {SECRET}",
    ],
)
def test_a_key_in_a_name_is_refused_and_not_repeated(name: str) -> None:
    said = refused(name)
    assert "Zq8vX2mN4pL7wR1t" not in said
    assert "environment" in said or "space" in said


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_an_error_that_says_so(text: str) -> None:
    try:
        parsed = parse_name(text)
    except ModelUnavailable:
        return
    assert parsed.name == text
    assert parsed.provider


def test_a_purpose_has_its_own_model_then_the_default_then_the_fallbacks_without_repeats() -> None:
    settings = ModelsSettings(default="a", chat="b", fallbacks=("c", "a", "c"))
    assert models_for("chat", settings) == ("b", "c", "a")
    assert models_for("compress", settings) == ("a", "c")
    assert models_for("tiny", settings) == ("a", "c")
    assert models_for("tiny", ModelsSettings(default="a", compress="b")) == ("b",)


def test_the_default_covers_every_wording_but_s() -> None:
    settings = ModelsSettings(default="a", fallbacks=("c",))
    assert models_for("smooth", settings) == ()
    assert models_for("roll-up", settings) == models_for("compress", settings)
    assert models_for("smooth", ModelsSettings(smooth="s")) == ("s",)
    assert models_for("roll-up", ModelsSettings(roll_up="r")) == ("r",)


@pytest.mark.parametrize("purpose", get_args(Purpose))
def test_without_a_name_nothing_is_asked_not_even_a_fallback(purpose: Purpose) -> None:
    assert models_for(purpose, ModelsSettings(fallbacks=("c",))) == ()


def test_the_first_variable_that_is_set_holds_the_key() -> None:
    google = parse_name("google:gemini-2.5-flash")
    assert find_key(google, {"GEMINI_API_KEY": "second"}) == ApiKey("GEMINI_API_KEY", "second")
    assert find_key(google, {"GEMINI_API_KEY": "second", "GOOGLE_API_KEY": " first\n"}) == ApiKey(
        "GOOGLE_API_KEY", "first"
    )
    assert find_key(google, {"GOOGLE_API_KEY": "  "}) is None


def test_a_key_does_not_show_itself() -> None:
    assert SECRET not in f"{ApiKey('OPENAI_API_KEY', SECRET)!r} {ApiKey('OPENAI_API_KEY', SECRET)}"


@pytest.mark.parametrize("prefix", ["openai", "anthropic", "google", "openrouter"])
def test_a_missing_key_says_which_variable_to_set(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in SERVICES[prefix].key_variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelUnavailable, match=SERVICES[prefix].key_variables[0]) as caught:
        load_model(f"{prefix}:some-model", ModelsSettings())
    assert caught.value.reason == "key"


def test_a_key_that_settings_promise_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEAM_KEY", raising=False)
    settings = ModelsSettings(key_variables={"llm.example.com": "TEAM_KEY"})
    with pytest.raises(ModelUnavailable, match="TEAM_KEY") as caught:
        load_model("m@https://llm.example.com/v1", settings)
    assert caught.value.reason == "key"


@pytest.mark.parametrize("value", ["two words", "käy-käy-käy", "line\nbreak"])
def test_a_value_that_can_be_no_key_is_refused_without_being_shown(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    with pytest.raises(ModelUnavailable, match="can't be a key") as caught:
        load_model("openai:gpt-5-mini", ModelsSettings())
    assert caught.value.reason == "key"
    assert value not in str(caught.value)


@pytest.mark.parametrize("missing", ["pydantic_ai", "openai"])
def test_a_missing_extra_says_exactly_what_to_install(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from foveate.errors import ModelUnavailable
from foveate.models.names import load_model
from foveate.settings import ModelsSettings
try:
    load_model("openai:gpt-5-mini", ModelsSettings())
except ModelUnavailable as error:
    print(error.reason, error)
"""
    environment = os.environ | {"OPENAI_API_KEY": SECRET}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("extra ")
    assert "pip install 'foveate[models]'" in done.stdout


def test_the_scripted_model_of_the_package_is_loaded_by_its_entry_point() -> None:
    with pytest.raises(ModelUnavailable, match="no-such-file"):
        load_model("scripted:no-such-file", ModelsSettings())


def test_the_key_of_a_known_host_may_be_in_either_variable() -> None:
    parsed = parse_name("gpt-5@https://api.openai.com/v1")
    assert parsed.needs_key
    for variable in ("OPENAI_API_KEY", "FOVEATE_ENDPOINT_KEY"):
        key = find_key(parsed, {variable: "sk-1"})
        assert key is not None
        assert key.variable == variable
    other = parse_name("gpt-5@https://api.openai.com/v1", key_variables={"api.openai.com": "TEAM_KEY"})
    assert other.key_variables == ("TEAM_KEY",)


def test_the_shared_key_goes_only_to_hosts_that_the_settings_name() -> None:
    settings = ModelsSettings(chat="m@https://llm.example.com:8443/v1", key_variables={"team.example.com": "TEAM_KEY"})
    environment = {"FOVEATE_ENDPOINT_KEY": "shared", "TEAM_KEY": "team", "OPENAI_API_KEY": "sk-1"}

    def key_for(name: str, *more: str) -> str | None:
        key = find_key(understand(name, settings, more), environment)
        return key.variable if key else None

    assert key_for("other@https://LLM.example.com:8443/v1") == "FOVEATE_ENDPOINT_KEY"
    assert key_for("m@https://llm.example.com:9000/v1") is None
    assert key_for("m@https://elsewhere.example.com/v1") is None
    assert key_for("m@https://team.example.com/v1") == "TEAM_KEY"
    assert key_for("gpt-5@https://api.openai.com/v1") == "OPENAI_API_KEY"
    assert key_for("m@http://judge.example.com/v1", "m@http://judge.example.com/v1") == "FOVEATE_ENDPOINT_KEY"


def test_without_an_endpoint_in_the_settings_the_shared_key_is_for_the_one_that_is_named() -> None:
    parsed = understand("m@https://llm.example.com/v1", ModelsSettings(default="openai:gpt-5-mini"))
    assert parsed.key_variables == ("FOVEATE_ENDPOINT_KEY",)
