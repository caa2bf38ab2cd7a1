"""`binlog tail -f` with filters, in processes of its own, through cutovers and archives."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import binlog
from tests.support.sample_events import event_record, plain_filter
from tests.unit.cli.run_command import COMMAND, ENVIRONMENT, Stream, started, wait_for

_CUTOVERS = 100
_RECORDS_PER_FILE = 30

FILTERS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "level": (["--level", "warning"], {"level": 13}),
    "logger": (["--logger", "app.db*", "--logger", "audit"], {"loggers": ("app.db*", "audit")}),
    "field": (
        ["--field", "order=3", "--field", "customer.id=c1"],
        {"fields": (("order", "3"), ("customer.id", "c1"))},
    ),
    "grep": (["--grep", "request", "--grep", "[05]\\b"], {"greps": ("request", "[05]\\b")}),
    "exclude": (["--exclude", "request 1", "--exclude", "plain"], {"excludes": ("request 1", "plain")}),
    "ignore-case": (["-i", "--grep", "REQUEST 2"], {"greps": ("(?i)REQUEST 2",)}),
    "since": (["--since", "-1h"], {}),
    "all": (
        ["--level", "info", "--logger", "app*", "--field", "order=5", "--grep", "request", "--exclude", "request 3"],
        {
            "level": 9,
            "loggers": ("app*",),
            "fields": (("order", "5"),),
            "greps": ("request",),
            "excludes": ("request 3",),
        },
    ),
}


def _has(path: Path, size: int) -> bool:
    return path.stat().st_size >= size


def _append_all(log: Path, records: list[bytes]) -> None:
    """Append records, cut over a hundred times, and archive closed files meanwhile."""
    with binlog.Writer(log, mode="flush") as writer:
        for number, record in enumerate(records):
            writer.append(record)
            if number % _RECORDS_PER_FILE == _RECORDS_PER_FILE - 1:
                writer.cutover()
                if number % (7 * _RECORDS_PER_FILE) == _RECORDS_PER_FILE - 1:
                    binlog.archive(log)


@pytest.mark.slow
def test_following_with_each_filter_prints_what_a_scan_finds(log: Path, tmp_path: Path) -> None:
    log.mkdir()
    records = [event_record(number) for number in range(_CUTOVERS * _RECORDS_PER_FILE)]
    wanted = {
        name: b"".join(record + b"\0" for record in records if plain_filter(**values)(record))
        for name, (_, values) in FILTERS.items()
    }
    assert all(wanted.values())
    outs = {name: tmp_path / f"{name}.out" for name in FILTERS}
    processes = []
    with ExitStack() as opened:
        for name, (words, _) in FILTERS.items():
            out = opened.enter_context(open(outs[name], "wb"))
            start = [] if "--since" in words else ["--from", "beginning"]
            command = [*COMMAND, "tail", "-f", "-0", *start, *words, str(log)]
            processes.append(subprocess.Popen(command, env=ENVIRONMENT, stdout=out))
            opened.callback(processes[-1].kill)
        _append_all(log, records)
        assert len(binlog.stat(log).files) == _CUTOVERS + 1
        for name, out in outs.items():
            wait_for(partial(_has, out, len(wanted[name])))
        for process in processes:
            process.send_signal(signal.SIGINT)
            assert process.wait() == -signal.SIGINT
    for name, out in outs.items():
        assert out.read_bytes() == wanted[name], name


@pytest.mark.slow
def test_several_logs_are_followed_together(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for number, path in enumerate((log, other, log)):
        with binlog.Writer(path) as writer:
            writer.append(b"old %d" % (number + 1))
    with (
        binlog.Writer(log) as first,
        binlog.Writer(other) as second,
        started("tail", "-f", "-n", "2", log, other) as process,
    ):
        assert process.stdout is not None
        stream = Stream(process.stdout.fileno())
        assert stream.read_until(b"old 3\n") == f"{other}: old 2\n{log}: old 3\n".encode()
        for number in range(50):
            writer, path = ((first, log), (second, other))[number % 2]
            writer.append(b"new %d" % number)
            assert stream.read_until(b"\n") == f"{path}: new {number}\n".encode()
            if number % 10 == 5:
                writer.cutover()
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == b""
