"""Measuring records a second: prepare a peer, run processes, and count the records that they wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stress.bench.contestant import Measure
from stress.bench.processes import Loop, Opener, run_processes
from stress.bench.sample import MeasureError, Sample


@dataclass(frozen=True)
class Prepared:
    """A peer that is ready.

    stored: the number of records after all processes have ended, or None if that means nothing.
    """

    opener: Opener
    stored: Callable[[], int] | None


# Prepares a peer in an empty directory, for a number of processes.
Prepare = Callable[[Path, int], AbstractContextManager[Prepared]]

_Opened = TypeVar("_Opened")


def preparing(
    open_: Callable[[Path], AbstractContextManager[_Opened]],
    loop: Callable[[_Opened], Loop],
    *,
    make: Callable[[Path], object] = lambda directory: None,
    stored: Callable[[Path], int] | None = None,
) -> Prepare:
    """Return a preparation after which each process opens the peer for itself; `make` creates it in the directory."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        make(directory)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with open_(directory) as opened:
                yield loop(opened)

        yield Prepared(opener, (lambda: stored(directory)) if stored else None)

    return prepare


def measuring(prepare: Prepare, *, processes: int = 1, keep_waits: bool = False) -> Measure:
    """Measure records a second, and the duration of single calls if asked."""

    def measure(directory: Path, seconds: float) -> Sample:
        with prepare(directory, processes) as prepared:
            run = run_processes(prepared.opener, processes=processes, seconds=seconds, keep_waits=keep_waits)
            stored = run.record_count if prepared.stored is None else prepared.stored()
        if stored != run.record_count:
            raise MeasureError(f"{run.record_count} records were written, but {stored} are stored")
        return Sample(run.record_count / run.seconds, run.waits)

    return measure


def cpu_time(prepare: Prepare) -> Measure:
    """Measure the CPU time of a record in one process, in microseconds."""

    def measure(directory: Path, seconds: float) -> Sample:
        with prepare(directory, 1) as prepared:
            run = run_processes(prepared.opener, processes=1, seconds=seconds, keep_waits=False)
        return Sample(run.cpu_seconds * 1e6 / run.record_count)

    return measure


def waiting(prepare: Prepare, *, processes: int) -> Measure:
    """Measure the median of the waits that the processes note, in microseconds."""

    def measure(directory: Path, seconds: float) -> Sample:
        with prepare(directory, processes) as prepared:
            run = run_processes(prepared.opener, processes=processes, seconds=seconds, keep_waits=True)
        assert run.waits is not None
        return Sample(run.waits.p50_ns / 1000, run.waits)

    return measure
