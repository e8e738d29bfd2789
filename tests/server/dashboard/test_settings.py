"""The pages of settings and prompts: descriptions, filters, sources, rights and versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate.settings import describe, sections
from support.servers import ServerClient, call, client_of


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerClient]:
    file = tmp_path / "config.toml"
    file.write_text("[store]\nreaders = 7\n")
    monkeypatch.setenv("FOVEATE_CONFIG", str(file))
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "32000")
    with client_of(tmp_path / "a.db", max_jobs=3) as made:
        yield made


def keys_on(page: str) -> set[str]:
    return set(re.findall(r"<dt><code>(\w+)</code>", page))


def test_every_setting_is_described_in_a_folded_section(client: ServerClient) -> None:
    page = client.get("/ui/settings").text
    assert keys_on(page) == {setting.name.partition(".")[2] for setting in describe()}
    assert page.count('<details class="section">') == len(sections())
    assert not re.search(r"</dt>\s*<dd><p class=\"note\">", page), "a setting has no description"
    assert "Number of reader threads, each with its own connection." in page
    assert "Takes a whole number from 1 to 64." in page


def test_a_setting_says_where_its_value_comes_from(client: ServerClient, tmp_path: Path) -> None:
    page = client.get("/ui/settings?changed=yes").text
    assert {"readers", "budget_tokens", "max_jobs"} <= keys_on(page)
    assert "compression_level" not in keys_on(page)
    assert f"From file: {tmp_path / 'config.toml'}." in page
    assert "From environment: FOVEATE_SESSION__BUDGET_TOKENS." in page
    assert "From command line or program." in page
    assert "Default: 4." in page


def test_settings_are_found_by_name_and_by_meaning(client: ServerClient) -> None:
    assert "readers" in keys_on(client.get("/ui/settings?q=store.readers").text)
    assert keys_on(client.get("/ui/settings?q=reader+connection").text) == {"readers"}
    part = client.get("/ui/settings?q=reader+connection", headers={"hx-request": "true"}).text
    assert "<html" not in part
    assert '<details class="section" open>' in part
    nothing = client.get("/ui/settings?q=%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "0 of " in nothing
    assert "<script>alert(1)" not in nothing


def test_a_prompt_is_edited_and_reset_with_its_history(client: ServerClient) -> None:
    page = client.get("/ui/prompts").text
    assert "/ui/prompts/modes%2Fcore" in page
    client.post("/ui/prompts", data={"key": "reviews/code", "text": "Review {language}."})
    assert "reviews%2Fcode" in client.get("/ui/prompts").text
    changed = client.post("/ui/prompts/modes%2Fcore", data={"text": "Be <b>brief</b>."}, follow_redirects=False)
    assert (changed.status_code, changed.headers["location"]) == (303, "/ui/prompts/modes%2Fcore")
    page = client.get("/ui/prompts/modes%2Fcore").text
    assert "Be &lt;b&gt;brief&lt;/b&gt;." in page
    assert "Version 1" in page
    assert "Reset to the built-in text" in page
    assert "Core mandates" in client.get("/ui/prompts/modes%2Fcore?version=0").text
    client.post("/ui/prompts/modes%2Fcore/reset")
    assert "Core mandates" in client.get("/ui/prompts/modes%2Fcore").text
    client.post("/ui/prompts/reviews%2Fcode/reset")
    page = client.get("/ui/prompts/reviews%2Fcode").text
    assert "Removed. Saving restores it." in page
    assert "Review {language}." in client.get("/ui/prompts/reviews%2Fcode?version=1").text


def test_a_bad_prompt_is_explained(client: ServerClient) -> None:
    for key, text, status, problem in (
        ("reviews/code", " ", 422, "has no text"),
        ("Bad Key", "x", 422, "can&#39;t be the key"),
        ("modes/new", "{{include:none}}", 422, "none"),
    ):
        sent = client.post("/ui/prompts", data={"key": key, "text": text})
        assert (sent.status_code, problem in sent.text) == (status, True), key
    assert client.get("/ui/prompts/none").status_code == 404
    assert client.get("/ui/prompts/modes%2Fcore?version=99").status_code == 404
    assert client.get("/ui/prompts/modes%2Fcore?version=x").status_code == 422


def test_a_prompt_that_directs_models_is_changed_with_the_right_admin_only(tmp_path: Path) -> None:
    with client_of(tmp_path / "keys.db", key_cache_seconds=0) as client:
        create = client.fov.keys.create
        for rights, status in ((["read"], 403), (["read", "write"], 403), (["read", "write", "admin"], 303)):
            made = call(client, create, "k", rights=rights)
            client.cookies.clear()
            client.post("/ui/login", data={"key": made.secret}, follow_redirects=False)
            page = client.get("/ui/prompts/modes%2Fcore").text
            assert ("<textarea" in page) == ("write" in rights)
            sent = client.post("/ui/prompts/modes%2Fcore", data={"text": "Be brief."}, follow_redirects=False)
            assert sent.status_code == status, rights
