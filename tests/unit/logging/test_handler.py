"""The handler in one process: modes, filters, truncation, and its end."""

from __future__ import annotations

import asyncio
import io
import logging
import logging.config
import logging.handlers
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Mode
from binlog.logging import Handler, JsonFormatter
from tests.support.children import run_script
from tests.support.events import bodies, event_of, events, logger_of
from tests.support.logs import read_all


class _RecordedModes:
    """Records the mode of each append, which the real writer then makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modes: list[Mode] = []
        plain = binlog.Writer.append

        def append(writer: Any, record: bytes, *, mode: Mode, **options: Any) -> Any:
            self.modes.append(mode)
            return plain(writer, record, mode=mode, **options)

        monkeypatch.setattr(binlog.Writer, "append", append)


def test_records_are_in_the_log_in_order(log: Path) -> None:
    with logger_of(Handler(log, wait=60)) as logger:
        for number in range(100):
            logger.log(1 + number % 50, "record %d", number)
    assert bodies(log) == [f"record {number}" for number in range(100)]


def test_the_mode_depends_on_the_level(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = _RecordedModes(monkeypatch)
    with logger_of(Handler(log, wait=60)) as logger:
        for level in (5, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL, 60):
            logger.log(level, "x")
    assert recorded.modes == [Mode.STAGE, Mode.STAGE, Mode.FLUSH, Mode.FLUSH, Mode.SYNC, Mode.SYNC]


def test_modes_may_be_names_and_start_at_any_level(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = _RecordedModes(monkeypatch)
    with logger_of(Handler(log, wait=60, modes={"ERROR": "sync", 20: Mode.FLUSH})) as logger:
        for level in (5, 20, 40):
            logger.log(level, "x")
    assert recorded.modes == [Mode.FLUSH, Mode.FLUSH, Mode.SYNC]


@pytest.mark.parametrize(
    "options",
    [
        {"modes": {}},
        {"modes": {"LOUD": "sync"}},
        {"modes": {0: "quick"}},
        {"full": "explode"},
        {"wait": -1},
        {"record_bytes_max": 10},
        {"in_loop": "never"},
        {"level": "LOUD"},
        {"cutover_bytes": "many"},
    ],
)
def test_wrong_options_are_refused(log: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Handler(log, **options)


def test_an_option_that_no_writer_has_is_refused(log: Path) -> None:
    with pytest.raises(TypeError, match="colour"):
        Handler(log, colour=True)


def test_a_directory_that_cannot_be_used_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(binlog.AccessError):
        Handler(tmp_path / "file")


def test_filters_and_levels_apply(log: Path) -> None:
    handler = Handler(log, wait=60, level="WARNING")
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    with logger_of(handler) as logger:
        logger.info("too low")
        logger.warning("secret")
        logger.warning("shown")
    assert bodies(log) == ["shown"]


def test_another_formatter_makes_the_text(log: Path) -> None:
    handler = Handler(log, wait=60, formatter=logging.Formatter("%(levelname)s %(message)s"))
    with logger_of(handler) as logger:
        logger.info("first")
        handler.setFormatter(logging.Formatter("%(message)s!"))
        logger.info("second é\udc80")
    assert read_all(log) == [b"INFO first", "second é\\udc80!".encode()]


def test_a_formatter_that_raises_does_not_lose_the_record(log: Path) -> None:
    with logger_of(Handler(log, wait=60, formatter=logging.Formatter("%(order)d %(message)s"))) as logger:
        logger.info("number %d", 7)
    (event,) = events(log)
    assert event["body"] == "number 7"
    assert "order" in event["attributes"]["format_error"]


@pytest.mark.slow
def test_threads_share_a_handler(log: Path) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:

        def work(thread: int) -> None:
            for number in range(500):
                logger.info("%d %d", thread, number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert handler.counters.written == 4000
    found = bodies(log)
    for thread in range(8):
        assert [body for body in found if body.startswith(f"{thread} ")] == [f"{thread} {n}" for n in range(500)]


@pytest.mark.parametrize("bytes_max", [1024, 5000, 65536])
def test_a_long_record_is_cut_and_marked(log: Path, bytes_max: int) -> None:
    handler = Handler(log, wait=60, record_bytes_max=bytes_max)
    with logger_of(handler) as logger:
        logger.info("é" * 80 * bytes_max)  # 10 MB with the default limit
        logger.info("many", extra={f"name-{number}": "x" * 20 for number in range(3_000)})
        logger.info("one", extra={"value": ["x" * 100_000, {"y": "z" * 100_000}]})
        logger.info("whole")
    *cut, whole = read_all(log)
    assert [len(data) <= bytes_max for data in cut] == [True] * 3
    first, second, third = (event_of(data) for data in cut)
    assert first["truncated"] > 160 * bytes_max
    assert first["body"].startswith("éééé")
    assert second["body"] == "many"
    assert "name-0" in second["attributes"]
    assert third["attributes"]["value"][1]["y"].startswith("zzzz")
    assert "truncated" not in event_of(whole)
    assert handler.counters.cut == 3


def test_the_end_of_a_long_stack_trace_is_kept(log: Path) -> None:
    with logger_of(Handler(log, wait=60, record_bytes_max=2000)) as logger:
        try:
            raise ValueError("cause " + "x" * 100_000 + " end")
        except ValueError:
            logger.exception("failed")
    (event,) = events(log)
    assert event["attributes"]["exception.stacktrace"].endswith(" end")
    assert event["attributes"]["exception.message"].startswith("cause ")


def test_text_that_is_not_json_is_cut_too(log: Path) -> None:
    with logger_of(Handler(log, wait=60, record_bytes_max=1024, formatter=logging.Formatter("%(message)s"))) as logger:
        logger.info("é" * 1000)
    (data,) = read_all(log)
    assert len(data) <= 1024
    assert data.decode().endswith("é [truncated: 2000 bytes]")


def test_a_handler_is_pickled_as_its_arguments(log: Path) -> None:
    handler = Handler(log, wait=60, level="INFO", static={"service.name": "shop"}, modes={"NOTSET": "flush"})
    copied = pickle.loads(pickle.dumps(handler))
    with logger_of(handler) as first, logger_of(copied) as second:
        first.info("first")
        second.info("second")
    assert copied.level == logging.INFO
    assert bodies(log) == ["first", "second"]
    assert {event["resource"]["service.name"] for event in events(log)} == {"shop"}


def test_records_after_close_are_appended_and_durable(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Handler(log, wait=60)
    with logger_of(handler) as logger:
        logger.info("before")
        handler.close()
        recorded = _RecordedModes(monkeypatch)
        logger.info("after")
    assert recorded.modes == [Mode.SYNC]
    assert bodies(log) == ["before", "after"]


_AT_EXIT = """
import atexit, logging, sys
class Late:
    def __del__(self):
        logging.info("finalizer")
sys.modules["late"] = Late()  # collected when the interpreter ends
atexit.register(lambda: logging.info("registered before logging"))
import logging, logging.config
atexit.register(lambda: logging.info("registered after logging"))
import binlog.logging
logging.config.dictConfig({
    "version": 1,
    "handlers": {"log": {"class": "binlog.logging.Handler", "path": sys.argv[1]}},
    "root": {"handlers": ["log"], "level": "INFO"},
})
atexit.register(lambda: logging.info("registered last"))
logging.info("staged")
logging.shutdown()
logging.info("after shutdown")
"""


@pytest.mark.slow
def test_everything_logged_until_the_interpreter_ends_is_in_the_file(log: Path) -> None:
    done = run_script(_AT_EXIT, log)
    assert (done.returncode, done.stderr) == (0, "")
    # Read the file before a writer opens the log, which would commit the rest from shared memory.
    assert bodies(log)[:5] == [
        "staged", "after shutdown", "registered last", "registered after logging", "registered before logging",
    ]  # fmt: skip


def test_flush_makes_everything_durable_and_visible(log: Path) -> None:
    with logger_of(Handler(log, wait=60, background=binlog.Background(flush_seconds=600, sync_seconds=600))) as logger:
        logger.info("first")
        logger.handlers[0].flush()
        logger.info("staged")
        assert bodies(log) == ["first"]
        logger.handlers[0].flush()
        assert bodies(log) == ["first", "staged"]


def test_a_memory_handler_and_a_queue_listener_pass_records_on(log: Path) -> None:
    import queue

    handler = Handler(log, wait=60)
    records: queue.Queue[Any] = queue.Queue()
    listener = logging.handlers.QueueListener(records, handler)
    with logger_of(logging.handlers.MemoryHandler(10, target=handler)) as logger:
        logger.info("memory")
    listener.start()
    with logger_of(logging.handlers.QueueHandler(records)) as logger:
        logger.info("queue")
    listener.stop()
    handler.close()
    assert bodies(log) == ["memory", "queue"]


def test_dict_config_takes_everything_as_text(log: Path) -> None:
    stream = io.StringIO()
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": JsonFormatter, "static": {"service.name": "shop"}, "code": True}},
            "handlers": {
                "log": {
                    "class": "binlog.logging.Handler",
                    "path": str(log),
                    "level": "INFO",
                    "modes": {"NOTSET": "flush", "ERROR": "sync"},
                    "wait": "1m",
                    "full": "fallback",
                    "fallback": stream,
                    "formatter": "json",
                    "cutover_bytes": "10M",
                }
            },
            "loggers": {"configured": {"handlers": ["log"], "propagate": False, "level": "DEBUG"}},
        }
    )
    logger = logging.getLogger("configured")
    logger.error("configured")
    logger.handlers[0].close()
    (event,) = events(log)
    assert event["code"]["function"] == "test_dict_config_takes_everything_as_text"


@pytest.mark.slow
def test_odd_records_are_lines_for_the_command_line(log: Path) -> None:
    odd = [
        "line\nfeed",
        "\x1b[31mred",
        "\x00",
        "\u2028\x85",
        "\udc80",
        float("nan"),
        {1: {2}},
        object,
        b"\xff",
        10**400,
    ]
    with logger_of(Handler(log, wait=60)) as logger:
        for value in odd:
            logger.info("odd: %s", value, extra={"value": value, "": value, "a\nb": value})
    command = [sys.executable, "-m", "binlog", "tail", "-n", "100", str(log)]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\n")[:-1]
    assert [event_of(line)["body"][:5] for line in lines] == ["odd: "] * len(odd)


def test_nothing_waits_for_a_disk_in_an_event_loop(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = _RecordedModes(monkeypatch)
    handler = Handler(log, wait=60, background=binlog.Background(flush_seconds=600, sync_seconds=600))

    def durable() -> bool:
        (file,) = binlog.stat(log).files
        return file.durable_end == file.tail

    async def work() -> tuple[bool, bool]:
        logger.critical("in the loop")
        before = durable()
        await handler.synced()
        return before, durable()

    with logger_of(handler) as logger:
        logger.critical("outside")
        assert asyncio.run(work()) == (False, True)
    assert recorded.modes == [Mode.SYNC, Mode.FLUSH]


def test_in_loop_may_be_weaker_or_sync(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = _RecordedModes(monkeypatch)

    async def work(logger: logging.Logger) -> None:
        logger.info("info")
        logger.critical("critical")

    for mode in ("stage", "sync"):
        with logger_of(Handler(log, wait=60, in_loop=mode)) as logger:
            asyncio.run(work(logger))
    assert recorded.modes == [Mode.STAGE, Mode.STAGE, Mode.STAGE, Mode.SYNC]
