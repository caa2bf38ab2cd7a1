"""Clocks that step, sealers that stop and machines that are down: told by statements, and no finding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import Writer
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import parse_notes
from binlog.format.seal.statement import Kind, Statement
from binlog.seal import SigningKey, begin_seal, read_statements, stat_seal, verify
from tests.support.checkout import ROOT
from tests.support.clocks import ShiftedClocks
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)
HOUR, DAY = 3600, 86400
# Much shorter than any step, and longer than a busy machine needs for what is between two clocks' readings.
SLACK = 300


class _Sealed:
    """A sealed log, whose processes see clocks that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.log, self._key, self._anchor = folder / "log", folder / "key", folder / "anchor"
        self._anchor.mkdir()
        self.clocks = ShiftedClocks(folder / "clocks")
        KEY.save(self._key)
        Writer(self.log).close()
        begin_seal(self.log, KEY)
        self._appended = 0

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.clocks.environment}

    def append(self, count: int = 5) -> None:
        """Append records from another process."""
        records = b"".join(b"record %d\n" % (self._appended + number) for number in range(count))
        command = [sys.executable, "-m", "binlog", "append", str(self.log)]
        subprocess.run(command, cwd=ROOT, env=self._environment, input=records, check=True)
        self._appended += count

    def wait(self) -> None:
        """Wait until all records are sealed."""
        until(lambda: verify(self.log, VKEY).size == self._appended)

    @contextmanager
    def sealer(self, ended_by: signal.Signals = signal.SIGTERM) -> Iterator[subprocess.Popen[bytes]]:
        """Run a sealer for a block."""
        command = [sys.executable, "-m", "binlog", "seal", "run", str(self.log), "--key", str(self._key)]
        options = ["--every", "0.05s", "--anchor", f"dir:{self._anchor}"]
        with subprocess.Popen([*command, *options], cwd=ROOT, env=self._environment) as process:
            try:
                yield process
                assert process.poll() is None
            finally:
                process.send_signal(ended_by)

    def statements(self, *kinds: Kind) -> list[Statement]:
        """Return the statements of these kinds."""
        return [each for each in read_statements(self.log, VKEY) if each.kind in kinds]

    def check(self) -> None:
        """Check that signed times never go back, and that `verify` finds nothing."""
        for path in (self.log / "seal" / "history", *self._anchor.iterdir()):
            heads = [parse_checkpoint(note.text) for note in parse_notes(path.read_bytes())]
            assert heads == sorted(heads, key=_moment)
        times = [each.seconds for each in read_statements(self.log, VKEY)]
        assert times == sorted(times)
        report = verify(self.log, VKEY)
        assert (report.findings, report.verified, report.unsealed) == ([], self._appended, 0)


def _moment(head: Checkpoint) -> tuple[int, int]:
    return head.size, head.seconds or 0


@pytest.fixture
def sealed(tmp_path: Path) -> _Sealed:
    return _Sealed(tmp_path)


def test_steps_of_the_clock_while_a_sealer_runs_are_told(sealed: _Sealed) -> None:
    with sealed.sealer():
        sealed.append()
        sealed.wait()
        sealed.clocks.move_wall_clock(-HOUR)
        until(lambda: len(sealed.statements(Kind.CLOCK)) == 1)
        sealed.append()
        sealed.wait()
        sealed.check()
        sealed.clocks.move_wall_clock(DAY)
        until(lambda: len(sealed.statements(Kind.CLOCK)) == 2)
        sealed.append()
        sealed.wait()
        sealed.check()
    back, forward = (each.integer("after") - each.integer("before") for each in sealed.statements(Kind.CLOCK, Kind.GAP))
    assert abs(back + HOUR) <= 2
    assert abs(forward - HOUR - DAY) <= 2
    sealed.append()
    with sealed.sealer():
        sealed.wait()
    sealed.check()


def test_a_clock_that_was_set_back_before_the_sealer_starts_is_told(sealed: _Sealed) -> None:
    for shift in (0, -HOUR, DAY, 0):
        sealed.clocks.move_wall_clock(shift)
        sealed.append()
        with sealed.sealer():
            sealed.wait()
        sealed.check()
    back, forward, back_again = sealed.statements(Kind.CLOCK, Kind.GAP)
    assert (back.kind, forward.kind, back_again.kind) == (Kind.CLOCK, Kind.GAP, Kind.CLOCK)
    assert abs(back.integer("before") - back.integer("after") - HOUR) < SLACK
    assert abs(back_again.integer("before") - back_again.integer("after") - DAY) < SLACK


def test_an_hour_without_a_sealer_is_told_though_writers_go_on(sealed: _Sealed) -> None:
    with sealed.sealer():
        sealed.append()
        sealed.wait()
    for minutes in (20, 40, 60):
        sealed.clocks.move_wall_clock(60 * minutes)
        sealed.append()
    with sealed.sealer():
        sealed.wait()
    [gap] = sealed.statements(Kind.GAP, Kind.CLOCK)
    assert abs(gap.integer("end") - gap.integer("begin") - HOUR) < SLACK
    sealed.check()


def test_a_sealer_that_hangs_for_an_hour_is_no_finding(sealed: _Sealed) -> None:
    """It is suspended, and the clocks continue, as in a virtual machine that is paused while others write."""
    with sealed.sealer() as process:
        sealed.append()
        sealed.wait()
        process.send_signal(signal.SIGSTOP)
        sealed.clocks.move_wall_clock(HOUR)
        sealed.clocks.move_boot_clock(HOUR)
        sealed.append()
        process.send_signal(signal.SIGCONT)
        sealed.wait()
    assert sealed.statements(Kind.CLOCK) == []
    sealed.check()


def test_a_machine_that_was_down_for_three_heartbeats_says_so(sealed: _Sealed) -> None:
    with sealed.sealer(signal.SIGKILL):
        sealed.append()
        sealed.wait()
    sealed.clocks.move_wall_clock(3 * 600)
    sealed.clocks.move_boot_clock(-stat_seconds())  # it has just been started
    with sealed.sealer():
        sealed.append()
        sealed.wait()
    [gap] = sealed.statements(Kind.GAP, Kind.CLOCK)
    assert abs(gap.integer("end") - gap.integer("begin") - 3 * 600) < SLACK
    sealed.check()


def stat_seconds() -> float:
    """Return the seconds since the boot."""
    return float(Path("/proc/uptime").read_text().split()[0])


def test_sealers_that_are_started_again_and_again_tell_of_no_gap(sealed: _Sealed) -> None:
    for number in range(6):
        with sealed.sealer(signal.SIGKILL if number % 2 else signal.SIGTERM):
            sealed.append(1)
            sealed.wait()
    assert sealed.statements(Kind.GAP, Kind.CLOCK) == []
    assert len(sealed.statements(Kind.START)) == 6
    sealed.check()
    assert stat_seal(sealed.log).size == 6
