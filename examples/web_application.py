"""A web application that keeps an access log, an application log and an audit log, in any number of processes.

Start it with four worker processes:  gunicorn -c web_gunicorn.py web_application:application
Follow a log from another terminal:   binlog tail -F logs/access
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from binlog.logging import audit

_log = logging.getLogger("shop")
_audit = audit("audit")

Start = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Answer a request: /orders/NUMBER is sold, DELETE removes it and is audited, everything else fails."""
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    number = path.rpartition("/")[2]
    try:
        order = int(number)
    except ValueError:
        _log.exception("no such order", extra={"path": path})
        return _answer(start_response, "404 Not Found")
    if method == "DELETE":
        # It is durable before the order is removed; if it cannot be, this raises, and the order stays.
        _audit(
            actor=environ.get("HTTP_X_USER", "anonymous"),
            action="order.delete",
            outcome="success",
            target=order,
            origin=environ.get("REMOTE_ADDR") or "local",
        )
        return _answer(start_response, "200 OK")
    _log.info("order %d sold", order, extra={"event": "order.sold", "order": order})
    return _answer(start_response, "200 OK")


def _answer(start_response: Start, status: str) -> list[bytes]:
    body = status.encode() + b"\n"
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
