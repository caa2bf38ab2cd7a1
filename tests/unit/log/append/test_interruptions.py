"""Ctrl-C at each point of a writer's calls: the exception is raised, and all writers continue."""

from __future__ import annotations

import gc
import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog import Background, Batch, ExternalFileWriter, Mode, Writer
from binlog.errors import ClosedError
from tests.support.interruptions import Interruption
from tests.support.logs import read_all

# Python prints and drops an exception that is raised within a finalizer.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

_OPTIONS: dict[str, Any] = {
    "background": Background(flush_seconds=600, sync_seconds=600),
    "lock_timeout": 5,
}
_HANG_SECONDS = 20
_ALL_MAX = 60  # if a call has more points, this many are tried
_LARGE = bytes(70_000)
_FILE_NUMBERS = itertools.count()


def _append_idempotent(writer: Writer) -> None:
    last = writer.last_producer_batch("source")
    sequence = 0 if last is None else last.sequence + 1
    records = [b"batch %d, first" % sequence, b"batch %d, last" % sequence]
    writer.append_idempotent([Batch.from_records(records)], producer="source", sequence=sequence)


def _ingest(writer: Writer) -> None:
    with ExternalFileWriter(f"{writer.path}-external-{next(_FILE_NUMBERS)}") as external:
        external.append(Batch.from_records([b"x", b"y"]))
        writer.ingest([external.finish()])


def _append_together(writer: Writer) -> None:
    writer.append_many([b"x", b"y"])
    writer.append_batch(Batch.from_records([b"x"]), mode=Mode.STAGE)


def _sync(writer: Writer) -> None:
    writer.append(b"staged", mode=Mode.STAGE)
    writer.sync()


def _open_and_append(writer: Writer) -> None:
    with Writer(writer.path, **_OPTIONS) as another:
        another.append(b"x", mode=Mode.FLUSH)


_CALLS: dict[str, Callable[[Writer], object]] = {
    "append-sync": lambda writer: writer.append(b"x"),
    "append-flush": lambda writer: writer.append(b"x", mode=Mode.FLUSH),
    "append-stage": lambda writer: writer.append(b"x", mode=Mode.STAGE),
    "append-bytearray": lambda writer: writer.append(bytearray(b"x"), mode=Mode.FLUSH),
    "append-large": lambda writer: writer.append(_LARGE, mode=Mode.FLUSH),
    "append-closed": lambda writer: writer.append(b"x"),
    "append-limit": lambda writer: writer.append(b"x"),
    "append-together": _append_together,
    "append-idempotent": _append_idempotent,
    "append-batches": lambda writer: writer.append_batches([Batch.from_records([b"x"])] * 2),
    "ingest": _ingest,
    "open": _open_and_append,
    "cutover": lambda writer: writer.cutover(),
    "sync": _sync,
}


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Collect the garbage of interrupted calls within the test, because its mark ignores errors of finalizers."""
    yield
    gc.collect()


@contextmanager
def _no_hang() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _interrupted(call: Callable[[], object], at: int, kept: list[BaseException]) -> bool:
    """Interrupt the call at a point; return False if it has fewer.  kept: the exception, and its references."""

    def keeping() -> None:
        try:
            call()
        except KeyboardInterrupt as error:
            kept.append(error)
            raise

    interruption = Interruption(at)
    interruption.run(keeping)
    return interruption.raised


def _places(call: Callable[[], object]) -> list[int]:
    counting = Interruption(1 << 40)
    counting.run(call)
    return list(range(0, counting.passed, counting.passed // _ALL_MAX + 1))


@pytest.mark.parametrize("name", _CALLS)
def test_a_writer_continues_after_ctrl_c_at_any_point_of_a_call(log: Path, name: str) -> None:
    call = _CALLS[name]
    limit = {"cutover_bytes": 1} if name == "append-limit" else {}
    with Writer(log, **_OPTIONS) as other, Writer(log, **_OPTIONS, **limit) as writer:
        writer.append(b"first", mode=Mode.FLUSH)
        if name == "append-closed":
            other.cutover()
        places = _places(lambda: call(writer))
        for at in places:
            if name == "append-closed":
                other.cutover()
            kept: list[BaseException] = []
            _interrupted(lambda: call(writer), at, kept)
            with _no_hang():
                for mode in Mode:
                    writer.append(b"after %d" % at, mode=mode)
                other.append(b"other %d" % at)
                call(writer)
    found = read_all(log)
    for at in places:
        assert found.count(b"after %d" % at) == len(Mode)
        assert found.count(b"other %d" % at) == 1
    batches = [record for record in found if record.startswith(b"batch")]
    whole = [(b"batch %d, first" % sequence, b"batch %d, last" % sequence) for sequence in range(len(batches) // 2)]
    assert batches == list(itertools.chain(*whole))


def test_a_writer_interrupted_in_close_can_be_closed_again(log: Path) -> None:
    with Writer(log, **_OPTIONS) as other:
        at = 0
        kept: list[BaseException] = []
        while True:
            writer = Writer(log, **_OPTIONS)
            for mode in Mode:
                writer.append(b"%d" % at, mode=mode)
            raised = _interrupted(writer.close, at, kept)
            with _no_hang():
                writer.close()
                with pytest.raises(ClosedError):
                    writer.append(b"x")
                other.append(b"other")
            kept.clear()
            assert read_all(log).count(b"%d" % at) == len(Mode)
            if not raised:
                break
            at += 1
    assert at > 1
