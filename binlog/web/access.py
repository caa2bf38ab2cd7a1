"""Access: the checks that every request must pass before the application gets it.

Each request must name a host that the server is (against DNS rebinding), carry the token in a cookie, and come from the
page itself or from the address bar.  So a page of someone else, which a browser on this machine has open, can read and
change nothing, and neither can other users of this machine.

Facts relied on:
- A browser sends the header Host as the user's address has it, and a page cannot change it.
- A browser sends Origin with each POST, and Sec-Fetch-Site with each request to a loopback address or over TLS; a page
  can change neither.
- A cookie with SameSite=Strict is not sent with a request that another site caused.  Cookies do not depend on the port,
  so the cookie's name has it.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_LENGTH_MIN = 16
BODY_BYTES_MAX = 64 << 10
QUERY_BYTES_MAX = 8 << 10
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,512}")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_METHODS = ("GET", "HEAD", "POST")

# The policy forbids everything that the page does not need; inline scripts and styles are not allowed.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)

_SIGN_IN = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>binlog</title>
<p>Open the address that binlog web printed, or enter the token:</p>
<form action="/" method="get"><input name="token" type="password" autocomplete="off"> <button>Open</button></form>
</html>
"""


def check_token(token: str) -> str:
    """Return a token that is long enough, and of characters that need no escape.  Raises: ValueError."""
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"a token is {TOKEN_LENGTH_MIN} to 512 letters, digits, '-' and '_'")
    return token


@dataclass(frozen=True)
class AccessRules:
    """The rules for requests.

    token: None if none is needed.  names: of hosts, besides the address of the connection.
    cookie: the name of the cookie.
    """

    token: str | None
    names: frozenset[str]
    cookie: str


@dataclass(frozen=True)
class _Answer:
    """An answer that is given instead of the application's."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Access:
    """An ASGI application that answers the requests that the rules refuse, and passes on the others.

    It adds the headers to all answers.
    """

    def __init__(self, application: Application, rules: AccessRules) -> None:
        self._application = application
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        assert scope["type"] == "http"
        answer = self._answer(scope)
        if answer is None:
            await self._application(scope, receive, send_with_headers)
            return
        kind = b"text/html; charset=utf-8" if answer.body.startswith(b"<") else b"text/plain; charset=utf-8"
        headers = [
            (b"content-type", kind),
            (b"content-length", b"%d" % len(answer.body)),
            (b"connection", b"close"),  # so that only the page can hold a connection
            *answer.headers,
        ]
        await send_with_headers({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    def _answer(self, scope: Scope) -> _Answer | None:
        """Return the answer to a request that is refused, or to one with the token; None to pass it on."""
        host = _only(scope, b"host")
        if host is None or not self._is_us(host, scope):
            return _Answer(403, b"The request is for another host. 'binlog web --host NAME' allows one.\n")
        if scope["method"] not in _METHODS:
            return _Answer(405, b"Only GET and POST are allowed.\n", ((b"allow", b"GET, HEAD, POST"),))
        if len(scope["query_string"]) > QUERY_BYTES_MAX:
            return _Answer(414, b"The query is too long.\n")
        is_page = scope["path"] == "/" and scope["method"] != "POST"
        if is_page and (given := _token_in(scope["query_string"])) is not None:
            return self._signed_in(given)
        if not self._is_known(scope):
            return _Answer(401, _SIGN_IN)
        if not is_page and not _is_from_the_page(scope, host):
            return _Answer(403, b"The request is from another site.\n")
        return None if _has_small_body(scope) else _Answer(413, b"The body is too large.\n")

    def _is_us(self, host: str, scope: Scope) -> bool:
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found[1].strip("[]")
        address = _address(name)
        local = _address((scope.get("server") or ("",))[0])
        return name in self._rules.names or (address is not None and address == local)

    def _signed_in(self, given: str) -> _Answer:
        """Put the token in a cookie, and remove it from the address."""
        if not self._is_token(given):
            return _Answer(401, _SIGN_IN)
        cookie = f"{self._rules.cookie}={given}; Path=/; HttpOnly; SameSite=Strict" if self._rules.token else ""
        headers = ((b"set-cookie", cookie.encode("ascii")),) if cookie else ()
        return _Answer(303, headers=((b"location", b"/"), *headers))

    def _is_known(self, scope: Scope) -> bool:
        given = [_cookie(value, self._rules.cookie) for value in _all(scope, b"cookie")]
        return self._rules.token is None or any(self._is_token(each) for each in given)

    def _is_token(self, given: str) -> bool:
        return self._rules.token is None or hmac.compare_digest(
            given.encode("utf-8", "surrogateescape"), self._rules.token.encode("ascii")
        )


def _is_from_the_page(scope: Scope, host: str) -> bool:
    """Return whether the page itself made a request, as far as the browser says; other programs say nothing."""
    origins = _all(scope, b"origin")
    sites = _all(scope, b"sec-fetch-site")
    return all(site == "same-origin" for site in sites) and all(
        origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}") for origin in origins
    )


def _has_small_body(scope: Scope) -> bool:
    lengths = _all(scope, b"content-length")
    return all(length.isdigit() and len(length) < len("1" * 18) and int(length) <= BODY_BYTES_MAX for length in lengths)


def _token_in(query: bytes) -> str | None:
    try:
        return parse_qs(query.decode("ascii"), keep_blank_values=True).get("token", [None])[0]
    except ValueError:
        return None


def _cookie(header: str, name: str) -> str:
    """Return a cookie's value, or an empty text."""
    for each in header.split(";"):
        key, _, value = each.strip().partition("=")
        if key == name:
            return value
    return ""


def _all(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _only(scope: Scope, name: bytes) -> str | None:
    values = _all(scope, name)
    return values[0] if len(values) == 1 else None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def names_of(host: str, more: Iterable[str]) -> frozenset[str]:
    """Return the names that a request may have as its host, for a server that listens on an address or a name."""
    address = _address(host)
    own = {"localhost"} if address is None or address.is_loopback or address.is_unspecified else set()
    return frozenset({host.lower(), *own, *(name.lower() for name in more)})
