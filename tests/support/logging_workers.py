"""The work of processes that log: importable, so that they can be spawned as well as forked."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from binlog import Mode
from binlog.logging import Handler

_handlers: list[logging.Handler] = []


def attach(handler: logging.Handler) -> logging.Logger:
    """Return a logger that has only this handler."""
    logger = logging.getLogger("worker")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.handlers[:] = [handler]
    return logger


def log_numbers(handler: logging.Handler, writer: int, count: int, size: int = 100) -> int:
    """Log numbers from 0 on, with some records of each mode, and return how many."""
    logger = attach(handler)
    for number in range(count):
        level = logging.CRITICAL if number % 1000 == 999 else logging.WARNING if number % 100 == 99 else logging.INFO
        logger.log(level, "%d %d %s", writer, number, "x" * size)
    return count


def start_pool_worker(handler: logging.Handler) -> None:
    """Initialize a worker of a pool."""
    attach(handler)


def log_in_pool(number: int) -> int:
    """Log one number, in a worker of a pool; return the process."""
    logging.getLogger("worker").info("%d", number)
    return os.getpid()


def numbers_by_writer(bodies: Iterable[str]) -> dict[int, list[int]]:
    """Return the numbers of each writer, in the order of the log."""
    found: dict[int, list[int]] = {}
    for body in bodies:
        writer, number = map(int, body.split()[:2])
        found.setdefault(writer, []).append(number)
    return found


def log_until_killed(log: Any, told: int, mode: Mode) -> None:
    """Log numbers, and write each one to a pipe after the call has returned."""
    logger = attach(Handler(log, modes={0: mode}, wait=60))
    number = 0
    while True:
        logger.info("0 %d", number)
        os.write(told, b"%d\n" % number)
        number += 1
