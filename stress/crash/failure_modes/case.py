"""The cases of a sweep: running, timing, saving and replaying them, and their order."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from binlog.errors import BinlogError
from stress.crash.workers.context import Context, Job, copy_files
from stress.crash.workers.tally import Counts
from stress.crash.workers.victim_process import error_text

_REPLAY_SECONDS = 120.0


class Case(Protocol):
    """The dataclass of one case.  row: its row in the tally, `part/row`.  name: as printed."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def row(self) -> str: ...
    @property
    def name(self) -> str: ...


CaseT = TypeVar("CaseT")
RowT = TypeVar("RowT", bound=Case)


@dataclass(slots=True)
class CaseOutcome:
    """The outcome of one case.  counts: of its row.  wrong: one line for each violation."""

    counts: Counts
    wrong: list[str] = field(default_factory=list)


@contextmanager
def run_case(context: Context, case: Case, path: Path, remove: Callable[[], None]) -> Iterator[CaseOutcome]:
    """Run the case in the body; if something is wrong, save the case and the files at path, then remove them."""
    outcome = CaseOutcome(context.tally.row(case.row))
    begun = time.monotonic()
    context.current.set(f"{case.row.partition('/')[0]}: {case.name}")
    try:
        yield outcome
    except BinlogError as error:
        outcome.wrong.append(error_text(error))
    finally:
        if outcome.wrong:
            save_case(context, case.row, case.name, asdict(case), outcome.wrong, path)
        remove()
    outcome.counts.seconds += time.monotonic() - begun
    context.report_tally()


def save_case(context: Context, row: str, name: str, case: dict[str, Any], wrong: list[str], path: Path) -> None:
    """Report a violation and save the case, with the files at path, so that it can be replayed."""

    def keep(folder: Path) -> None:
        (folder / "part.json").write_text(json.dumps({"part": row.partition("/")[0], "case": case}))
        if path.exists():
            copy_files(path, folder / "state")

    label = f"{row}-{context.job.worker}-{context.tally.row(row).violations}-{name}"
    label = "".join(letter if letter.isalnum() else "-" for letter in label)
    context.violation(row, label, [f"{name}: {line}" for line in wrong], keep)


def load_case(folder: Path) -> dict[str, Any]:
    """Load a case that `keep_case` saved."""
    case: dict[str, Any] = json.loads((folder / "part.json").read_text())["case"]
    return case


class ReplayContext(Context):
    """The context of a replay: it has a time limit, and collects violations instead of reporting them."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(
            Job(
                worker=0, seed=0, parts=(), until=time.monotonic() + _REPLAY_SECONDS, states=0, scratch=str(scratch),
                keep=str(scratch), library="", memory=os.environ["BINLOG_RECORDER_MEMORY"], recorder_bug="none",
                seeded_bug="",
            )
        )  # fmt: skip
        self.wrong: list[str] = []

    def report_tally(self, *, at_once: bool = False) -> None:
        """Do nothing: a replay has no reader for its tally."""

    def violation(self, row: str, name: str, wrong: list[str], keep: object) -> None:
        """Collect the violation."""
        self.wrong += wrong


def shuffled(cases: list[RowT], chance: random.Random) -> Iterator[RowT]:
    """Shuffle the cases, with one of each row first, so that a short run has some of each kind."""
    chance.shuffle(cases)
    firsts = {case.row: at for at, case in reversed([*enumerate(cases)])}.values()
    return iter([cases[at] for at in sorted(range(len(cases)), key=lambda at: at not in firsts)])


def round_robin(cases: list[CaseT], kind: Callable[[CaseT], Hashable]) -> list[CaseT]:
    """Order the cases round-robin: the first of each kind, then the second of each, and so on."""
    seen: Counter[Hashable] = Counter()
    ranks = []
    for case in cases:
        ranks.append(seen[kind(case)])
        seen[kind(case)] += 1
    return [cases[at] for at in sorted(range(len(cases)), key=ranks.__getitem__)]
