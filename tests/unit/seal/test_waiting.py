"""`wait` returns once a record is sealed, and makes a sealer work at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from binlog import Writer
from binlog.errors import NotFoundError, TimedOutError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.seal import Anchor, Sealer, SigningKey, begin_seal, parse_anchor, wait
from tests.support.children import Child
from tests.support.users import USER, as_user, folder_of_user, needs_root
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")

OTHER_USER = USER + 10


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    Writer(path).close()
    begin_seal(path, KEY)
    return path


@contextmanager
def _running(log: Path, every: float, *anchors: Anchor) -> Iterator[Sealer]:
    """Run a sealer in a thread."""
    stop = threading.Event()
    with Sealer(log, KEY, anchors=anchors) as sealer:
        thread = threading.Thread(target=sealer.run, args=(stop, every, lambda text: None))
        thread.start()
        try:
            yield sealer
        finally:
            stop.set()
            sealer._requests.ring()
            thread.join()


@pytest.mark.slow
def test_a_record_is_sealed_long_before_the_next_round(log: Path) -> None:
    with _running(log, 3600), Writer(log) as writer:
        begun = time.monotonic()
        for number in range(20):
            note = wait(log, writer.append(b"%d" % number), timeout=60)
            assert parse_checkpoint(note.text).size == number + 1
        assert time.monotonic() - begun < 60


def test_without_a_sealer_the_time_is_up(log: Path) -> None:
    with Writer(log) as writer:
        ref = writer.append(b"one")
    with pytest.raises(TimedOutError, match="was not sealed in time"):
        wait(log, str(ref), timeout=0.05)
    with Sealer(log, KEY) as sealer:
        note = sealer.seal()
    assert wait(log, ref, timeout=0) == note
    with pytest.raises(TimedOutError):
        wait(log, ref, anchored=1, timeout=0.05)


def test_anchors_are_waited_for(log: Path, tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        place.mkdir()
    anchors = [parse_anchor(f"dir:{place}") for place in places]
    with _running(log, 3600, *anchors, parse_anchor("exec:false")), Writer(log) as writer:
        ref = writer.append(b"one")
        wait(log, ref, anchored=2, timeout=60)
        assert all(len(list(place.iterdir())) == 1 for place in places)
        with pytest.raises(TimedOutError):
            wait(log, ref, anchored=3, timeout=0.1)


def test_a_log_without_a_seal_is_an_error(tmp_path: Path) -> None:
    Writer(tmp_path).close()
    with pytest.raises(NotFoundError):
        wait(tmp_path, "1:256", timeout=1)


@needs_root
@pytest.mark.slow
def test_a_caller_that_may_only_read_sleeps_until_the_sealer_rings() -> None:
    with folder_of_user() as folder:
        log = folder / "log"
        Writer(log).close()
        begin_seal(log, KEY)
        with Sealer(log, KEY) as sealer, Writer(log) as writer:
            sealer.seal()
            ref = writer.append(b"one")
            before = sealer._requests.value()
            child = Child(partial(as_user, wait, log, ref, user=OTHER_USER, timeout=60))
            until(lambda: _sleeps_in_futex(child.pid))
            assert sealer._requests.value() == before
            sealer.seal()
            child.join()


def _sleeps_in_futex(pid: int) -> bool:
    """Whether the process, or a child of it, sleeps until a futex is woken (proc(5))."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return any("futex" in Path(f"/proc/{each}/wchan").read_text() for each in [str(pid), *children])
