"""What comes of a log after deaths or faults: the next writer opens it, and what it then holds is judged, and kept."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import binlog
from binlog import Reader, Writer
from binlog.errors import BinlogError
from stress.crash.context import Context, Job
from stress.crash.judge import LOCK_SECONDS, PREPARE_BYTES, problems_so_far
from stress.crash.ledger import Fate, Ledger, Own

_REPLAY_SECONDS = 120.0


def judge_log(log: Path, ledger: Ledger, after: Own, beside: Writer | None, *, least: Fate = Fate.KEPT) -> list[str]:
    """What is wrong with a log after a death, and after the next writer: `beside`, or else a new one."""
    wrong: list[str] = []
    step = "checking"
    try:
        wrong += [f"check before opening: {problem}" for problem in problems_so_far(log)]
        step = "appending"
        with beside or Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            after.append(writer)
            after.append_many(writer, 2)
        step = "reading"
        wrong += [f"check after appending: {problem}" for problem in binlog.check(log)]
        with Reader(log) as reader:
            wrong += ledger.judge(list(reader), least=least)
    except BinlogError as error:
        wrong.append(f"{step}: {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the log raises is what is to be told
        wrong.append(f"{step}: an error that is none of binlog's: {type(error).__name__}: {error}")
    return wrong


def keep_log(context: Context, row: str, name: str, case: dict[str, Any], wrong: list[str], log: Path) -> None:
    """Tell a violation, and keep what does it again and the log as it is.  name: of the case, unlike any other's."""

    def keep(folder: Path) -> None:
        (folder / "part.json").write_text(json.dumps({"part": row.partition("/")[0], "case": case}))
        if log.exists():
            shutil.copytree(log, folder / "log")

    label = f"{row}-{context.job.worker}-{context.tally.row(row).violations}-{name}"
    label = "".join(letter if letter.isalnum() else "-" for letter in label)
    context.violation(row, label, [f"{name}: {line}" for line in wrong], keep)


class Again(Context):
    """The context of a case that is tried again: it has time, and collects what is wrong."""

    def __init__(self, scratch: Path, memory: str) -> None:
        super().__init__(
            Job(
                worker=0, seed=0, parts=(), until=time.monotonic() + _REPLAY_SECONDS, states=0, scratch=str(scratch),
                keep=str(scratch), library="", memory=memory, mistake="none", planted="",
            )
        )  # fmt: skip
        self.wrong: list[str] = []

    def tell(self, *, at_once: bool = False) -> None:
        """Nobody listens."""

    def violation(self, row: str, name: str, wrong: list[str], keep: object) -> None:
        """Collect it."""
        self.wrong += wrong
