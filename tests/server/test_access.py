"""Who may call the server: keys, loopback, Host and Origin, limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from foveate import sync
from foveate.errors import InputError, NotFound, Refused, StoreBusy
from foveate.server.access import AccessControl, find_key, host_name, is_local_address
from foveate.server.problems import is_gateway_path
from foveate.server.settings import ServerSettings
from foveate.session.keys import Keys
from support.servers import bearer, call, client_of

PATH = "/metrics"


def test_without_keys_a_request_from_this_machine_is_the_owners(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        assert client.get(PATH).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Forwarded": "for=10.0.0.1"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        *(
            {name: "10.0.0.1"}
            for name in (
                *(
                    "Via",
                    "X-Real-IP",
                    "CF-Connecting-IP",
                    "CF-Ray",
                    "True-Client-IP",
                    "X-Client-IP",
                    "X-Cluster-Client-IP",
                ),
                *("Fastly-Client-IP", "Fly-Client-IP", "X-Azure-ClientIP", "X-Appengine-User-IP", "X-Originating-IP"),
                *("X-Remote-IP", "X-Remote-Addr", "X-Original-Forwarded-For", "X-Envoy-External-Address", "CDN-Loop"),
                *("Proxy-Client-IP", "WL-Proxy-Client-IP", "X-ProxyUser-Ip", "CF-Connecting-IPv6", "X-Azure-SocketIP"),
                *("X-Original-URI", "X-Rewrite-URL", "Cdn-Src-Ip", "X-NF-Client-Connection-IP", "X-BB-IP", "X-Varnish"),
                *("X-Remote-User", "Tailscale-User-Login", "X-NginX-Proxy", "X-Scheme", "Front-End-Https", "X-ARR-SSL"),
            )
        ),
    ],
)
def test_a_forwarded_request_is_not_one_of_this_machine(tmp_path: Path, headers: dict[str, str]) -> None:
    with client_of(tmp_path / "a.db") as client:
        answer = client.get(PATH, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "foveate keys create" in answer.json()["detail"]


def test_a_request_from_elsewhere_needs_a_key(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", client=("10.1.2.3", 5)) as client:
        assert client.get(PATH).status_code == 401
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"status": "ready"}


def test_once_a_key_exists_every_request_needs_one(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        made = call(client, client.fov.keys.create, "first", rights=["admin"])
        assert client.get(PATH).status_code == 401
        assert client.get(PATH, headers=bearer("fov_wrong")).status_code == 401
        assert client.get(PATH, headers=bearer(made.secret)).status_code == 200
        assert client.get(PATH, headers={"x-api-key": made.secret}).status_code == 200
        assert client.get(PATH, headers={"X-Foveate-Key": made.secret, "x-api-key": "sk-other"}).status_code == 200
        call(client, client.fov.keys.revoke, made.info.id)
        assert client.get(PATH, headers=bearer(made.secret)).status_code == 401
        assert client.get(PATH).status_code == 401, "a store that had keys never serves without"


def test_a_wrong_key_of_ours_is_refused_even_where_none_is_needed(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        assert client.get(PATH, headers={"x-api-key": "fov_wrong"}).status_code == 401
        assert client.get(PATH, headers={"x-api-key": "sk-ant-theirs"}).status_code == 200


def test_the_secret_is_not_stored(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        made = fov.keys.create("laptop", tenant="acme", rights=["read"])
        assert made.secret.startswith("fov_")
        (listed,) = fov.keys.list()
    assert listed == made.info
    assert (listed.tenant, listed.rights, listed.revoked_at) == ("acme", ("read",), None)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.secret.encode() not in stored
    assert made.secret.removeprefix("fov_").encode() not in stored


def test_a_key_needs_known_rights_and_a_tenant_that_can_be_one(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        with pytest.raises(InputError, match="no right 'root'"):
            fov.keys.create(rights=["root"])
        with pytest.raises(InputError, match="needs a right"):
            fov.keys.create(rights=[])
        with pytest.raises(InputError, match="can't be a tenant's name"):
            fov.keys.create(tenant="a:b")
        with pytest.raises(NotFound, match="no active key 'K-1'"):
            fov.keys.revoke("K-1")


def test_ids_of_a_tenant_and_of_the_owner_never_meet(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        fov.session("slack:#help")
        with pytest.raises(Refused, match=r"'slack:#help' of the owner"):
            fov.keys.create(tenant="slack")
        fov.keys.create(tenant="acme")
        with pytest.raises(InputError, match="belong to a tenant"):
            fov.session("acme:notes")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]"])
def test_a_foreign_host_is_rejected_on_loopback(tmp_path: Path, host: str) -> None:
    with client_of(tmp_path / "a.db") as client:
        assert client.get(PATH, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8484", "LOCALHOST", "127.0.0.1", "[::1]:8484"])
def test_local_hosts_are_served(tmp_path: Path, host: str) -> None:
    with client_of(tmp_path / "a.db") as client:
        assert client.get(PATH, headers={"Host": host}).status_code == 200


def test_a_request_for_an_allowed_host_needs_a_key(tmp_path: Path) -> None:
    """A proxy on this machine that adds no header is recognised by the name that its client asked for."""
    with client_of(tmp_path / "a.db", allowed_hosts=["box.lan"]) as client:
        assert client.get(PATH, headers={"Host": "box.lan:1"}).status_code == 401
        key = call(client, client.fov.keys.create, rights=["admin"]).secret
        assert client.get(PATH, headers={"Host": "box.lan:1", **bearer(key)}).status_code == 200


def test_a_page_of_another_origin_is_rejected(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", allowed_origins=["https://app.example"]) as client:
        wrong = ("https://evil.example", "null", "http://127.0.0.1:9", "http://localhost", "http://[", "ws://127.0.0.1")
        for origin in wrong:
            assert client.get(PATH, headers={"Origin": origin}).status_code == 403, origin
        for origin in ("https://app.example", "http://127.0.0.1"):
            answer = client.get(PATH, headers={"Origin": origin})
            assert answer.status_code == 200, origin
            assert "access-control-allow-origin" not in answer.headers


def test_a_request_with_two_hosts_is_rejected(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        for other in ("evil.example", "localhost"):
            answer = client.get(PATH, headers=[("Host", "localhost"), ("Host", other)])
            assert answer.status_code == 403


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
@pytest.mark.parametrize(("method", "path"), [("GET", "/ui/login"), ("POST", "/ui/login"), ("POST", "/ui/login/end")])
def test_another_site_neither_logs_in_nor_out(tmp_path: Path, method: str, path: str, headers: dict[str, str]) -> None:
    with client_of(tmp_path / "a.db") as client:
        answer = client.request(method, path, headers=headers, follow_redirects=False)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert client.get("/healthz", headers=headers).status_code == 200


def test_headers_of_programs_are_no_headers_of_a_proxy(tmp_path: Path) -> None:
    names = (
        "User-Agent",
        "X-Stainless-OS",
        "Anthropic-Version",
        "Session-Id",
        "X-Client-Request-Id",
        "X-App",
        "OpenAI-Beta",
    )
    with client_of(tmp_path / "a.db") as client:
        assert (
            client.get(PATH, headers=dict.fromkeys((*names, "X-Codex-Turn-Metadata", "X-Title"), "a")).status_code
            == 200
        )


def test_requests_per_minute_are_limited_per_key(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", requests_per_minute=2) as client:
        first, second = (call(client, client.fov.keys.create, rights=["admin"]).secret for _ in range(2))
        statuses = [client.get(PATH, headers=bearer(first)).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        answer = client.get(PATH, headers=bearer(first))
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert "2 requests a minute" in answer.json()["detail"]
        assert client.get(PATH, headers=bearer(second)).status_code == 200


def test_requests_in_progress_are_limited_per_key() -> None:
    access = AccessControl(_Broken(), ServerSettings(concurrent_requests=1))
    from foveate.server.access import Principal
    from foveate.server.problems import ProblemError

    caller = Principal("", frozenset({"read"}), "K-1")
    with access.admitted(caller):
        with pytest.raises(ProblemError, match="1 requests in progress"), access.admitted(caller):
            pass
        with access.admitted(Principal("", frozenset({"read"}), "K-2")):
            pass
    with access.admitted(caller):
        pass


class _Broken(Keys):
    """Keys of a store that can't be read."""

    def __init__(self) -> None: ...

    async def find(self, secret: str) -> None:
        raise StoreBusy("a.db", "is locked")

    async def exist(self) -> bool:
        raise StoreBusy("a.db", "is locked")


def test_a_key_that_can_not_be_verified_is_refused(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        call(client, client.fov.keys.create, rights=["admin"])
        assert client.get(PATH).status_code == 401
        client.server.state.access.keys = _Broken()
        answer = client.get(PATH, headers=bearer("fov_any"))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_the_gateway_answers_in_the_providers_envelope(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        key = call(client, client.fov.keys.create, rights=["read"]).secret
        anthropic = client.post("/v1/messages", json={})
        assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (401, "authentication_error")
        openai = client.post("/s/chat/v1/chat/completions", json={}, headers=bearer(key))
        assert openai.status_code == 403
        assert "'gateway'" in openai.json()["error"]["message"]
        gemini = client.post("/v1beta/models/x:generateContent", json={}, headers=bearer(key))
        assert gemini.json()["error"]["status"] == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/v1", True),
        ("/v1/messages", True),
        ("/v1beta/models/x:generateContent", True),
        ("/s/a/v1/responses", True),
        ("/s/a/b/v1/messages", True),
        ("/s/a\n/v1/messages", True),
        ("/v1x", False),
        ("/api/v1/sessions", False),
        ("/mcp", False),
    ],
)
def test_paths_of_the_gateway_are_known(path: str, is_one: bool) -> None:
    assert is_gateway_path(path) is is_one


def test_addresses_and_hosts_are_read_as_they_are_written() -> None:
    local = ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")
    foreign = ("0.0.0.0", "10.0.0.1", "::", "example.org", "")
    assert all(map(is_local_address, local))
    assert not any(map(is_local_address, foreign))
    assert [host_name(host) for host in ("A:1", "[::1]:2", "b")] == ["a", "[::1]", "b"]


def test_only_keys_of_ours_are_found() -> None:
    from starlette.requests import HTTPConnection

    def found(**headers: str) -> str | None:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return find_key(HTTPConnection({"type": "http", "headers": raw}))

    assert found(authorization="Bearer fov_a") == "fov_a"
    assert found(authorization="bearer  fov_a") == "fov_a"
    assert found(authorization="Basic fov_a") is None
    assert found(authorization="Bearer sk-1", x_api_key="fov_b") == "fov_b"
    assert found(x_foveate_key="fov_c", authorization="Bearer fov_a") == "fov_c"
    assert found(x_api_key="sk-ant") is None
    assert found() is None


def test_limits_of_a_key_are_stored_and_limit_it_to_the_gateway(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        made = fov.keys.create("app", models=["gpt-5*", "o3", "o3"], routes=["embeddings", "chat"])
        (listed,) = fov.keys.list()
        assert listed == made.info
        assert (listed.rights, listed.models, listed.routes) == (("gateway",), ("gpt-5*", "o3"), ("chat", "embeddings"))
        with pytest.raises(InputError, match="no route 'admin'"):
            fov.keys.create(routes=["admin"])
        with pytest.raises(InputError, match="no pattern"):
            fov.keys.create(models=["gpt 5"])


def test_an_admin_with_limits_gives_away_no_more_than_it_has(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        limits = {"models": ["gpt-*", "o?"], "routes": ["chat", "models"]}
        admin = bearer(call(client, client.fov.keys.create, rights=["admin"], **limits).secret)

        def created(**body: object) -> tuple[int, object]:
            answer = client.post("/api/v1/keys", json=body, headers=admin)
            return answer.status_code, answer.json().get("models")

        assert created() == (201, ["gpt-*", "o?"])
        assert created(models=["gpt-5"], routes=["chat"]) == (201, ["gpt-5"])
        for body in ({"models": ["*"]}, {"models": ["o*"]}, {"models": ["claude"]}, {"routes": ["files"]}):
            assert created(**body)[0] == 403
