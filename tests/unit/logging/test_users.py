"""A handler in programs that change directories, remove logs, run out of threads, fork, and send records."""

from __future__ import annotations

import json
import logging
import logging.config
import logging.handlers
import os
import pickle
import resource
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog.logging import Handler
from tests.support.children import Child, run_script
from tests.support.events import bodies, events, logger_of


def test_a_relative_path_leads_to_the_same_log_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    handler = Handler("app")
    with logger_of(handler) as logger:
        logger.info("first")
        (tmp_path / "elsewhere").mkdir()
        os.chdir("elsewhere")
        handler.close()
        logger.info("second")
        pickle.loads(pickle.dumps(handler)).close()
    assert bodies(tmp_path / "app") == ["first", "second"]
    assert not os.listdir()


def test_a_log_that_was_removed_is_made_again(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with logger_of(Handler(log, wait=60, modes={0: "flush"})) as logger:
        logger.info("first")
        shutil.rmtree(log)
        logger.info("second")
        logger.info("third")
    assert bodies(log) == ["second", "third"]
    assert "the directory was removed" in capfd.readouterr().err


def test_a_record_is_not_lost_if_no_thread_can_start(log: Path) -> None:
    def work() -> None:
        handler = Handler(log, wait=60)
        with logger_of(handler) as logger:
            if os.geteuid() == 0:
                os.setuid(65534)  # root has no limit
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            with pytest.raises(RuntimeError):
                threading.Thread(target=int).start()
            logger.info("staged")
            logger.warning("can't start new thread")
            assert handler.counters.written == 2
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(AssertionError, match=f"ended with {-signal.SIGKILL}"):
        Child(work).join()
    assert bodies(log) == ["staged", "can't start new thread"]


def test_a_record_that_a_filter_logs_before_it_raises_is_not_lost(log: Path) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        if record.msg == "refused":
            logger.warning("from the filter")
            raise ValueError(record.msg)
        return True

    def work() -> None:
        with pytest.raises(ValueError, match="refused"):
            logger.warning("refused")

    handler = Handler(log, wait=60)
    handler.addFilter(refuse)
    with logger_of(handler) as logger:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert bodies(log) == ["from the filter"]


def _received(log: Path, record: logging.LogRecord) -> dict[str, Any]:
    with logger_of(Handler(log, wait=60)) as logger:
        logger.handle(record)
    (event,) = events(log)
    return event


def test_the_stack_trace_of_a_record_from_a_socket_is_kept(log: Path) -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("client", logging.ERROR, "", 0, "failed", (), info)
    sent = logging.handlers.SocketHandler("localhost", 0).makePickle(record)
    event = _received(log, logging.makeLogRecord(pickle.loads(sent[4:])))
    assert event["body"] == "failed"
    assert event["attributes"]["exception.stacktrace"].endswith("ValueError: wrong")


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, "text"),  # no name
        ({"name": "client", "args": 5}, "text (5,)"),
        ({"name": "client", "exc_info": True}, "text"),
        ({"name": "client", "exc_info": ValueError("wrong")}, "text"),
        ({"name": "client", "created": "2026-11-27"}, "text"),
    ],
)
def test_an_odd_record_from_another_program_is_kept(log: Path, fields: dict[str, Any], body: str) -> None:
    event = _received(log, logging.makeLogRecord({"msg": "text", "levelno": logging.INFO, **fields}))
    assert event["body"] == body


def test_a_formatter_that_returns_no_text_loses_no_record(log: Path) -> None:
    class Bytes(logging.Formatter):
        def format(self, record: logging.LogRecord) -> Any:
            return json.dumps(record.msg).encode()

    with logger_of(Handler(log, wait=60, formatter=Bytes())) as logger:
        logger.info("text")
    (event,) = events(log)
    assert event["body"] == "text"
    assert "bytes, not str" in event["attributes"]["format_error"]


def test_a_handler_of_dict_config_is_pickled_whatever_other_handlers_there_are(log: Path) -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {
                "console": {"class": "logging.StreamHandler"},
                "app": {
                    "class": "binlog.logging.Handler",
                    "path": str(log),
                    "static": {"service.name": "shop"},
                    "modes": {"NOTSET": "flush"},
                },
            },
            "loggers": {"test-pickled": {"handlers": ["console", "app"]}},
        }
    )
    logger = logging.getLogger("test-pickled")
    handler = logger.handlers[1]
    with logger_of(pickle.loads(pickle.dumps(handler))) as other:
        other.info("text")
    logger.handlers.clear()
    handler.close()
    assert bodies(log) == ["text"]


def test_modes_take_the_name_of_a_level_as_it_was_registered(log: Path) -> None:
    logging.addLevelName(15, "verbose")
    Handler(log, modes={"verbose": "sync"}).close()


_IMPORTS = """
import logging, sys
import binlog.logging
logging.basicConfig(level=1, handlers=[binlog.logging.Handler(sys.argv[1], modes={"NOTSET": "sync"})])
class Finder:
    def find_spec(self, name, path=None, target=None):
        logging.info("importing %s", name)  # as another thread might at this moment
sys.meta_path.insert(0, Finder())
sys.modules.pop("asyncio", None)
import asyncio, opentelemetry.trace
"""


@pytest.mark.slow
def test_a_record_is_appended_while_a_library_that_it_asks_is_imported(log: Path) -> None:
    done = run_script(_IMPORTS, log)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"importing asyncio.events", "importing opentelemetry.trace"} <= set(bodies(log))


_FINALIZER = """
import gc, logging, sys
class Session:  # as a client that complains if it was not closed
    def __init__(self):
        self.itself = self
    def __del__(self):
        logging.getLogger("a.new.one").error("unclosed session")
gc.disable()  # the session is collected when the interpreter ends
Session()
import binlog.logging
logging.basicConfig(handlers=[binlog.logging.Handler(sys.argv[1])])
"""


@pytest.mark.slow
def test_a_finalizer_logs_at_a_new_level_when_nothing_can_be_imported(log: Path) -> None:
    done = run_script(_FINALIZER, log)
    assert (done.returncode, done.stderr) == (0, "")
    assert bodies(log) == ["unclosed session"]


_REPLACED = """
import logging, logging.config, sys, threading, time
import binlog.logging
config = {
    "version": 1,
    "handlers": {"app": {"class": "binlog.logging.Handler", "path": sys.argv[1], "wait": 60}},
    "root": {"handlers": ["app"], "level": "INFO"},
}
logging.config.dictConfig(config)
ended = threading.Event()
counts = [0, 0, 0, 0]
def work(thread):
    while not ended.is_set():
        for handler in logging.root.handlers:  # for a moment there is none
            handler.handle(logging.makeLogRecord({"name": "app", "levelno": logging.CRITICAL}))
            counts[thread] += 1
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
for thread in threads:
    thread.start()
for _ in range(50):
    logging.config.dictConfig(config)
    count = sum(counts)
    while sum(counts) < count + 8:
        time.sleep(0)
ended.set()
for thread in threads:
    thread.join()
print(sum(counts))
"""


@pytest.mark.slow
def test_threads_log_while_dict_config_replaces_the_handler(log: Path) -> None:
    done = run_script(_REPLACED, log)
    assert done.returncode == 0
    # A writer that is closed while another one commits its record does not learn the outcome.
    unknown = done.stderr.splitlines()
    assert all("a record may be lost: UnknownOutcomeError" in line for line in unknown)
    assert int(done.stdout) - len(unknown) <= bodies(log).count("") <= int(done.stdout)


def test_a_child_that_a_signal_handler_forks_within_a_logging_call_logs(log: Path) -> None:
    class Forking:
        def __str__(self) -> str:  # at the moment at which a signal might arrive
            logger.info("before the fork")

            def work() -> None:
                logger.warning("in the child")

            Child(work).join()  # does not return to the interrupted call
            return "in the parent"

    with logger_of(Handler(log, wait=60)) as logger:
        logger.info(Forking())
    assert sorted(bodies(log)) == ["before the fork", "in the child", "in the parent"]


@pytest.mark.slow
@pytest.mark.slow
def test_a_handler_that_could_not_be_made_causes_no_error_at_exit(tmp_path: Path) -> None:
    done = run_script(f"import binlog.logging\nbinlog.logging.Handler('{tmp_path}/none/app')")
    assert done.stderr.count("Traceback") == 2  # of AccessError and its cause
    assert "No such file or directory while making the directory" in done.stderr.splitlines()[-1]


def test_a_handler_may_be_made_in_a_signal_handler_that_interrupts_an_append(tmp_path: Path) -> None:
    with binlog.Writer(tmp_path / "other") as writer:
        made: list[Handler] = []

        def interrupted(*_: object) -> None:
            made.append(Handler(tmp_path / "app", wait=60))

        writer._open_session().run(interrupted)
    with logger_of(*made) as logger:
        logger.info("later")
    assert bodies(tmp_path / "app") == ["later"]
