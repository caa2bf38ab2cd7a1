"""`binlog spark` without Spark: options, missing packages, error lines."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from binlog.cli.exits import Signalled
from binlog.cli.main import main
from binlog.cli.output import write_table
from binlog.cli.spark import SparkCommands
from binlog.cli.spark.options import columns_from, day_from, parser_from, records_from
from binlog.cli.spark.session import error_text
from binlog.cli.spark.signals import deferred_signals
from tests.unit.cli.run_command import ENVIRONMENT, fill

CONTEXT: Any = None
OUT = ("--out", "out")


@pytest.mark.parametrize("name", SparkCommands.names)
def test_each_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", name, "--help"]) == 0
    assert f"Usage: binlog spark {name} [OPTIONS] DIR..." in capfd.readouterr().out


@pytest.mark.slow
def test_help_imports_nothing_of_spark() -> None:
    program = "import sys; from binlog.cli.main import main; main(sys.argv[1:])"
    program += "; sys.exit(bool({'pyspark', 'pyarrow', 'rich'} & set(sys.modules)))"
    command = [sys.executable, "-c", program, "spark", "extract", "--help"]
    assert subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["spark"], "spark: Missing command"),
        (["spark", "extract", "log"], "Missing option '--out'"),
        (["spark", "extract", *OUT], "Missing argument 'DIR...'"),
        (["spark", "extract", "log", *OUT, "--to", "avro"], "'avro' is not one of"),
        (["spark", "extract", "log", *OUT, "--json", "--parser", "m:f"], "--json and --parser cannot be used together"),
        (
            ["spark", "extract", "log", *OUT, "--json", "--columns", "data"],
            "--columns cannot be used with --json or --parser",
        ),
        (
            ["spark", "extract", "log", *OUT, "--json", "--to", "binlog"],
            "--to binlog cannot be used with --json or --parser",
        ),
        (
            ["spark", "extract", "log", *OUT, "--to", "binlog", "--columns", "data"],
            "--columns cannot be used with --to binlog",
        ),
        (["spark", "extract", "log", *OUT, "--schema", "a INT"], "--schema and --bad need --json or --parser"),
        (["spark", "extract", "log", *OUT, "--bad", "x"], "--schema and --bad need --json or --parser"),
        (["spark", "extract", "log", *OUT, "--parser", "nothing"], "not module:function: 'nothing'"),
        (["spark", "extract", "log", *OUT, "--file", "1", "--since", "5m"], "--file cannot be used with"),
        (["spark", "extract", "log", *OUT, "--day", "today", "--until", "5m"], "--day cannot be used with"),
        (["spark", "extract", "log", *OUT, "--day", "someday"], "not a day such as 2026-11-30, today or yesterday"),
        (["spark", "extract", "log", *OUT, "--since", "once"], "not a time"),
        (["spark", "extract", "log", *OUT, "--incremental", "--file", "1"], "--incremental only appends"),
        (["spark", "extract", "log", *OUT, "--incremental", "--mode", "overwrite"], "--incremental only appends"),
        (["spark", "extract", "log", *OUT, "--checkpoint", "x"], "--checkpoint needs --incremental"),
        (["spark", "extract", "log", *OUT, "--infer-from", "some"], "not a number of records, or 'all'"),
        (["spark", "extract", "log", *OUT, "--conf", "nothing"], "not KEY=VALUE: 'nothing'"),
        (["spark", "follow", "log", *OUT, "--interval", "often"], "is not a time"),
        (["spark", "follow", "log", *OUT, "--batch-bytes", "much"], "is not a number of bytes"),
        (["spark", "verify"], "Missing argument 'DIR...'"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    message = capfd.readouterr().err
    assert text in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("name", SparkCommands.names)
def test_a_missing_package_is_reported_with_advice(
    name: str, log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"one"])
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    monkeypatch.chdir(log.parent)
    assert main(["spark", name, str(log), *(OUT if name in ("extract", "follow") else ())]) == 1
    message = capfd.readouterr().err
    assert "pyspark" in message
    assert "in a checkout of binlog, run pip install '.[spark]'" in message


def test_days_are_parsed() -> None:
    midnight = datetime(2026, 11, 30, tzinfo=UTC)
    assert day_from(CONTEXT, CONTEXT, "2026-11-30") == (midnight, midnight + timedelta(days=1))
    today, yesterday = (day_from(CONTEXT, CONTEXT, word) for word in ("today", "yesterday"))
    assert today is not None
    assert yesterday is not None
    assert yesterday[1] == today[0] <= datetime.now(UTC) < today[1]


@pytest.mark.parametrize(
    ("convert", "text", "value"),
    [
        (columns_from, "Number, data", ("number", "data")),
        (columns_from, None, None),
        (parser_from, "a.b:c.d", "a.b:c.d"),
        (records_from, "all", None),
        (records_from, "12", 12),
    ],
)
def test_options_are_parsed(convert: Callable[..., object], text: str | None, value: object) -> None:
    assert convert(CONTEXT, CONTEXT, text) == value


@pytest.mark.parametrize("text", ["0", "-1", "x", ""])
def test_an_invalid_number_of_records_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        records_from(CONTEXT, CONTEXT, text)


TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "reading.py", line 70, in read
binlog.errors.CorruptError: /log/00000001.dat at offset 256: the bytes from here to 900 are not what was written [range]

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE, "/log/00000001.dat at offset 256: the bytes from here to 900 are not what was written [range]"),
        ("Traceback\nValueError: binlog: there is no option 'x'\n  more", "there is no option 'x'"),
        ("Traceback\nTypeError: binlog: the parser gave a list", "the parser gave a list"),
        ("An error occurred while calling o1.save.\n: org.a.Some$Error: [NOT_THERE] No.\n\tat", "No."),
        ("[PATH_ALREADY_EXISTS] Path exists.\nJVM", "Path exists."),
        ("[TABLE_OR_VIEW_NOT_FOUND.WITHOUT_SUGGESTION] No.", "No."),
        ("\n", "ValueError"),
    ],
)
def test_our_error_is_extracted_from_sparks(text: str, expected: str) -> None:
    assert error_text(ValueError(text)) == expected


def test_a_table_is_aligned(capfd: pytest.CaptureFixture[str]) -> None:
    write_table(("NAME", "COUNT"), [("a\x1b", "1"), ("longer", "1,000")], left=("NAME",))
    assert capfd.readouterr().out == "NAME    COUNT\na\\x1b       1\nlonger  1,000\n"


def _fail(*, pressed: bool) -> None:
    with deferred_signals() as signals:
        if pressed:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signals.check()
        raise RuntimeError("the connection is broken")


def test_signals_are_deferred_until_they_are_checked() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with deferred_signals() as signals:
        signals.check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signals.check()
        signals.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Signalled):
            signals.check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # a second Ctrl-C must not wait
        with pytest.raises(KeyboardInterrupt):
            signals.check()
    with pytest.raises(Signalled), deferred_signals():
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        _fail(pressed=True)  # an error after Ctrl-C, such as that of a call to Java, is caused by it
    with pytest.raises(RuntimeError):
        _fail(pressed=False)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
