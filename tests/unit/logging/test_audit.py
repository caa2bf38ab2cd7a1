"""Audit events: complete, or refused; and never dropped by a level."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import BusyError, StateError
from binlog.logging import Handler, JsonFormatter, audit
from tests.support.events import events, logger_of
from tests.support.obstacles import foreign_lock

_COMPLETE = {"actor": "ann", "action": "user.delete", "outcome": "success", "target": "bob", "origin": "192.0.2.7"}


def test_an_audit_event_says_who_did_what(log: Path) -> None:
    with logger_of(Handler(log, modes={"NOTSET": "sync"}, full="raise", formatter=JsonFormatter(code=True))) as logger:
        audit(logger)(**_COMPLETE, reason="left", level=logging.WARNING)
    (event,) = events(log)
    assert event["event"] == "user.delete"
    assert event["body"] == "ann user.delete bob: success"
    assert event["attributes"] == {**_COMPLETE, "reason": "left"}
    assert event["level"] == "WARNING"
    assert event["code"]["function"] == "test_an_audit_event_says_who_did_what"


@pytest.mark.parametrize("name", _COMPLETE)
@pytest.mark.parametrize("value", [None, ""])
def test_an_incomplete_audit_event_is_refused(log: Path, name: str, value: Any) -> None:
    with logger_of(Handler(log)) as logger:
        with pytest.raises(ValueError, match=f"without {name};"):
            audit(logger)(**{**_COMPLETE, name: value})
        with pytest.raises(ValueError, match=f"without {name};"):
            audit(logger)(**{key: text for key, text in _COMPLETE.items() if key != name})
    assert events(log) == []


def test_the_level_of_the_logger_does_not_drop_it(log: Path) -> None:
    with logger_of(Handler(log)) as logger:
        logger.setLevel(logging.CRITICAL)
        audit(logger.name)(**_COMPLETE)
    assert len(events(log)) == 1


def test_a_logger_without_a_handler_is_refused() -> None:
    with logger_of() as logger, pytest.raises(StateError, match="no handler"):
        audit(logger)(**_COMPLETE)


def test_an_event_that_is_not_in_the_log_is_an_error(log: Path) -> None:
    with logger_of(Handler(log, modes={"NOTSET": "sync"}, full="raise", wait=60)) as logger:
        audit(logger)(**_COMPLETE)
        logger.handlers[0]._sink._delivery.wait = 0.1  # type: ignore[attr-defined]
        with foreign_lock(log), pytest.raises(BusyError):
            audit(logger)(**_COMPLETE)
    assert len(events(log)) == 1
