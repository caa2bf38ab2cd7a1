"""Wall clocks that are set, and a reboot, while items are delayed: no delay becomes longer, and no item is lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Writer
from binlog.consumers import stat_group
from tests.support.clocks import ShiftedClocks
from tests.support.commanded_workers import CommandedWorker

GROUP = "billing"
_DAY, _YEAR = 86_400.0, 365 * 86_400.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path / "log") as writer:
        writer.append_many([b"0", b"1", b"2"])
    return tmp_path / "log"


@pytest.mark.parametrize("seconds", [_DAY, -_DAY, 10 * _YEAR, -10 * _YEAR], ids=["+day", "-day", "+years", "-years"])
def test_a_clock_that_is_set_changes_no_delay(
    log: Path, tmp_path: Path, seconds: float, figure: Callable[[str], None]
) -> None:
    delay, clocks = 0.3, ShiftedClocks(tmp_path / "clocks")
    with (
        CommandedWorker(log, GROUP, environment=clocks.environment) as worker,
        CommandedWorker(log, GROUP, environment=clocks.environment) as other,
    ):
        assert worker.do("get", 10) == [0, 1]
        assert worker.do("get", 10) == [1, 1]
        failed = time.monotonic()
        assert worker.do("nack", 0, delay) is None
        assert worker.do("nack", 1, 3600) is None
        clocks.move_wall_clock(seconds)
        assert other.do("get", 10) == [2, 1]
        assert other.do("get", 60) == [0, 2]
        waited = time.monotonic() - failed
        assert waited >= delay
        for each in (worker, other):
            assert each.do("get", 0) is None
            assert 3500 < each.do("rest") < 3600
    figure(f"a delay of {delay} s while the wall clock is set by {seconds / _DAY:+.0f} days: {waited:.3f} s")


def test_after_a_reboot_with_a_clock_in_1970_delayed_items_wait_for_their_rest_at_most(
    log: Path, tmp_path: Path
) -> None:
    delay, clocks = 1.0, ShiftedClocks(tmp_path / "clocks")
    with CommandedWorker(log, GROUP) as before:
        assert before.do("get", 10) == [0, 1]
        assert before.do("get", 10) == [1, 1]
        assert before.do("nack", 0, delay) is None
        before.kill()
    clocks.move_wall_clock(-time.time())
    clocks.move_boot_clock(10 - time.clock_gettime(time.CLOCK_BOOTTIME))
    (tmp_path / "boot_id").write_text(str(uuid.uuid4()))
    options = {"environment": clocks.environment, "boot_id": str(tmp_path / "boot_id")}
    with CommandedWorker(log, GROUP, **options) as after:  # type: ignore[arg-type]
        assert after.do("get", 10) == [1, 2]  # its member died, so it comes first, and alone
        rest = after.do("rest")
        assert rest is None or rest <= delay
        assert after.do("ack", 1) is None
        found = [after.do("get", 60), after.do("get", 60)]
        assert sorted(found) == [[0, 2], [2, 1]]
        for sequence in (0, 2):
            assert after.do("ack", sequence) is None
    assert stat_group(log, GROUP).counters.done == 3
