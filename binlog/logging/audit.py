"""Audit events: an actor, an action, its target, its origin and its outcome."""

from __future__ import annotations

import logging
from typing import Any

from binlog.errors import StateError
from binlog.logging.rendering import safe_text

REQUIRED = ("actor", "action", "outcome", "target", "origin")
"""The fields that an audit event must have; the time is added."""


class Audit:
    """Logs audit events to one logger.  Make one with `audit`."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def __call__(
        self,
        *,
        actor: object = None,
        action: object = None,
        outcome: object = None,
        target: object = None,
        origin: object = None,
        level: int = logging.INFO,
        **more: Any,
    ) -> None:
        """Log an audit event, whatever the logger's level is.

        actor: the user or program that acted.  action: the kind of event, such as "user.login"; it is also the event's
        name.  outcome: such as "success".  target: the thing that was affected.  origin: such as a network address.
        more: further attributes.
        Durable on return, if the handler's mode for the level is Mode.SYNC.
        Raises: ValueError if one of the five is missing, None or empty; StateError if no handler would get the event;
        otherwise as the handlers.
        """
        values = {"actor": actor, "action": action, "outcome": outcome, "target": target, "origin": origin}
        missing = [name for name, value in values.items() if value is None or value == ""]
        if missing:
            raise ValueError(f"an audit event without {', '.join(missing)}; it needs {', '.join(REQUIRED)}")
        logger = self._logger
        if logger.disabled or not logger.hasHandlers():
            raise StateError(f"the logger {logger.name!r} is disabled or has no handler, so the event would be lost")
        body = f"{safe_text(actor)} {safe_text(action)} {safe_text(target)}: {safe_text(outcome)}"
        path, line, function, _ = logger.findCaller(False, 2)
        fields = {**values, **more, "event": safe_text(action)}
        # Not `logger.info`, which drops the event if the logger's level is higher.
        logger.handle(logger.makeRecord(logger.name, level, path, line, body, (), None, function, fields))


def audit(logger: logging.Logger | str) -> Audit:
    """Return an object that logs audit events: `audit("audit")(actor="ann", action="user.login", ...)`.

    logger: a logger, or its name.  Give it a handler with modes={"NOTSET": "sync"} and full="raise", so that no action
    goes unrecorded.
    """
    return Audit(logging.getLogger(logger) if isinstance(logger, str) else logger)
