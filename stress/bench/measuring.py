"""Records a second: a peer is made ready, processes are let go, and what they say they wrote is looked for."""

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

    stored: how many records are there once all processes have ended, or None where that means nothing.
    """

    opener: Opener
    stored: Callable[[], int] | None


# Makes a peer ready in an empty directory, for so many processes.
Prepare = Callable[[Path, int], AbstractContextManager[Prepared]]

_Opened = TypeVar("_Opened")


def preparing(
    open_: Callable[[Path], AbstractContextManager[_Opened]],
    loop: Callable[[_Opened], Loop],
    *,
    make: Callable[[Path], object] = lambda directory: None,
    stored: Callable[[Path], int] | None = None,
) -> Prepare:
    """A peer that each process opens for itself, and then works with, in a directory in which `make` has made it."""

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
    """Measure records a second, and how long single ones took where asked for."""

    def measure(directory: Path, seconds: float) -> Sample:
        with prepare(directory, processes) as prepared:
            run = run_processes(prepared.opener, processes=processes, seconds=seconds, keep_waits=keep_waits)
            stored = run.record_count if prepared.stored is None else prepared.stored()
        if stored != run.record_count:
            raise MeasureError(f"{run.record_count} records were written, and {stored} are there")
        return Sample(run.record_count / run.seconds, run.waits)

    return measure


def waiting(prepare: Prepare, *, processes: int) -> Measure:
    """Measure the median of what they note, in microseconds."""

    def measure(directory: Path, seconds: float) -> Sample:
        with prepare(directory, processes) as prepared:
            run = run_processes(prepared.opener, processes=processes, seconds=seconds, keep_waits=True)
        assert run.waits is not None
        return Sample(run.waits.p50_ns / 1000, run.waits)

    return measure
