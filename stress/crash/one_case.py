"""What surrounds the one run of a case of a sweep: it is told, timed, and kept where something is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from binlog.errors import BinlogError
from stress.crash.aftermath import keep_log
from stress.crash.context import Context
from stress.crash.marks import Recorder
from stress.crash.tally import Counts


class Case(Protocol):
    """A dataclass.  row: of the tally, whose first part is the part's.  name: as it is told."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def row(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class Tried:
    """A case that was tried.  counts: of its row.  wrong: what is."""

    counts: Counts
    wrong: list[str] = field(default_factory=list)


@contextmanager
def one_case(context: Context, case: Case, path: Path, remove: Callable[[Path], None]) -> Iterator[Tried]:
    """Run it in the body; what lies under the path is kept where something is wrong, and goes."""
    tried = Tried(context.tally.row(case.row))
    begun = time.monotonic()
    context.current.set(f"{case.row.partition('/')[0]}: {case.name}")
    try:
        yield tried
    except BinlogError as error:
        tried.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        if tried.wrong:
            keep_log(context, case.row, case.name, asdict(case), tried.wrong, path)
        remove(path)
    tried.counts.seconds += time.monotonic() - begun


@contextmanager
def recording(recorder: Recorder, trace: Path, *, wanted: bool) -> Iterator[None]:
    """Have the body's calls be recorded, until it stops that itself."""
    if wanted:
        recorder.start(str(trace))
    try:
        yield
    finally:
        recorder.stop()
        trace.unlink(missing_ok=True)
