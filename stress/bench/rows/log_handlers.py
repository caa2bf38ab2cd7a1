"""Logging: records that processes log to one place, and the CPU time of each."""

from __future__ import annotations

from collections.abc import Callable

from stress.bench.contestant import OURS, Contestant, Measure, Row, Unit
from stress.bench.measuring import Prepare, cpu_time, measuring
from stress.bench.peers import log_handlers
from stress.bench.peers.log_handlers import MESSAGE_BYTES
from stress.bench.peers.packages import missing_package

CPU = "logging-cpu"

TEXT = "FileHandler, text"
JSON = "FileHandler, python-json-logger"
ROTATING = "RotatingFileHandler, text"
CONCURRENT = "concurrent-log-handler, text"
LOGURU = "loguru, text"
LOGURU_ENQUEUE = "loguru with enqueue, text"

_PROCESSES = (1, 8)
_BYTES_A_SECOND = 1 << 28


def row_name(processes: int) -> str:
    """Return the name of the row of this many processes."""
    return f"logging-{processes}"


def rows() -> list[Row]:
    """Return all rows."""
    return [*(_rate(processes) for processes in _PROCESSES), _cpu()]


def _rate(processes: int) -> Row:
    several = f"{processes} processes, each of which logs" if processes > 1 else "A process that logs"
    return Row(
        name=row_name(processes),
        title=f"{several} messages of {MESSAGE_BYTES} bytes to the same place with `logging` or loguru; the measured "
        "time ends when every record is in the file",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=_contestants(lambda prepare: measuring(prepare, processes=processes)),
    )


def _cpu() -> Row:
    return Row(
        name=CPU,
        title="The CPU time of a record in the row before with one process, threads and queues included",
        unit=Unit.MICROSECONDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=_contestants(cpu_time),
    )


def _contestants(measure: Callable[[Prepare], Measure]) -> tuple[Contestant, ...]:
    return (
        Contestant(
            name=OURS,
            how="`binlog.logging.Handler` with its `JsonFormatter`, in `Mode.STAGE`. A record survives the process "
            "once the call has returned.",
            measure=measure(log_handlers.ours()),
        ),
        Contestant(
            name=TEXT,
            how="`logging.FileHandler` with time, level, logger and message as text.",
            measure=measure(log_handlers.file_handler()),
        ),
        Contestant(
            name=JSON,
            how="The same with `JsonFormatter` of python-json-logger.",
            measure=measure(log_handlers.file_handler(log_handlers.json_formatter)),
            missing=missing_package("pythonjsonlogger", "python-json-logger"),
        ),
        Contestant(
            name=ROTATING,
            how="`RotatingFileHandler` with text and a limit that is not reached, because several processes lose "
            "records when it rotates.",
            measure=measure(log_handlers.rotating()),
        ),
        Contestant(
            name=CONCURRENT,
            how="`ConcurrentRotatingFileHandler` with text and a limit that is not reached.",
            measure=measure(log_handlers.concurrent()),
            missing=missing_package("concurrent_log_handler", "concurrent-log-handler"),
        ),
        Contestant(
            name=LOGURU,
            how="`logger.add` of a file with `enqueue=False`. Each process adds the file.",
            measure=measure(log_handlers.loguru(enqueue=False)),
            missing=missing_package("loguru", "loguru"),
        ),
        Contestant(
            name=LOGURU_ENQUEUE,
            how="The same with `enqueue=True`, which its document recommends for several processes.",
            measure=measure(log_handlers.loguru(enqueue=True)),
            missing=missing_package("loguru", "loguru"),
        ),
    )
