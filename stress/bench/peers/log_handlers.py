"""Handlers of Python's logging, and loguru: each process logs to the same place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stress.bench.loops import append_loop
from stress.bench.measuring import Prepare, preparing
from stress.bench.processes import Loop, Work

MESSAGE_BYTES = 200

_FILE = "log.txt"
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"

# Logs one message, and ends: what is not stored by then is stored when `end` has returned.
Logging = tuple[Callable[[str], object], Callable[[], object]]


def ours(formatter: Callable[[], logging.Formatter] | None = None) -> Prepare:
    """binlog's handler, in Mode.STAGE."""
    import binlog
    from binlog.logging import Handler

    def open_(directory: Path) -> logging.Handler:
        return Handler(
            directory / "log", formatter=None if formatter is None else formatter(), modes={"NOTSET": "stage"}
        )

    def stored(directory: Path) -> int:
        with binlog.Reader(directory / "log", verify=False) as reader:
            count = 0
            while batch := reader.read_batch():
                count += len(batch)
        return count

    return _measured(lambda directory: _standard(open_(directory)), stored)


def file_handler(formatter: Callable[[], logging.Formatter] | None = None) -> Prepare:
    """The standard library's FileHandler."""

    def open_(directory: Path) -> Logging:
        handler = logging.FileHandler(directory / _FILE)
        handler.setFormatter(logging.Formatter(_TEXT) if formatter is None else formatter())
        return _standard(handler)

    return _measured(open_, _lines)


def rotating() -> Prepare:
    """The standard library's RotatingFileHandler, which never rotates here: processes would lose records."""
    from logging.handlers import RotatingFileHandler

    def open_(directory: Path) -> Logging:
        handler = RotatingFileHandler(directory / _FILE, maxBytes=1 << 40, backupCount=1)
        handler.setFormatter(logging.Formatter(_TEXT))
        return _standard(handler)

    return _measured(open_, _lines)


def concurrent() -> Prepare:
    """The package concurrent-log-handler, which locks a file for each record."""

    def open_(directory: Path) -> Logging:
        from concurrent_log_handler import ConcurrentRotatingFileHandler

        handler = ConcurrentRotatingFileHandler(str(directory / _FILE), maxBytes=1 << 40, backupCount=1)
        handler.setFormatter(logging.Formatter(_TEXT))
        return _standard(handler)

    return _measured(open_, _lines)


def loguru(*, enqueue: bool) -> Prepare:
    """The package loguru.  enqueue: a thread writes, as its document recommends for several processes."""

    def open_(directory: Path) -> Logging:
        from loguru import logger

        logger.remove()
        number = logger.add(directory / _FILE, format="{time} {level} {name} {message}", enqueue=enqueue)
        return logger.info, lambda: logger.remove(number)

    return _measured(open_, _lines)


def json_formatter() -> logging.Formatter:
    """The formatter of the package python-json-logger, with the fields of binlog's."""
    from pythonjsonlogger.json import JsonFormatter

    formatter: logging.Formatter = JsonFormatter("{asctime}{levelname}{name}{message}{process}", style="{")
    return formatter


def _standard(handler: logging.Handler) -> Logging:
    logger = logging.getLogger("bench")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.handlers.clear()
    logger.addHandler(handler)
    return logger.info, handler.close


def _measured(open_: Callable[[Path], Logging], stored: Callable[[Path], int]) -> Prepare:
    @contextmanager
    def opening(directory: Path) -> Iterator[Logging]:
        yield open_(directory)

    def loop(opened: Logging) -> Loop:
        info, end = opened
        log = append_loop(info, os.urandom(MESSAGE_BYTES // 2).hex())

        def log_and_end(work: Work) -> int:
            count = log(work)
            end()
            return count

        return log_and_end

    return preparing(opening, loop, stored=stored)


def _lines(directory: Path) -> int:
    count = 0
    with open(directory / _FILE, "rb") as file:
        while data := file.read(1 << 20):
            count += data.count(b"\n")
    return count
