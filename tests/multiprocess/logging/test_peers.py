"""The losses of other handlers while eight processes log and files are rotated; binlog has none."""

from __future__ import annotations

import logging
import logging.handlers
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loguru
from concurrent_log_handler import ConcurrentRotatingFileHandler

from binlog.logging import Handler
from tests.support.events import bodies
from tests.support.logging_workers import attach, log_numbers
from tests.support.workers import run_all

_PROCESSES, _COUNT, _FILE_BYTES = 8, 1500, 100_000
_SIZE = 400  # the characters of a message

_NAMES = {
    "_ours": "binlog",
    "_rotating": "RotatingFileHandler",
    "_timed": "TimedRotatingFileHandler",
    "_concurrent": "concurrent-log-handler",
    "_loguru": "loguru",
}


class _Loguru(logging.Handler):
    """Passes records to loguru, which rotates in each process."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._logger: Any = loguru.logger
        self._logger.remove()
        self._logger.add(path, rotation=_FILE_BYTES, format="{message}", enqueue=False)

    def emit(self, record: logging.LogRecord) -> None:
        self._logger.info(record.getMessage())


def _rotating(folder: Path) -> logging.Handler:
    return logging.handlers.RotatingFileHandler(folder / "log", maxBytes=_FILE_BYTES, backupCount=10_000)


def _timed(folder: Path) -> logging.Handler:
    return logging.handlers.TimedRotatingFileHandler(folder / "log", when="S", interval=1, backupCount=10_000)


def _concurrent(folder: Path) -> logging.Handler:
    return ConcurrentRotatingFileHandler(str(folder / "log"), maxBytes=_FILE_BYTES, backupCount=10_000)


def _loguru(folder: Path) -> logging.Handler:
    return _Loguru(str(folder / "log"))


def _ours(folder: Path) -> logging.Handler:
    return Handler(folder / "log", cutover_bytes=_FILE_BYTES, wait=60)


def _work(make: Callable[[Path], logging.Handler], folder: Path, writer: int) -> float:
    """Log in a process of its own; return the processor time in seconds."""
    handler = make(folder)
    attach(handler)
    begun = time.process_time()
    log_numbers(handler, writer, _COUNT, _SIZE)
    used = time.process_time() - begun
    handler.close()
    return used


def _bodies_of_files(folder: Path) -> list[str]:
    texts = [path.read_text(errors="replace") for path in folder.iterdir() if not path.name.startswith(".")]
    return [line for text in texts for line in text.splitlines()]


def _lost(found: list[str]) -> int:
    expected = {(writer, number) for writer in range(_PROCESSES) for number in range(_COUNT)}
    whole = [line.split() for line in found if line.count(" ") == 2 and line.endswith("x" * _SIZE)]
    return len(expected - {(int(writer), int(number)) for writer, number, _ in whole if (writer + number).isdigit()})


def test_what_others_lose_and_cost(tmp_path: Path, figure: Callable[[str], None]) -> None:
    for make in (_ours, _rotating, _timed, _concurrent, _loguru):
        folder = tmp_path / make.__name__
        os.mkdir(folder)
        used = run_all("fork", [(_work, (make, folder, writer)) for writer in range(_PROCESSES)])
        lost = _lost(bodies(folder / "log") if make is _ours else _bodies_of_files(folder))
        microseconds = sum(used) / _PROCESSES / _COUNT * 1e6
        figure(
            f"{_PROCESSES} processes, {_PROCESSES * _COUNT} records, files of 100 kB, {_NAMES[make.__name__]}: "
            f"{lost} lost, {microseconds:.1f} us of processor time a record"
        )
        if make is _ours:
            assert lost == 0


def test_the_counting_of_losses_finds_a_missing_record(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"0 {n} {'x' * _SIZE}\n" for n in range(_COUNT - 1)))
    assert _lost(_bodies_of_files(tmp_path)) == (_PROCESSES - 1) * _COUNT + 1
