"""Requests that anyone may make up: never an internal error, never a log's content without the token."""

from __future__ import annotations

import json
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.web_pages import GROUP, SECRET, Page, answer_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("web-fuzz")]

_usual = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

_words = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "1:256",
        "2:0",
        "1:99999999999",
        "..",
        "../..",
        "/etc/passwd",
        "%00",
        "\udcff",
        "\u202e",
        "a" * 300,
        GROUP,
    ]
)
_texts = st.one_of(_words, st.text(max_size=40))
_names = st.sampled_from(["log", "ref", "group", "level", "logger", "field", "text", "token", "x"])
_paths = st.one_of(
    st.sampled_from(["/", "/events", "/api/logs", "/api/check", "/api/record", "/api/dead", "/static/page.js"]),
    st.lists(_texts, max_size=4).map(lambda parts: "/" + "/".join(_quoted(part) for part in parts)),
    st.tuples(st.sampled_from(["/static/", "/api/"]), _texts).map(lambda parts: parts[0] + _quoted(parts[1])),
)
_queries = st.lists(st.tuples(_names, _texts), max_size=5).map(
    lambda pairs: "&".join(f"{name}={_quoted(value)}" for name, value in pairs)
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=8,
)
_changes = st.fixed_dictionaries(
    {"log": st.one_of(st.just(0), _values), "group": st.one_of(st.just(GROUP), _values)},
    optional={"sequences": _values, "to": _values, "keep_outstanding": _values, "x": _values},
).map(lambda value: json.dumps(value).encode())
_bodies = st.one_of(_changes, _values.map(lambda value: json.dumps(value).encode()), st.binary(max_size=200))
_headers = st.sampled_from(
    [
        "origin",
        "sec_fetch_site",
        "content_type",
        "accept",
        "range",
        "transfer_encoding",
        "x_forwarded_host",
        "forwarded",
    ]
)
_header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=30)


def _quoted(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"))


def _is_proper(status: int) -> bool:
    return status == 503 or 200 <= status < 500


@_usual
@given(_paths, _queries)
@example("/static/..%2f..%2fserving.py", "")
@example("/api/dead", "log=0&group=..%2f..")
@example("/api/record", "log=0&ref=1:257")
@example("/events", "log=0&field=%3D")
def test_a_request_to_read_is_answered_or_refused(page: Page, path: str, query: str) -> None:
    for method in ("GET", "HEAD"):
        assert _is_proper(page.ask(method, f"{path}?{query}").status)
    answer = page.ask("GET", f"{path}?{query}", cookie=None)
    assert answer.status in (401, 414)
    assert SECRET.encode() not in answer.body


@_usual
@given(st.sampled_from(["/api/retry", "/api/reset", "/api/x", "/events", "/"]), _bodies)
@example("/api/retry", b"[" * 60_000)
@example("/api/retry", b'{"log": 0, "group": "\\ud800", "sequences": [1]}')
@example("/api/reset", b'{"log": 0, "group": "%s", "to": "%s"}' % (GROUP.encode(), b"9" * 5000))
def test_a_request_to_change_is_answered_or_refused(page: Page, path: str, body: bytes) -> None:
    assert _is_proper(page.ask("POST", path, body, content_type="application/json").status)
    answer = page.ask("POST", path, body, content_type="application/json", cookie=None)
    assert answer.status == 401
    assert SECRET.encode() not in answer.body


@_usual
@given(_paths, st.dictionaries(_headers, _header_values, max_size=4), st.binary(max_size=50))
def test_odd_headers_are_answered_or_refused(page: Page, path: str, headers: dict[str, str], body: bytes) -> None:
    for method in ("GET", "POST"):
        assert _is_proper(page.ask(method, path, body, **headers).status)
        answer = page.ask(method, path, body, cookie=None, **headers)
        assert answer.status in (400, 401, 403, 413, 501)
        assert SECRET.encode() not in answer.body


@_usual
@given(st.binary(min_size=1, max_size=300))
@example(b"\r\n")
@example(b"GET / HTTP/9.9\r\n\r\n")
@example(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1\r\n\r\n")
def test_bytes_that_are_no_request_get_no_content(page: Page, data: bytes) -> None:
    # The second request ends the connection, if the bytes are one or are the beginning of one.
    received = page.send(data + b"\r\n\r\nGET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    assert SECRET.encode() not in received
    assert not received or answer_of(received).status in (400, 401, 403, 405, 501)
