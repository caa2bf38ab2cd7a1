"""The context of a worker's parts: job, scratch folder, tally and reporting."""

from __future__ import annotations

import json
import mmap
import shlex
import shutil
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stress.crash.preloaded.preload import Preload
from stress.crash.workers.tally import Tally

_TIME = struct.Struct("=d")
_CURRENT_BYTES = 4096
_REPORT_SECONDS = 1.0
_SHOWN_MAX = 6
_KEPT_MAX = 5  # of each row, by each worker: one bug violates thousands of states


@dataclass(frozen=True, kw_only=True)
class Job:
    """The job of one worker, passed to it as JSON.

    until: the time to stop, on the monotonic clock.  states: the number of distinct states to check, 0 for no limit.
    scratch: its own folder in memory.  keep: the folder for violations.  seeded_bug: its name, if there is one.
    """

    worker: int
    seed: int
    parts: tuple[str, ...]
    until: float
    states: int
    scratch: str
    keep: str
    library: str
    memory: str
    recorder_bug: str
    seeded_bug: str

    def as_json(self) -> str:
        """Return the job as text for `job_of`."""
        return json.dumps(asdict(self))


def job_of(text: str) -> Job:
    """Parse the text of `as_json`."""
    values: dict[str, Any] = json.loads(text)
    return Job(**{**values, "parts": tuple(values["parts"])})


class Current:
    """The case that a worker is running, in a mapped file that survives the worker's death; the command reads it."""

    def __init__(self, scratch: Path) -> None:
        path = scratch / "current"
        if not path.exists():
            path.write_bytes(bytes(_CURRENT_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CURRENT_BYTES)

    def set(self, text: str) -> None:
        """Note the case that starts now."""
        data = text.encode()[: _CURRENT_BYTES - _TIME.size]
        self._memory[_TIME.size : _TIME.size + len(data) + 1] = data + b"\0"
        _TIME.pack_into(self._memory, 0, time.monotonic())

    def get(self) -> tuple[float, str]:
        """Return the start time of the current case, 0 if there was none, and its text."""
        (begun,) = _TIME.unpack_from(self._memory)
        return begun, self._memory[_TIME.size :].split(b"\0", 1)[0].decode()


class Context:
    """The job, scratch folder, tally and reports of one worker."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.scratch = Path(job.scratch)
        self.tally = Tally()
        self.current = Current(self.scratch)
        self.preload = Preload(Path(job.library), self.scratch, job.memory, job.recorder_bug)
        self._saved: dict[str, int] = {}
        self._reported_at = 0.0

    @property
    def done(self) -> bool:
        """Whether to stop."""
        states = sum(counts.states for counts in self.tally.rows.values())
        return time.monotonic() >= self.job.until or 0 < self.job.states <= states

    def report_tally(self, *, at_once: bool = False) -> None:
        """Send the tally, at most once a second."""
        now = time.monotonic()
        if at_once or now - self._reported_at > _REPORT_SECONDS:
            self._reported_at = now
            _send({"tally": self.tally.as_json()})

    def violation(self, row: str, name: str, wrong: list[str], keep: Callable[[Path], None]) -> None:
        """Count a violation; save and report the first ones of each row.  keep: saves everything for a replay into a
        folder.
        """
        self.tally.row(row).violations += 1
        self._saved[row] = self._saved.get(row, 0) + 1
        if self._saved[row] > _KEPT_MAX:
            return
        folder = Path(self.job.keep) / name
        folder.mkdir(parents=True)
        keep(folder)
        seeded = ["--seeded-bug", self.job.seeded_bug] if self.job.seeded_bug else []
        command = shlex.join([".venv/bin/python", "-m", "stress.crash", *seeded, "--replay", str(folder)])
        (folder / "wrong.txt").write_text("\n".join([*wrong, "", command, ""]))
        shown = [*wrong[:_SHOWN_MAX], *([f"... and {len(wrong) - _SHOWN_MAX} more"] if len(wrong) > _SHOWN_MAX else [])]
        _send({"violation": {"row": row, "wrong": shown, "command": command}})
        self.report_tally(at_once=True)


def copy_files(source: Path, target: Path) -> None:
    """Copy a folder, without traces, which are large, and named pipes, which are seats of a consumer group."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name.endswith(".trace") or (Path(folder) / name).is_fifo()]

    shutil.copytree(source, target, symlinks=True, ignore=ignored)


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), file=sys.stdout, flush=True)
