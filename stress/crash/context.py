"""What a worker gives its parts: places, the seed, when to stop, and a way to tell what happens."""

from __future__ import annotations

import json
import mmap
import shlex
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stress.crash.preload import Preload
from stress.crash.tally import Tally

_TIME = struct.Struct("=d")
_CURRENT_BYTES = 4096
_TELL_SECONDS = 1.0
_SHOWN_MAX = 6
_KEPT_MAX = 5  # of each row, by each worker: one mistake in a log breaks thousands of states


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker is started with, as JSON.

    until: when to stop, of the monotonic clock.  states: how many different ones to judge, 0 for no limit.
    scratch: a folder of its own, in memory.  keep: where violations go.  planted: the mistake to be found.
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
    mistake: str
    planted: str

    def as_json(self) -> str:
        """For `job_of`."""
        return json.dumps(asdict(self))


def job_of(text: str) -> Job:
    """What `as_json` gave."""
    values: dict[str, Any] = json.loads(text)
    return Job(**{**values, "parts": tuple(values["parts"])})


class Current:
    """What a worker has in hand, in a file where its death cannot take it: read by the one that watches."""

    def __init__(self, scratch: Path) -> None:
        path = scratch / "current"
        if not path.exists():
            path.write_bytes(bytes(_CURRENT_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CURRENT_BYTES)

    def set(self, text: str) -> None:
        """Note what is begun now."""
        data = text.encode()[: _CURRENT_BYTES - _TIME.size]
        self._memory[_TIME.size : _TIME.size + len(data) + 1] = data + b"\0"
        _TIME.pack_into(self._memory, 0, time.monotonic())

    def get(self) -> tuple[float, str]:
        """When it was begun, 0 for never, and what."""
        (begun,) = _TIME.unpack_from(self._memory)
        return begun, self._memory[_TIME.size :].split(b"\0", 1)[0].decode()


class Context:
    """See the module."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.scratch = Path(job.scratch)
        self.tally = Tally()
        self.current = Current(self.scratch)
        self.preload = Preload(Path(job.library), self.scratch, job.memory, job.mistake)
        self._kept: dict[str, int] = {}
        self._told = 0.0

    @property
    def done(self) -> bool:
        """Whether to stop."""
        states = sum(counts.states for counts in self.tally.rows.values())
        return time.monotonic() >= self.job.until or 0 < self.job.states <= states

    def tell(self, *, at_once: bool = False) -> None:
        """Send the tally, now and then."""
        now = time.monotonic()
        if at_once or now - self._told > _TELL_SECONDS:
            self._told = now
            _send({"tally": self.tally.as_json()})

    def violation(self, row: str, name: str, wrong: list[str], keep: Callable[[Path], None]) -> None:
        """Count a violation, and keep and tell the first ones.  keep: puts all that it takes into a folder."""
        self.tally.row(row).violations += 1
        self._kept[row] = self._kept.get(row, 0) + 1
        if self._kept[row] > _KEPT_MAX:
            return
        folder = Path(self.job.keep) / name
        folder.mkdir(parents=True)
        keep(folder)
        planted = ["--planted", self.job.planted] if self.job.planted else []
        command = shlex.join([".venv/bin/python", "-m", "stress.crash", *planted, "--replay", str(folder)])
        (folder / "wrong.txt").write_text("\n".join([*wrong, "", command, ""]))
        shown = [*wrong[:_SHOWN_MAX], *([f"... and {len(wrong) - _SHOWN_MAX} more"] if len(wrong) > _SHOWN_MAX else [])]
        _send({"violation": {"row": row, "wrong": shown, "command": command}})
        self.tell(at_once=True)


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), file=sys.stdout, flush=True)
