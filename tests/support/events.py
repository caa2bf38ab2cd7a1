"""Events of a log, and loggers with only the handler under test."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.logs import read_all

_numbers = itertools.count()


@contextmanager
def logger_of(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """Yield a logger of its own that has these handlers, which are closed at the end."""
    logger = logging.getLogger(f"test-{next(_numbers)}")
    logger.propagate = False
    logger.setLevel(1)
    for handler in handlers:
        logger.addHandler(handler)
    yield logger
    for handler in handlers:
        logger.removeHandler(handler)
        handler.close()


def events(log: Path) -> list[dict[str, Any]]:
    """Return the events of a log; each must be one line of valid JSON."""
    return [event_of(data) for data in read_all(log)]


def event_of(line: bytes | str) -> dict[str, Any]:
    """Parse a line, and refuse NaN and a line feed, which JSON does not have."""
    assert not {"\n", b"\n"[0]} & set(line)
    event = json.loads(line, parse_constant=_refuse)
    assert isinstance(event, dict)
    return event


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def bodies(log: Path) -> list[str]:
    """Return the bodies of all events."""
    return [event["body"] for event in events(log)]
