"""`binlog spark` in its own process, killed by signals, and the commands in docs/spark.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.cli.main import binlog_command
from tests.spark.jobs.commands import Run
from tests.support.checkout import ROOT
from tests.support.logs import read_all

pytestmark = pytest.mark.spark

SECONDS_MAX = 240.0
DOCUMENT = (ROOT / "docs" / "spark.md").read_text()

SLOW = """
import pathlib, time

def parse(data):
    pathlib.Path("reached").touch()
    time.sleep(600)

parse.schema = "a INT"
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a process group with its Java and its workers; the end of the block kills the group."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "binlog", "spark", *arguments],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def error_lines(errors: str) -> list[str]:
    """Return the lines of standard error without those of the progress."""
    return [line for line in errors.splitlines() if not re.match(r"(extract|follow)(, bad records)?: [\d,]+ ", line)]


# Each starts its own Java.  The marker `install` has both commands for each signal.
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, marks=pytest.mark.turn(2)),
        pytest.param(signal.SIGINT, marks=pytest.mark.turn(0)),
        pytest.param(signal.SIGTERM, marks=pytest.mark.turn(3)),
    ],
)
def test_a_killed_extract_leaves_no_complete_output(spark: Any, log: Path, number: signal.Signals, run: Run) -> None:
    folder = log.parent
    with Writer(log) as writer:
        writer.append_many([b"INFO one", b"no level", b"WARN two"])
    (folder / "slow.py").write_text(SLOW)
    with started(folder, "extract", "log", "--parser", "slow:parse", "--out", "out") as process:
        wait_for(folder / "reached", process)
        # Ctrl-C reaches the whole group, including Java and its workers; so does the end of a container.
        process.send_signal(number) if number == signal.SIGTERM else os.killpg(process.pid, number)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (-number, "")
    assert error_lines(err) == []
    assert not (folder / "out").exists()
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert len(left) == (1 if number == signal.SIGKILL else 0)
    if number != signal.SIGKILL:
        return
    # The next run has everything, with the parser of the document.
    [parser] = [block for block in blocks("python") if "extract_regex" in block]
    (folder / "levels.py").write_text(parser)
    spark.sparkContext.addPyFile(str(folder / "levels.py"))
    done = run("extract", log, "--parser", "levels:parse", "--to", "json", "--out", folder / "out")
    assert (done.code, error_lines(done.err)) == (0, [])
    assert done.out.splitlines()[-1].split()[:3] == ["3", "2", "1"]
    lines = [json.loads(line) for line in json_lines(folder / "out")]
    assert [(line.get("level"), line.get("text"), line.get("bad")) for line in lines] == [
        ("INFO", "one", None), (None, None, "no level"), ("WARN", "two", None),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.install
def test_following_prints_its_table_at_the_end(log: Path) -> None:
    folder = log.parent
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
    with started(folder, "follow", "log", "--to", "binlog", "--interval", "0s", "--out", "out") as process:
        deadline = time.monotonic() + SECONDS_MAX
        while not (folder / "out").exists() or len(read_all(folder / "out")) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # The batch is in the log before Spark notes that in the checkpoint.
        wait_for(folder / "out.checkpoint" / "records" / "commits" / "0", process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, error_lines(err)) == (-signal.SIGINT, [])
    names, row = out.splitlines()[-2:]
    assert names.split()[:2] == ["BATCHES", "RECORDS"]
    assert row.split()[:2] == ["1", "2"]


@pytest.mark.slow
@pytest.mark.turn(0)
def test_following_writes_bad_records_to_a_folder(log: Path) -> None:
    folder = log.parent
    with Writer(log) as writer:
        writer.append_many([b'{"id": 1}', b"bad", b'{"id": 2}'])
    parsing = ["--json", "--schema", "id INT", "--bad", "bad"]
    with started(folder, "follow", "log", "--to", "json", *parsing, "--interval", "0s", "--out", "out") as process:
        for part in ("records", "bad"):
            wait_for(folder / "out.checkpoint" / part / "commits" / "0", process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, error_lines(err)) == (-signal.SIGTERM, [])
    assert out.splitlines()[-1].split()[:4] == ["1", "3", "2", "1"]
    lines = {name: [json.loads(line) for line in json_lines(folder / name)] for name in ("out", "bad")}
    assert [line["id"] for line in lines["out"]] == [1, 2]
    assert [(line["text"], line["error"][:8]) for line in lines["bad"]] == [("bad", "not one ")]


def json_lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines()]


@pytest.mark.xdist_group("spark")
def test_the_documented_example_works(
    spark: Any, log: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = log.parent
    monkeypatch.chdir(folder)
    with Writer(folder / "events") as writer:
        writer.append_many([b"one", b"two"])
        writer.cutover()
        writer.append(b"three")
    lines = [
        line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ binlog spark ")
    ]
    commands = [shlex.split(line)[2:] for line in lines]
    assert [command[0] for command in commands] == ["extract", "extract", "extract", "follow", "verify", "stats"]
    for command in commands:
        if command[0] == "follow":
            follow_and_interrupt(command, folder / "rest.checkpoint" / "records")
        else:
            assert run(*command).code == 0
    capfd.readouterr()
    [example] = [block for block in blocks("python") if "binlog.spark.jobs" in block]
    exec(compile(example, "docs/spark.md", "exec"), {})
    records, bad, size = capfd.readouterr().out.split()
    assert (records, bad) == ("2", "0")
    assert int(size) > 0
    assert spark.read.parquet("file://" + str(folder / "rest")).count() == 4


def follow_and_interrupt(command: list[str], checkpoint: Path) -> None:
    """Append while the command follows, and press Ctrl-C when the records have been written."""

    def act() -> None:
        with Writer(checkpoint.parents[1] / "events") as writer:
            writer.append(b"four")
        deadline = time.monotonic() + SECONDS_MAX
        while not (checkpoint / "commits" / "1").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=act)
    thread.start()
    with (
        pytest.raises(KeyboardInterrupt),
        binlog_command.make_context("binlog", ["spark", *command]) as context,
    ):
        binlog_command.invoke(context)
    thread.join()
