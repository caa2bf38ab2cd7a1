"""The checks of each request: the token, the host, the origin, and limits."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import Route

from binlog.web.application import make_application, page_files
from binlog.web.streams import Streams
from tests.support.web_pages import GROUP, ROUTES, SECRET, Page, answer_of, fill_log, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("web-access")]

_CHANGES = ("/api/retry", "/api/drop", "/api/reset")
_OTHERS = ("/api/nothing", "/favicon.ico", "/static/../web.py", "/docs", "/openapi.json", "//", "*")


def _is_nothing(body: bytes) -> bool:
    return SECRET.encode() not in body and b"import" not in body


def test_the_routes_that_are_tried_are_all_there_are() -> None:
    routes = make_application([], Streams([], 1), read_only=False).routes
    assert len(routes) == len(ROUTES)
    for route, (method, target) in zip(routes, ROUTES, strict=True):
        assert isinstance(route, Route)
        assert method in (route.methods or ())
        assert re.sub(r"\{\w+\}", ".*", route.path) == route.path or "{" in route.path
        assert route.path_regex.match(urlsplit(target).path)


@pytest.mark.parametrize(
    "cookie", [None, "", "binlog=1", "binlog-{port}=", "binlog-{port}={token}x", "binlog-1={token}"]
)
def test_no_path_answers_without_the_token(page: Page, cookie: str | None) -> None:
    given = None if cookie is None else cookie.format(port=page.port, token=page.token)
    files = [("GET", f"/static/{name}") for name in page_files()]
    for method, target in [
        *ROUTES,
        *files,
        *(("POST", each) for each in _CHANGES),
        *(("GET", each) for each in _OTHERS),
    ]:
        answer = page.ask(method, target, b"{}" if method == "POST" else None, cookie=given)
        assert answer.status == 401, target
        assert _is_nothing(answer.body)
        assert "set-cookie" not in answer.headers


def test_every_path_answers_with_the_token(page: Page) -> None:
    for method, target in ROUTES:
        if method == "GET":
            assert page.ask(method, target).status == 200, target
    assert page.ask("GET", "/nothing").status == 404


def test_the_token_moves_from_the_address_into_a_cookie(page: Page) -> None:
    answer = page.ask("GET", f"/?token={page.token}", cookie=None, sec_fetch_site="none")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert value == page.cookie
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert page.ask("GET", "/", cookie=value, sec_fetch_site="none").status == 200


@pytest.mark.parametrize("token", ["", "x", "{token}x", "%00", "%FF", "%C3%A4", "a" * 500])
def test_a_wrong_token_in_the_address_is_refused(page: Page, token: str) -> None:
    answer = page.ask("GET", f"/?token={token.format(token=page.token)}", cookie=None)
    assert (answer.status, _is_nothing(answer.body), "set-cookie" in answer.headers) == (401, True, False)


def test_only_the_page_takes_a_token_from_the_address(page: Page) -> None:
    assert page.ask("GET", f"/api/logs?token={page.token}", cookie=None).status == 401
    assert page.ask("POST", f"/?token={page.token}", b"{}", cookie=None).status == 401


def test_every_answer_has_the_strict_headers(page: Page) -> None:
    for method, target, cookie in [
        *((method, target, page.cookie) for method, target in ROUTES),
        ("GET", "/", None),
        ("GET", f"/?token={page.token}", None),
        ("GET", "/nothing", page.cookie),
        ("DELETE", "/", page.cookie),
    ]:
        headers = page.ask(method, target, cookie=cookie).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert {policy[f"{name}-src"] for name in ("script", "style", "connect", "img")} == {"'self'"}
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "example.org:{port}",
        "127.0.0.1.example.org",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "",
        "a b",
        "127.0.0.1@x",
    ],
)
def test_a_request_for_another_host_is_refused(page: Page, host: str) -> None:
    for target in ("/", f"/?token={page.token}", "/api/logs", "/nothing"):
        answer = page.ask("GET", target, host=host.format(port=page.port))
        assert (answer.status, _is_nothing(answer.body)) == (403, True)


def test_localhost_is_this_host_and_so_is_a_forwarded_port(page: Page) -> None:
    for host in (f"localhost:{page.port}", "localhost:1", "LOCALHOST", "127.0.0.1:1"):
        assert page.ask("GET", "/api/logs", host=host).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_a_request_that_another_site_caused_is_refused(page: Page, site: str) -> None:
    for target in ("/events?log=0", "/api/logs", "/static/page.js"):
        assert page.ask("GET", target, sec_fetch_site=site).status == 403
    asked = {"log": 0, "group": GROUP}
    for change in _CHANGES:
        assert page.post(change, asked, sec_fetch_site=site).status == 403


@pytest.mark.parametrize(
    "origin", ["http://example.org", "null", "http://127.0.0.1", "http://localhost:{port}", "file://", ""]
)
def test_a_request_from_another_origin_is_refused(page: Page, origin: str) -> None:
    given = origin.format(port=page.port)
    assert page.ask("GET", "/events?log=0", origin=given, sec_fetch_site=None).status == 403
    for change in _CHANGES:
        assert page.post(change, {"log": 0, "group": GROUP}, origin=given, sec_fetch_site=None).status == 403


def test_a_change_needs_json_as_its_type(page: Page) -> None:
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"):
        assert page.post("/api/retry", {"log": 0, "group": GROUP, "sequences": [1]}, content_type=kind).status == 415


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(page: Page, method: str) -> None:
    assert page.ask(method, "/api/logs").status == 405


def test_a_change_by_get_and_a_reading_by_post_are_refused(page: Page) -> None:
    assert [page.ask("GET", each).status for each in _CHANGES] == [405] * 3
    assert page.post("/events?log=0", {}).status == 405
    assert page.post("/", {}).status == 405


def test_long_bodies_queries_and_heads_are_refused(page: Page) -> None:
    big = b"[" * (65 << 10)
    assert page.ask("POST", "/api/retry", big, content_type="application/json").status == 413
    assert page.ask("POST", "/api/retry", b"", content_type="application/json", content_length="9" * 30).status in (
        400,
        413,
    )
    lines = [f"{name}: {value}" for name, value in page.headers(content_type="application/json")]
    head = "\r\n".join(["POST /api/retry HTTP/1.1", *lines, "transfer-encoding: chunked", "connection: close", "", ""])
    assert answer_of(page.send(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(big), big))).status == 413
    assert page.ask("GET", "/api/check?log=0&text=" + "a" * 9000).status == 414
    assert page.ask("GET", "/" + "a" * (1 << 20)).status in (400, 414)


def test_as_many_streams_are_open_as_may_be_and_a_closed_one_makes_room(page: Page) -> None:
    streams = [page.stream() for _ in range(16)]
    assert {stream.status for stream in streams} == {200}
    assert page.ask("GET", "/events?log=0").status == 503
    for stream in streams:
        stream.__exit__()
    while page.ask("GET", "/events?log=0").status == 503:
        pass


def test_programs_without_the_token_cannot_hold_all_connections(page: Page) -> None:
    silent = [page.connect() for _ in range(130)]
    for connection in silent[::2]:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: ")
    assert page.ask("GET", "/api/logs").status == 503
    for connection in silent:
        with connection:
            assert connection.recv(1) == b""  # the server closed it
    assert page.ask("GET", "/api/logs").status == 200


def test_a_refusal_closes_its_connection(page: Page) -> None:
    host = f"host: 127.0.0.1:{page.port}\r\n"
    requests = [
        f"GET /api/logs HTTP/1.1\r\n{host}\r\n",
        f"POST /api/drop HTTP/1.1\r\n{host}content-length: 2\r\n\r\n",  # whose body never comes
        "GET / HTTP/1.1\r\nhost: example.org\r\n\r\n",
        f"OPTIONS / HTTP/1.1\r\n{host}\r\n",
    ]
    for request in requests:
        assert answer_of(page.send(request.encode())).headers["connection"] == "close"


def test_without_a_token_other_sites_are_refused_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill_log(log)
    with running(log, options=["--no-token", "--read-only"]) as page:
        assert page.url == f"http://127.0.0.1:{page.port}/"
        assert page.ask("GET", "/api/logs", cookie=None).json == {"logs": [str(log)], "read_only": True}
        assert page.ask("GET", "/api/logs", cookie=None, host="example.org").status == 403
        assert page.ask("GET", "/api/logs", cookie=None, sec_fetch_site="cross-site").status == 403
        for change in _CHANGES:
            answer = page.post(change, {"log": 0, "group": GROUP, "sequences": [1], "to": "end"}, cookie=None)
            assert (answer.status, "--read-only" in answer.json["error"]) == (403, True)


def test_on_all_addresses_only_the_own_address_and_named_hosts_are_answered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fill_log(log)
    with running(log, options=["--listen", "0.0.0.0:0", "--host", "logs.example.org"]) as page:
        assert page.ask("GET", "/api/logs", host="logs.example.org").status == 200
        assert (
            page.ask("GET", "/api/logs", host="Logs.Example.Org:8080", origin="https://logs.example.org:8080").status
            == 200
        )
        assert page.ask("GET", "/api/logs", host="www.example.org").status == 403
        assert page.ask("GET", "/api/logs", host=f"127.0.0.1:{page.port}", cookie=None).status == 401
        with socket.create_connection(("127.0.0.2", page.port)) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: {page.cookie}\r\n\r\n".encode())
            assert b" 403 " in connection.recv(100)
