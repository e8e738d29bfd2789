"""A key never gets out: not in an error, what hangs on it, a log, or what a model says of itself."""

from __future__ import annotations

import logging
import pickle
import traceback
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from find_secrets import HALVES, Half, innocent_texts, secret_samples, stated_samples
from foveate.models.failures import CallTarget
from foveate.models.names import load_model
from foveate.models.settings import ModelsSettings
from foveate.secrets import MASK, SHOWN_CHARS, find, redact, scrub, scrub_line, secrets_in, stated
from support.asking import KEY, MODELS, Asking, chained, unused_port
from support.faulty_server import (
    Behaviour,
    HangUp,
    Protocol,
    Reply,
    Said,
    Stream,
    plain,
    refused,
    streamed,
)

REPEATED = [
    *("a", "A1", " ", "\n ", "password", "password ", "password is ", "password = ", "password='a ", "pin ", "token "),
    *("my secret a b c ", "api_key", "mnemonic", "seed phrase is abc ", "abc def ", "a" * 63 + " ", "x" * 40 + " "),
    *(
        "sk-",
        "hf_",
        "SG.",
        "eyJ-",
        "eyJaaaaaaaaa.",
        "://",
        "://a:",
        "&key=",
        "-u a:",
        "machine a login b ",
        "Authorization: ",
    ),
    *("door 4471 ", "the alarm is 1 2 3 4 ", "login a1b2c ", "safe 1-2-3-"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "1234 ", "123-45-", "4111111111111111 "),
]
"""Beginnings of all patterns, to be repeated."""
PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic", "google")
ECHO = f"you sent Authorization: Bearer {KEY}, x-api-key={KEY}, and {KEY}"
ECHOES: list[Behaviour] = [
    *(Reply(status, {"error": {"message": ECHO, "code": ECHO, "type": ECHO}}) for status in (400, 401, 404, 429, 500)),
    Reply(400, ECHO, content_type="text/plain"),
    Reply(200, ECHO, content_type="text/plain"),
    Reply(200, {"error": {"message": ECHO}}),
    Reply(200, {"choices": [{"message": {"content": 5, "refusal": ECHO}}]}),
    Reply(200, f"{{{ECHO}"),
    Stream([f"data: {ECHO}\n\n"]),
    HangUp(),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_never_appears_in_an_error_nor_in_what_hangs_on_it_nor_in_a_log(
    protocol: Protocol, asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for behaviour in ECHOES:
        asking.server.will(behaviour)
        for error in asking.errors(MODELS[protocol]):
            told = "".join(traceback.format_exception(error))
            assert KEY not in f"{error} {error!r} {error.args} {error.problem} {vars(error)} {told}"
            assert chained(error) == [error]
            assert KEY.encode() not in pickle.dumps(error.args)
    assert KEY not in caplog.text


def test_a_key_never_appears_in_a_log_of_what_goes_well(asking: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for protocol in PROTOCOLS:
        asking.server.will(plain(protocol, Said()))
        asking.answer(MODELS[protocol])
        asking.server.will(streamed(protocol, Said()))
        asking.pieces(MODELS[protocol])
        assert KEY in str(asking.sent().headers)
    assert KEY not in caplog.text


def test_a_model_does_not_show_its_key(asking: Asking) -> None:
    for name in MODELS.values():
        model = load_model(name, ModelsSettings())
        assert KEY not in f"{model!r} {model}"


def test_a_key_that_looks_like_nothing_is_taken_out_because_it_is_known(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "correct.horse.battery")
    asking.server.will(refused("openai", 400, "unknown user correct.horse.battery in region 1"))
    error = asking.error(MODELS["openai"])
    assert "correct.horse" not in str(error)
    assert "region 1" in str(error)


PASSWORD = "Zq8vX2m:N4pL7w"
BEHIND_A_PASSWORD = {
    "OLLAMA_BASE_URL": "ollama:qwen3",
    "OPENAI_BASE_URL": MODELS["openai"],
    "ANTHROPIC_BASE_URL": MODELS["anthropic"],
    "GOOGLE_GEMINI_BASE_URL": MODELS["google"],
}


@pytest.mark.parametrize("variable", BEHIND_A_PASSWORD)
def test_a_password_in_an_address_is_as_secret_as_a_key(
    variable: str, asking: Asking, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name = BEHIND_A_PASSWORD[variable]
    told = ""
    asking.server.will(Reply(500, {"error": {"message": f"no such user as u, {PASSWORD} or {quote(PASSWORD)}"}}))
    for port in (asking.server.port, unused_port()):
        monkeypatch.setenv(variable, f"http://u:{quote(PASSWORD)}@127.0.0.1:{port}/v1")
        for error in asking.errors(name):
            assert f"127.0.0.1:{port}" in str(error)
            told += "".join(traceback.format_exception(error)) + repr(vars(error))
        told += repr(load_model(name, ModelsSettings()))
    for form in (PASSWORD, quote(PASSWORD)):
        assert form not in told
        assert form not in caplog.text


def test_what_is_asked_does_not_show_its_secrets() -> None:
    target = CallTarget("openai:x", "x", "api.openai.com", "OPENAI_API_KEY", has_key=True, secrets=(KEY,))
    assert KEY not in repr(target)
    assert KEY not in str(target.failed(f"see {KEY}", reason="server")) + str(target.unavailable(KEY, reason="name"))


@pytest.mark.parametrize("key", [KEY, "a+b/c=d?e f~g", "correct.horse.battery"])
def test_a_key_is_taken_out_in_the_forms_a_server_repeats_it_in(key: str) -> None:
    for form in (key, quote(key, safe=""), b64encode(key.encode()).decode(), urlsafe_b64encode(key.encode()).decode()):
        assert form.rstrip("=") not in scrub(f"you sent {form}, or not", [key])


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("http://user:pa%3Ass@host:1/v1", ("pa%3Ass", "pa:ss")),
        ("https://token@host/v1", ("token",)),
        ("https://host/v1", ()),
        ("", ()),
    ],
)
def test_what_gives_access_in_an_address_is_a_secret(url: str, secrets: tuple[str, ...]) -> None:
    assert secrets_in(url) == secrets


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF123456_-",
        "sk-ant-api03-abcdefgh",
        "sk-or-v1-0123456789abcdef",
        "sk-abc***************wxyz",
        "AIzaSyA1234567890abcdefghijklm",
        "xai-1234567890abcdef",
        "gsk_1234567890abcdef",
        "hf_1234567890abcdef",
    ],
)
def test_what_looks_like_a_key_is_taken_out(secret: str) -> None:
    assert scrub(f"before {secret}, after") in ("before [key], after", "before [key] after")
    assert secret not in scrub(f"url?api_key={secret}&x=1 {{'x-api-key': '{secret}'}} https://{secret}@host/")


@pytest.mark.parametrize("header", ["Authorization: Bearer {}", "'authorization': 'Basic {}'", "X-API-Key: {}"])
def test_a_header_is_taken_out_whatever_its_key_looks_like(header: str) -> None:
    assert "horse.battery" not in scrub(f"sent {header.format('horse.battery')}, then failed")


@given(st.text(max_size=200), st.text(max_size=200), st.text(st.characters(codec="ascii"), min_size=4, max_size=60))
def test_a_known_key_is_taken_out_of_any_text(before: str, after: str, secret: str) -> None:
    told = scrub(before + secret + after, [secret])
    assert secret not in told or secret in scrub(before + "[key]" + after)


@given(st.text(max_size=2_000))
def test_what_is_shown_is_one_short_line(text: str) -> None:
    shown = scrub_line(text)
    assert len(shown) <= SHOWN_CHARS
    assert len(shown.splitlines()) <= 1


def test_no_part_of_a_key_is_left_where_a_line_is_cut() -> None:
    shown = scrub_line("x" * (SHOWN_CHARS - 10) + " " + KEY, [KEY])
    assert "sk-" not in shown


@pytest.mark.parametrize(
    "secret",
    [
        "tvly-dev-abcdefghijklmnop1234",
        "pplx-abcdefghijklmnop1234567890",
        "nvapi-abcdefghij1234567890abcdefghij",
        "ntn_123456789012abcdefghijklmnop",
        "lsv2_pt_0123456789abcdef0123456789abcdef_0123456789",
        "secret_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
        "phc_abcdefghijklmnopqrstuvwxyz0123456789",
        "rpa_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcd",
    ],
)
def test_keys_of_more_services_are_found_by_their_prefixes(secret: str) -> None:
    assert redact(f"use {secret} here") == f"use {MASK} here"


@pytest.mark.parametrize(
    "text",
    ["PGPASSWORD={} psql", "\u5bc6\u7801\uff1a{}", "\u5bc6\u7801\u662f{}", "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f{}"],
)
def test_passwords_without_a_space_before_them_are_found(text: str) -> None:
    assert redact(text.format("abc12345")) == text.format(MASK)


def test_ordinary_words_stay() -> None:
    said = "the task-runner asked for basic help; see https://example.com/a?b=c and risk-averse people"
    assert scrub(said) == said


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_abcdefghijklmnopqrst",
        "xoxb-1234567890-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0x.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "password=hunter2hunter2",
        "DB_PASSWORD: hunter2hunter2",
        "Passwort: geheim1234",
        KEY,
    ],
)
def test_secrets_of_all_kinds_are_taken_out_of_turns(secret: str) -> None:
    redacted = redact(f"It is {secret}, says she.")
    assert MASK in redacted
    assert redacted.startswith("It is ")
    assert redacted.endswith("says she.")
    assert secret[-6:] not in redacted
    assert redact(redacted) == redacted


# Written in two parts, so that no scanner of repositories takes them for real.
@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("The Stripe key is {}", "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzEXAMPLE12"),
        ("AWS gave me {} yesterday", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzEXAMPLE12"),
        ("Use {} for the gateway", "fov_" + "0123456789abcdef" * 3),
        ("my password is {}", "hunter2!x"),
        ("My password is {}, as always", "swordfish"),
        ("the PIN is {}", "4711"),
        ("Die PIN ist {}", "4711"),
        ("always log in with {} as the password", "hunter2!x"),
        ("Pay with {}", "4111 1111 " + "1111 1111"),
        ("Pay with {}", "4012888888" + "881881"),
        ("My number is {}", "078-05-" + "1121"),
        ("SSN: {}", "078051" + "121"),
        ("Always use the passphrase {}", "correct horse battery staple"),
        ("Meine Passphrase lautet {}", "rote kuh tanzt morgen"),
        (
            "Use the seed phrase {}",
            "abandon ability able about above absent absorb abstract absurd abuse access accident",
        ),
        ("The wifi code is always {}, use it", "Tr0ub4dor&3"),
        ("Always unlock with the code {}", "9-3-7-1"),
        ("Der Türcode lautet {}", "4711"),
        ("Le code de la porte est {}", "4711"),
        ("El código de la puerta es {}", "4711"),
        ("Always use my mother's maiden name {} as the security answer", "Kowalczyk"),
        ("use {} as the security answer", "Fluffy"),
        ("Der Mädchenname meiner Mutter ist {}", "Kowalczyk"),
        ("Always use IBAN {} for refunds", "DE893704" + "00440532013000"),
        ("Mein Konto ist {}", "DE89 3704 " + "0044 0532 0130 00"),
    ],
)
def test_a_secret_is_masked_and_the_words_around_it_stay(said: str, secret: str) -> None:
    assert redact(said.format(secret) + ".") == said.format(MASK) + "."


def test_a_stated_password_is_masked_in_a_text_that_does_not_call_it_one() -> None:
    secrets = stated("My password is hunter2!x, and the key is sk-proj-abcDEF123456.")
    assert secrets == ("hunter2!x",)
    assert redact("Logged in with hunter2!x.", secrets) == f"Logged in with {MASK}."


@pytest.mark.parametrize(
    "number", ["4111 1111 1111 1112", "9111111111111111", "000-12-3456", "078-05-11211", "2026-05-1121"]
)
def test_a_number_with_a_wrong_check_digit_or_form_stays(number: str) -> None:
    assert redact(f"The order is {number}.") == f"The order is {number}."


@pytest.mark.parametrize(
    "text",
    [
        "Enter the passphrase twice before every commit.",
        "Never share your seed phrase with anyone, not even with the support of the wallet company.",
        "The wifi code is in the drawer.",
        "Open the file with code 200 in the log.",
        "The door code changes every month.",
        "Use something random as the security answer.",
        "The security answer should be hashed.",
        "IBAN: DE00 0000 0000 0000 0000 00",
    ],
)
def test_a_text_about_codes_and_answers_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["**Password Hashing**: use", "2. **Basic Classification**", "Basic Analytics**"])
def test_a_heading_about_passwords_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("half", HALVES)
def test_every_listed_kind_of_secret_is_found_and_at_most_one_innocent_text_in_a_hundred_is_masked(half: Half) -> None:
    assert [sample.text for sample in secret_samples(half, draws=3) if not sample.is_found] == []
    innocent = innocent_texts(half)
    assert sum(redact(text) != text for text in innocent) <= len(innocent) / 100


@pytest.mark.parametrize("half", HALVES)
def test_most_secrets_that_people_state_in_their_own_words_are_found(half: Half) -> None:
    samples = stated_samples(half)
    assert sum(sample.is_found for sample in samples) >= len(samples) * 7 / 10


@pytest.mark.parametrize(
    "text",
    [
        "My user ID is anna_lee_6825 and the reservation is YAX4DR.",
        "Sign in with OAuth2, the router is an AX3000.",
        "The alarm goes off at 6:45, the safe cost 1200 euros and gate 4 opens in 2027.",
        "- **Login:** the column is `db.String(120), nullable=False`",
        "door = 4471; lock(9031)",
        "Please open the door at 0730 and close it at 1800.",
        "Das Tor öffnet um 0645 und schließt um 2200.",
        "Each padlock costs 1299 and comes with 2 keys.",
        "My passport is renewed on 12-04-2029, the password was changed on 2024-03-01 at 14:02.",
        "pw is short for password; see RFC 2898.",
        "The portal shows SKU AB-1234-XY and order A10234B.",
        "Im Kundenportal steht Rechnung RE-2024-0815 als offen.",
        "The commit 9f8e7d6c5b4a in the login branch broke the build.",
        "The cache key is user:4711:profile:v2, the primary key is order_id_2024_v2.",
        "The NAS has 2x16TB.",
        "2026-11-19T13:02:11.482Z INFO POST 200 key=K-3f1c90ab model=claude-sonnet-4-5 session=code-d703",
        "The token is in deployment.md#other-users-2, then export FOVEATE_MODELS__DAILY_USD=2.0 and login.",
        "Browser 1: sign in with playwright-cli -s=auth open",
    ],
)
def test_a_number_or_name_beside_a_login_or_a_lock_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.thorough  # a pattern that scans a text more than once would take hours
@pytest.mark.parametrize("repeated", REPEATED)
def test_a_megabyte_made_to_slow_a_pattern_down_is_scanned_once(repeated: str) -> None:
    find(repeated * (1_000_000 // len(repeated)))


@pytest.mark.parametrize(
    "text",
    [
        '"POST /login HTTP/1.1" 302 512 "-" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"',
        "login-7d9c5b6f8d-x2k4p 1/1 Running 0 3d",
        "Successfully tagged portal:2024.03.1",
        "Bundle size: login.3f9a2b1c.js 142.31 kB, portal.9e8d7c6b.css 12.02 kB",
        "ether 02:42:ac:11:00:02  txqueuelen 0  (router)",
        "The login failed with the trace id 7d9c5b6f8d4c01db0b339c4f5e8d9c5b.",
        "The request id of the failed login is 4c01db0b-339c-4f5e-8d9c-5b6f8d7e9f0a.",
        "The alarm was armed at 14:02:11, next 1709643731 beside it.",
    ],
)
def test_outputs_of_tools_that_name_a_login_or_a_router_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        'div class="sk-toggleable__label sk-text-repr-fallback" id="sk-container-id-1"',
        "We use sk-learning. And pk-session-1, hf_dataset_cleanup_3, npm_config_user_agent_2, rpa_invoice_robot_2024.",
    ],
)
def test_names_that_begin_like_a_key_stay(text: str) -> None:
    assert redact(text) == text


def test_what_is_no_secret_stays() -> None:
    text = "The password page asks for a secret: no. Tokens: 12. Passing tests; the passport is ready."
    assert redact(text) == text
