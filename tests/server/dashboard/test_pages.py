"""The dashboard without a browser: every page, hostile contents as text, keys, and what people can change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.agents.choice import remember_model, remembered_model
from foveate.server.dashboard.page import POLICY
from foveate.server.dashboard.table import PAGES, STATIC
from foveate.session.client_calls import CallNote
from foveate.session.sent import SentBodies
from foveate.store import SessionRow
from support.servers import ServerClient, bearer, call, client_of
from support.stores.calls import call as new_call

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></div><h1>forged</h1>",
    "</title><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "' onmouseover='alert(4)",
    "{{ 7 * 7 }}",
    "{% include 'login.html' %}",
    "<!-- report -->",
    "javascript:alert(5)",
    "<a href='javascript:alert(6)'>x</a>",
    "<style>body{display:none}</style>",
    "<iframe src='//evil.example'></iframe>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href='//evil.example'>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<form action='//evil.example'><input name=key></form>",
    "<object data='//evil.example'></object>",
    "&lt;script&gt;alert(7)&lt;/script&gt;",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202eright to left\u202c",
    "zero\u200bwidth\u200djoiner\ufeff",
    "\u0000null\u0001",
    "a" * 3_000,
    "\ud800 lone",
    "<details open ontoggle=alert(8)>",
    "<math><mtext><script>alert(9)</script></mtext></math>",
    "hx-get='/ui/doctor' hx-trigger='load'",
    "<div hx-post='/ui/doctor' hx-trigger='load'></div>",
    "]]><!--<script>--><script>alert(10)</script>",
    "[click](javascript:alert(11)) <javascript:alert(12)> [x](JaVaScRiPt:alert(13)) [y](&#106;avascript:alert(14))",
    "![pixel](//evil.example/x.png) [go](//evil.example) [inside](/ui/doctor) [d](data:text/html,<b>x</b>)",
    "[ref]: //evil.example\n\n[ref] [ref][ref]",
    '```html"><script>alert(15)</script>\n</code></pre><script>alert(16)</script>\n```',
    "| <b>a</b> | b |\n| :-: | --: |\n| <script>alert(17)</script> | <img src=x onerror=alert(18)> |",
    "# <h1>forged</h1>\n\n<script>\nalert(19)\n</script>\n\n    <iframe src=x></iframe>",
    '[a](https://ok.example/"onmouseover="alert(20) "t\' onclick=\'x")',
]
"""Contents that must stay text, as HTML and as Markdown."""
SESSION = "chat"
NAMES = {
    "session": SESSION,
    "turn": "T-1",
    "job": "",
    "item": "",
    "agent": "",
    "key": "",
    "action": "cancel",
    "prompt": "modes%2Fcore",
    "number": "1",
}
FOREIGN = {"img", "iframe", "object", "base", "style", "math"}
"""Elements that no page has of its own."""


class Elements(HTMLParser):
    """Collects the elements of a page, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def elements(text: str) -> list[tuple[str, dict[str, str]]]:
    parser = Elements()
    parser.feed(text)
    return parser.found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    with client_of(tmp_path_factory.mktemp("dashboard") / "a.db") as made:
        assert made.post("/api/v1/sessions", json={"id": SESSION, "title": HOSTILE[0]}).status_code == 201
        call(made, _record, made.fov)
        made.post(f"/api/v1/sessions/{SESSION}/pins", json={"text": f"{HOSTILE[1]} pinned"})
        made.post(f"/api/v1/sessions/{SESSION}/goals", json={"title": HOSTILE[2]})
        made.post(f"/api/v1/sessions/{SESSION}/settle")
        yield made


async def _record(fov: Foveate) -> None:
    session = await fov.open_session(SESSION)
    for text in HOSTILE:
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": f"You said {text}"}]
        await session.record(said)
    hostile = "".join(HOSTILE)
    note = CallNote(request_id="req_1", format="openai", model=hostile, address="https://h", path=hostile)
    note.session, note.body = SESSION, json.dumps({"messages": [{"role": hostile, "content": hostile}]}).encode()
    row = SentBodies(is_stored=True).take(note).row
    assert row is not None
    await fov.store.sent.add([(SESSION, row)], kept=50, most_bytes=1_000_000)


def readable(page_path: str) -> bool:
    """Pages that need nothing but the session."""
    return not re.search(r"\{(job|item|agent|key|place)\}", page_path)


GETS = [
    page.path for page in PAGES if page.method == "GET" and readable(page.path) and not page.path.endswith("/events")
]


@pytest.mark.parametrize("path", GETS)
def test_a_page_answers_with_a_strict_policy_and_nothing_inline(client: ServerClient, path: str) -> None:
    answer = client.get(path.format(**NAMES))
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    if path.endswith("/export"):
        assert "attachment" in answer.headers["content-disposition"]
        return
    for tag, attributes in elements(answer.text):
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert tag != "script" or attributes.get("src", "").startswith("/ui/static/")


def test_hostile_contents_are_shown_as_text_on_every_page(client: ServerClient) -> None:
    turns = [f"/ui/sessions/{SESSION}/turns/T-{place}" for place in range(1, len(HOSTILE) + 1)]
    own = ("", "/picture", "/turns", "/find?q=alert", "/requests", "/requests/1")
    pages = ["/", *(f"/ui/sessions/{SESSION}{rest}" for rest in own)]
    for path in [*turns, *pages, "/ui/search?q=alert"]:
        text = client.get(path).text
        assert not FOREIGN & {tag for tag, _ in elements(text)}, path
        for tag, attributes in elements(text):
            wanted = {"/ui/doctor", "//evil.example", "javascript:"}
            assert not [value for value in attributes.values() if any(bad in value for bad in wanted)], (path, tag)
        assert text.count("<h1") <= 1, path
    assert "{{ 7 * 7 }}" in client.get(f"/ui/sessions/{SESSION}/turns/T-7").text


def test_static_files_are_served_from_a_list(client: ServerClient) -> None:
    sizes = 0
    for name in STATIC:
        answer = client.get(f"/ui/static/{name}")
        assert answer.status_code == 200
        sizes += len(answer.content)
    assert client.get("/ui/static/../page.py").status_code == 404
    assert client.get("/ui/static/vendor/").status_code == 404
    assert sizes < 400_000


def test_a_person_pins_and_finishes_a_goal_and_forks(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "work", "strategy": "topics"})
    client.post("/api/v1/sessions/work/turns", json={"messages": [{"role": "user", "content": "Hello"}]})
    base = "/ui/sessions/work"
    client.post(f"{base}/pin", data={"text": "Never on a Friday."}, follow_redirects=False)
    client.post(f"{base}/goal", data={"title": "Ship"})
    client.post(f"{base}/change", data={"title": "Renamed", "budget": "16k", "strategy": "topics"})
    page = client.get(base).text
    assert "Never on a Friday." in page
    assert "Renamed" in page
    assert "16000" in page
    client.post(f"{base}/goal", data={"done": "G-1"})
    assert call(client, _goal_state, client.fov) == ["done"]
    made = client.post(f"{base}/fork", data={"name": "work-2", "turn": "T-1"}, follow_redirects=False)
    assert (made.status_code, made.headers["location"]) == (303, "/ui/sessions/work-2")


async def _goal_state(fov: Foveate) -> list[str]:
    session = await fov.open_session("work")
    return [goal.status for goal in await session.goals.list()]


def test_a_topic_is_sealed_and_the_seal_undone(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "seal", "strategy": "topics"})
    said = [{"role": "user", "content": "The port is 8443."}, {"role": "assistant", "content": "Noted."}]
    client.post("/api/v1/sessions/seal/turns", json={"messages": said})
    sealed = client.post("/ui/sessions/seal/seal", headers={"hx-request": "true"}).text
    assert "Sealed T-1 to T-1" in sealed
    assert "Undo" in sealed
    assert "undone" in client.post("/ui/sessions/seal/unseal", headers={"hx-request": "true"}).text


def test_looking_at_a_context_leaves_the_next_answer_alone(client: ServerClient) -> None:
    async def prefixes(fov: Foveate) -> tuple[object, object]:
        session = await fov.open_session(SESSION)
        await session.context("What next?")
        asked = session.engine.shared.asked.get(session.id)
        await session.engine.look(budget_tokens=4_000)
        return asked, session.engine.shared.asked.get(session.id)

    before, after = call(client, prefixes, client.fov)
    assert before is after is not None


def test_a_request_made_while_somebody_looks_keeps_its_answer(
    client: ServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(fov: Foveate) -> tuple[object, object]:
        session = await fov.open_session(SESSION)
        make = session.engine.contexts.make

        async def make_beside(*given: object) -> object:
            made = await make(*given)  # type: ignore[arg-type]
            await (await fov.open_session(SESSION)).context("Sent meanwhile")
            return made

        monkeypatch.setattr(session.engine.contexts, "make", make_beside)
        asked = session.engine.shared.asked.get(session.id)
        await session.engine.look()
        return asked, session.engine.shared.asked.get(session.id)

    before, after = call(client, look, client.fov)
    assert after is not None
    assert after is not before


def test_the_picture_is_kept_each_time_the_plan_changes(client: ServerClient) -> None:
    async def grow(fov: Foveate) -> list[tuple[int, str]]:
        session = await fov.session("grown", budget_tokens=2_000)
        for number in range(24):
            said = [{"role": "user", "content": f"{number} " + "word " * 60}, {"role": "assistant", "content": "Yes."}]
            await session.record(said)
            await fov.settle(session_id="grown")
            await session.context("And now?")
        await session.engine.look(budget_tokens=4_000)
        return [(picture.turn, "".join(cell.level for cell in picture.cells)) for picture in await session.pictures()]

    kept = call(client, grow, client.fov)
    assert kept[0][1] == "R"
    assert len(kept) > 1
    assert kept[-1][0] > kept[0][0]
    assert set(kept[-1][1]) > {"R"}
    first = client.get("/ui/sessions/grown/past?at=1").text
    assert f"Plan 1 of {len(kept)}" in first
    assert "the first one" in first


def test_a_preview_says_so_and_bad_numbers_are_explained(client: ServerClient) -> None:
    shown = client.get(f"/ui/sessions/{SESSION}/picture?budget=4k&strategy=standard").text
    assert "Preview with <b>standard</b> at 4,000 tokens" in shown
    assert "Live: what a model gets now" in client.get(f"/ui/sessions/{SESSION}/picture").text
    wrong = client.get(f"/ui/sessions/{SESSION}/picture?budget=many", headers={"hx-request": "true"})
    assert (wrong.status_code, "8000 or 8k" in wrong.text) == (422, True)
    missing = client.get("/ui/sessions/none")
    assert (missing.status_code, "Not found" in missing.text) == (404, True)


def test_files_are_imported_and_one_that_is_none_does_not_stop_the_others(client: ServerClient) -> None:
    good = b'{"role":"user","content":"from a file"}\n{"role":"assistant","content":"yes"}\n'
    files = [("file", ("talk.jsonl", good)), ("file", ("../../bad.bin", b"\x00\x01")), ("file", ("x.json", b"{}"))]
    page = client.post("/ui/import", files=files).text
    assert "<b>talk.jsonl</b>: 2 of 2 messages are new" in page
    assert page.count('class="problem"') == 2
    assert "/tmp" not in page.partition("Accepted files")[0]
    assert "foveate-import-" not in page


def test_an_import_without_a_size_is_refused(client: ServerClient) -> None:
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/ui/import", content=iter([b"--x--\r\n"]), headers=kind).status_code == 411


def test_with_keys_a_browser_logs_in_and_other_tenants_are_not_seen(tmp_path: Path) -> None:
    with client_of(tmp_path / "keys.db", key_cache_seconds=0) as client:
        client.post("/api/v1/sessions", json={"id": "owners"})
        create = client.fov.keys.create
        secrets = {tenant: call(client, create, "k", tenant=tenant, rights=["read"]).secret for tenant in ("", "acme")}
        sent = client.get("/", follow_redirects=False)
        assert (sent.status_code, sent.headers["location"]) == (303, "/ui/login")
        part = client.get("/ui/sessions/owners/picture", headers={"hx-request": "true"})
        assert part.headers["hx-redirect"] == "/ui/login"
        assert client.post("/ui/login", data={"key": "fov_wrong"}, follow_redirects=False).status_code == 401
        for tenant, status in (("", 200), ("acme", 404)):
            client.cookies.clear()
            answer = client.post("/ui/login", data={"key": secrets[tenant]}, follow_redirects=False)
            cookie = answer.headers["set-cookie"].lower()
            assert answer.status_code == 303
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert client.get("/ui/sessions/owners").status_code == status
            assert client.post("/ui/sessions/owners/pin", data={"text": "x"}).status_code == 403
            assert client.get("/api/v1/sessions").status_code == 401, "the cookie is the dashboard's alone"
        assert client.get("/api/v1/sessions", headers=bearer(secrets[""])).status_code == 200
        client.post("/ui/login/end", follow_redirects=False)
        assert client.get("/", follow_redirects=False).status_code == 303


def test_another_sites_form_is_refused(client: ServerClient) -> None:
    sent = client.post(f"/ui/sessions/{SESSION}/pin", data={"text": "x"}, headers={"origin": "https://evil.example"})
    assert sent.status_code == 403


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_an_image_is_shown_and_one_that_could_run_a_script_is_not(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "images"})
    urls = [f"data:image/png;base64,{PNG}", "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=", "https://evil.example/x.png"]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    client.post("/api/v1/sessions/images/turns", json={"messages": [{"role": "user", "content": parts}]})
    page = client.get("/ui/sessions/images/turns/T-1").text
    sources = [attributes["src"] for tag, attributes in elements(page) if tag == "img"]
    assert sources == ["/ui/sessions/images/turns/T-1/images/0"]
    image = client.get(sources[0])
    assert (image.headers["content-type"], image.content[:4]) == ("image/png", b"\x89PNG")
    assert image.headers["x-content-type-options"] == "nosniff"
    assert client.get("/ui/sessions/images/turns/T-1/images/1").status_code == 404


@pytest.mark.parametrize("words", [60_000, pytest.param(4_000_000, marks=pytest.mark.thorough)])
def test_a_large_turn_is_cut_and_can_be_downloaded(tmp_path: Path, words: int) -> None:
    with client_of(tmp_path / "large.db") as client:
        text = "word <b> \u05e9 " * words
        call(client, _record_text, client.fov, text)
        for path in ("/ui/sessions/large", "/ui/sessions/large/turns/T-1", "/ui/sessions/large/turns", "/"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert len(answer.content) < 2_000_000
        with client.stream("GET", "/ui/sessions/large/export?format=json&turn=T-1") as download:
            assert sum(map(len, download.iter_bytes())) > len(text)


async def _record_text(fov: Foveate, text: str) -> None:
    await (await fov.session("large")).record([{"role": "user", "content": text}])


def test_packs_of_tools_are_for_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", "scripted:none.toml")
    with client_of(tmp_path / "keys.db", key_cache_seconds=0) as client:
        client.post("/api/v1/sessions", json={"id": "s"})
        made = call(client, client.fov.keys.create, "k", rights=["read", "write"])
        client.post("/ui/login", data={"key": made.secret}, follow_redirects=False)
        assert "Packs of tools" not in client.get("/ui/sessions/s").text
        sent = client.post("/ui/sessions/s/say", data={"prompt": "x", "pack": "core-codex"})
        assert (sent.status_code, "the right &#39;admin&#39;" in sent.text) == (403, True)
        assert client.post("/ui/approvals/any", data={"decision": "once"}).status_code == 403


def test_forks_are_folded_below_their_sessions_and_a_new_one_is_created(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "tree"})
    client.post("/api/v1/sessions/tree/turns", json={"messages": [{"role": "user", "content": "Hello"}]})
    client.post("/api/v1/sessions/tree/fork", json={"id": "branch", "at": "T-1"})
    client.post("/api/v1/sessions/branch/fork", json={"id": "twig", "at": "T-1"})
    page = client.get("/").text
    assert '<li class="d1"><a href="/ui/sessions/branch">' in page
    assert '<li class="d2"><a href="/ui/sessions/twig">' in page
    made = client.post("/ui/sessions", data={"name": "new one", "strategy": "topics"}, follow_redirects=False)
    assert made.headers["location"] == "/ui/sessions/new%20one"
    assert client.get("/api/v1/sessions/new%20one").json()["strategy"] == "topics"


def test_costs_and_the_form_of_a_comparison_do_not_read_all_sessions(
    client: ServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[object] = []
    list_sessions = client.fov.store.list_sessions

    async def counted(**wanted: Any) -> list[SessionRow]:
        limits.append(wanted["limit"])
        found: list[SessionRow] = await list_sessions(**wanted)
        return found

    monkeypatch.setattr(client.fov.store, "list_sessions", counted)
    for path in ("/ui/costs", "/ui/compare"):
        assert client.get(path).status_code == 200
    assert limits == [20, 500]


def test_the_costs_of_a_session_are_shown_with_its_title_even_if_it_was_not_used_lately(client: ServerClient) -> None:
    call(client, _pay, client.fov)
    page = client.get("/ui/costs").text
    assert '<a href="/ui/sessions/costly">An old title</a>' in page


def test_the_costs_begin_with_a_sum_and_show_the_budgets_of_keys_and_the_background_processes(tmp_path: Path) -> None:
    with client_of(tmp_path / "keys.db") as client:
        owner = call(client, client.fov.keys.create, "office", rights=["read"], budget_usd=20, soft_usd=15).secret
        call(client, _pay, client.fov)
        client.post("/ui/login", data={"key": owner}, follow_redirects=False)
        page = client.get("/ui/costs").text
    assert '<p class="headline">1 call for $' in page
    assert "office: $0.00 of $20.00 a month, warning at $15.00" in page
    assert "Background processes: none" in page


async def _pay(fov: Foveate) -> None:
    await fov.session("costly", title="An old title")
    for number in range(20):
        await fov.session(f"later-{number}")
    await fov.store.calls.add(new_call("costly"))


def test_a_search_is_filtered(client: ServerClient) -> None:
    found = client.get("/ui/search?q=right+to+left&role=user").text
    assert f"/ui/sessions/{SESSION}/turns/" in found
    assert f"/ui/sessions/{SESSION}/turns/" not in client.get("/ui/search?q=right+to+left&role=tool").text
    assert client.get("/ui/search?q=x&after=never").status_code == 422


def test_a_link_to_a_part_of_a_session_has_the_first_word_of_its_heading(client: ServerClient) -> None:
    page = client.get(f"/ui/sessions/{SESSION}").text
    links = re.findall(r'<a href="#([a-z-]+)">(\w+)</a>', page.partition("</nav>")[2])
    headings = re.findall(r'<h2 id="([a-z-]+)">(\w+)', page)
    assert len(links) == 7
    names = {"chat": "chat-name"}
    assert {(names.get(place, place), word) for place, word in links} <= set(headings)


def test_the_bar_has_the_parts_in_their_order_and_their_texts_can_be_read(client: ServerClient) -> None:
    picture = client.get(f"/ui/sessions/{SESSION}/picture").text
    tips = [attributes["data-tip"] for tag, attributes in elements(picture) if tag == "g"]
    names = [tip.partition(":")[0] for tip in tips if not tip.startswith("T-")]
    assert names.index("pins") < names.index("goals") < names.index("raw") < names.index("framing")
    assert HOSTILE[1] in unescape(picture)
    assert {f"part-{place}" for place in range(2)} <= {attributes.get("id") for _, attributes in elements(picture)}


def test_a_turn_is_explained_and_put_on_the_board(client: ServerClient) -> None:
    said = client.get(f"/ui/sessions/{SESSION}/why?turn=2&budget=600").text
    assert "T-2: " in said
    assert "Word for word it needs" in said
    assert client.get(f"/ui/sessions/{SESSION}/why?turn=9999").status_code == 404
    assert client.get(f"/ui/sessions/{SESSION}/why?turn=x").status_code == 422
    form = {"Origin": "http://127.0.0.1"}
    moved = client.post(f"/ui/sessions/{SESSION}/retrieve", data={"turn": "T-2"}, headers=form, follow_redirects=False)
    assert moved.headers["location"] == f"/ui/sessions/{SESSION}#board"
    assert "T-2-R" in client.get(f"/ui/sessions/{SESSION}").text
    assert client.post(f"/ui/sessions/{SESSION}/retrieve", data={"turn": "T-999"}, headers=form).status_code == 404


def test_each_strategy_of_a_comparison_is_described(client: ServerClient) -> None:
    page = client.get("/ui/compare").text
    assert "<b>gradient</b> Newest turns raw, older ones increasingly compressed." in page
    assert len(re.findall(r"<b>[a-z]+</b> [A-Z][^<]+\.</span>", page)) == page.count('name="strategy"') == 6


def test_a_comparison_takes_a_file_without_storing_it(client: ServerClient) -> None:
    before = len(client.get("/api/v1/sessions?limit=100").json()["items"])
    files = {"file": ("../odd.bin", b"\x00\x01")}
    wrong = client.post("/ui/compare", files=files, data={"budgets": "2k", "strategy": "standard"})
    assert (wrong.status_code, "odd.bin" in wrong.text, "/tmp" in wrong.text) == (422, True, False)
    assert client.post("/ui/compare", files=files, data={"budgets": "9" * 5_000}).status_code == 422
    good = b'{"role":"user","content":"from a file"}\n{"role":"assistant","content":"yes"}\n'
    files = {"file": ("talk.jsonl", good)}
    sent = client.post("/ui/compare", files=files, data={"budgets": "2k"}, follow_redirects=False)
    assert sent.status_code == 303
    assert len(client.get("/api/v1/sessions?limit=100").json()["items"]) == before


def test_a_setting_with_a_secret_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"
    monkeypatch.setenv("FOVEATE_RECALL__MODEL_PATH", f"http://bob:hunter2@localhost/v1?token={secret}")
    with client_of(tmp_path / "a.db") as client:
        page = client.get("/ui/settings").text
    assert "localhost/v1" in page
    assert "hunter2" not in page
    assert secret not in page


def test_what_mcp_servers_are_given_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[tools.mcp_servers.files]\nurl = "https://x.example"\nheaders = { Authorization = "secret-1" }\n')
    monkeypatch.setenv("FOVEATE_CONFIG", str(file))
    with client_of(tmp_path / "a.db") as client:
        page = client.get("/ui/settings").text
    assert "files" in page
    assert "secret-1" not in page


def test_the_toy_is_called_a_toy_and_capable_models_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('[models]\nchat = "local"\n')
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "s"})
        page = client.get("/ui/sessions/s").text
        assert "local (a toy that invents answers)</option>" in page
        assert page.index("foveate models set chat ollama:") < page.index("<textarea")
        (tmp_path / "config.toml").write_text('[models]\nchat = "local"\ncompress = "openai:gpt-5-mini"\n')
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
        page = client.get("/ui/sessions/s").text
        assert page.index('value="openai:gpt-5-mini"') < page.index('value="local"')
        (tmp_path / "config.toml").write_text("not TOML")
        assert client.get("/ui/sessions/s").status_code == 200, "a broken file is not used"


def test_only_the_owner_names_a_model_that_no_setting_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", "scripted:none.toml")
    monkeypatch.setenv("FOVEATE_MODELS__COMPRESS", "openai:gpt-5")
    with client_of(tmp_path / "keys.db", key_cache_seconds=0) as client:
        client.post("/api/v1/sessions", json={"id": "s"})
        made = call(client, client.fov.keys.create, "k", rights=["read", "write"])
        client.post("/ui/login", data={"key": made.secret}, follow_redirects=False)
        page = client.get("/ui/sessions/s").text
        assert "Another model" not in page
        assert "openai:gpt-5" not in page
        for field in ("model", "other"):
            sent = client.post("/ui/sessions/s/say", data={"prompt": "x", field: "m@http://127.0.0.1:1/v1"})
            assert (sent.status_code, "is not configured" in sent.text) == (422, True)


def test_a_wrong_name_of_a_model_is_explained_and_records_nothing(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "named"})
    for name in ("gpt-5", "m@http://", "x" * 400, "nobody:x"):
        sent = client.post("/ui/sessions/named/say", data={"prompt": "x", "other": name})
        assert sent.status_code == 422, name
        assert "event-stream" not in sent.headers["content-type"]
    assert client.get("/api/v1/sessions/named").json()["turns"] == 0


def test_a_model_that_an_endpoint_serves_is_not_called_again_unless_a_setting_names_it(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "s"})
        assert call(client, _remembered, client.fov, "m@http://127.0.0.1:1/v1") == ""
        assert call(client, _remembered, client.fov, "openai:gpt-5-mini") == "openai:gpt-5-mini"


async def _remembered(fov: Foveate, name: str) -> str:
    session = await fov.open_session("s")
    await remember_model(session, name)
    return await remembered_model(session, fov.settings.models, ())


def test_the_knowledge_page_learns_adds_a_reference_and_says_what_is_new(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "work", "channel": "shop"})
        said = [{"role": "user", "content": "Never deploy on a Friday."}]
        client.post("/api/v1/sessions/work/turns", json={"messages": said})
        assert "Nothing was learned yet." in client.get("/ui/knowledge").text
        client.post("/ui/knowledge", data={"action": "learn"}, follow_redirects=False)
        page = client.get("/ui/knowledge").text
        assert "Never deploy on a Friday." in page
        assert "<b>1</b> learned since yesterday" in page
        assert "<b>0</b> in force" in page
        written = {"title": "Ports", "text": "The shop listens on 8443.", "scope": "project:shop", "kind": "reference"}
        added = client.post("/ui/knowledge", data=written, follow_redirects=False)
        assert "8443" in client.get(added.headers["location"]).text
        assert client.post("/ui/knowledge", data={"title": "", "text": ""}, follow_redirects=False).status_code in (
            400,
            422,
        )


def test_a_session_without_a_title_is_named_once_and_its_page_has_the_commands_of_the_terminal(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "plain"})
        said = [{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "8443."}]
        client.post("/api/v1/sessions/plain/turns", json={"messages": said})
        row = client.get("/").text.partition('<tbody id="rows"')[2]
        assert row.count(">plain<") == 1
        page = client.get("/ui/sessions/plain").text
        assert "foveate handoff plain --to claude" in page
        assert "foveate erase plain T-1" in page
        assert "Compressing: 0 of 1 turns" in page
        form = {"session": "plain", "budgets": "4k 8k", "strategy": "standard"}
        files = {"file": ("", b"")}
        assert client.post("/ui/compare", data=form, files=files, follow_redirects=False).status_code == 303
        assert "<code>FOVEATE_SESSION__BUDGET_TOKENS=…</code>" in client.get("/ui/settings?q=budget_tokens").text


def test_a_turn_is_put_on_the_board_in_place_and_a_search_counts_its_hits(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "plain"})
        said = [{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "8443."}]
        client.post("/api/v1/sessions/plain/turns", json={"messages": said})
        answer = client.post("/ui/sessions/plain/retrieve", data={"turn": "T-1"}, headers={"hx-request": "true"})
        assert "Put on the board as" in answer.text
        client.post("/api/v1/sessions/plain/settle")
        assert " in 1 session." in client.get("/ui/search?q=port").text


def test_the_list_has_columns_for_costs_and_reliability_only_if_a_session_has_them(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        client.post("/api/v1/sessions", json={"id": "plain"})
        head = client.get("/").text.partition("</thead>")[0]
        assert ">Budget in tokens<" in head
        assert ">Cost<" not in head
        assert ">Reliability<" not in head
        client.post("/api/v1/sessions", json={"id": "scored", "strategy": "checkpoint"})
        call(client, _pay, client.fov)
        page = client.get("/").text
        assert ">Cost<" in page
        assert ">Reliability<" in page
        rows = page.partition('<tbody id="rows"')[2]
        assert rows.count("<td") == page.count('<th scope="row">') * (page.partition("</thead>")[0].count("<th ") - 1)
