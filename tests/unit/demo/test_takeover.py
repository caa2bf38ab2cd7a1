"""Takeover: an in-flight record ends up in the log exactly once, even if it had been appended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from binlog import Reader, Ref, Start, Writer
from stress.demo.events import Key, key_of, make_record, read_work, write_work
from stress.demo.takeover import find_in_flight
from tests.support.checkout import ROOT

WRITER, WRITERS, SHARE = 1, 2, 10
IN_FLIGHT = 4


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    write_work(path, ({"path": "/x", "line": number, "text": "event"} for number in range(WRITERS * SHARE)), None)
    return path


def append(log: Path, work: Path, writer: int, last: int) -> list[Ref]:
    """Append the first events of a share, up to its sequence `last`."""
    with Writer(log) as log_writer:
        return [
            log_writer.append(make_record(item, writer=writer, sequence=sequence))
            for sequence, item in read_work(work, writer=writer, writers=WRITERS)
            if sequence <= last
        ]


def keys(log: Path) -> list[Key]:
    with Reader(log) as reader:
        return [key_of(entry.data) for entry in reader]


def take_over(log: Path, work: Path, after: Ref) -> list[str]:
    """Run a successor that knows that all records before IN_FLIGHT are in the log, and return its messages."""
    command = [sys.executable, "-m", "stress.demo.takeover", "--log", str(log), "--work", str(work)]
    command += ["--writer", str(WRITER), "--writers", str(WRITERS), "--sequence", str(IN_FLIGHT), "--after", str(after)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("cut_over", [False, True])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.slow
def test_every_event_is_in_the_log_once(tmp_path: Path, work: Path, there: bool, cut_over: bool) -> None:
    log = tmp_path / "log"
    refs = append(log, work, WRITER, IN_FLIGHT if there else IN_FLIGHT - 1)
    if cut_over:
        with Writer(log) as writer:
            writer.cutover()
    append(log, work, 0, SHARE)
    messages = take_over(log, work, refs[IN_FLIGHT - 1])
    if there:
        key = next(key for key in keys(log) if key[:2] == (WRITER, IN_FLIGHT))
        assert messages[0] == f"found {IN_FLIGHT} {key.hash} {refs[IN_FLIGHT]}"
    else:
        assert messages[0] == f"absent {IN_FLIGHT}"
    found = keys(log)
    assert sorted(key.sequence for key in found if key.writer == WRITER) == list(range(SHARE))
    assert len(found) == len(set(found)) == WRITERS * SHARE


def test_a_writer_that_died_before_its_first_record(tmp_path: Path, work: Path) -> None:
    log = tmp_path / "log"
    append(log, work, 0, SHARE)
    assert find_in_flight(log, Start.BEGINNING, writer=WRITER, sequence=0) is None
    [ref] = append(log, work, WRITER, 0)
    found = find_in_flight(log, Start.BEGINNING, writer=WRITER, sequence=0)
    assert found is not None
    assert found.ref == ref


def test_the_same_number_of_another_writer_does_not_match(tmp_path: Path, work: Path) -> None:
    log = tmp_path / "log"
    append(log, work, 0, SHARE)
    assert find_in_flight(log, Start.BEGINNING, writer=WRITER, sequence=IN_FLIGHT) is None
