"""The sweep over bits in forked workers, each with little memory."""

from __future__ import annotations

import gc
import json
import os
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from stress.crash.flips.checker import check_bit
from stress.crash.flips.logs import QUICK, IntactLog

MEMORY_BYTES = 64 << 20
"""The memory that a worker may claim in addition to that at its start; its actual use is measured and reported."""

_QUICK_STEP = 127


@dataclass(frozen=True)
class Flip:
    """One bit of one file of one log."""

    intact: IntactLog
    file: str
    bit: int

    def __str__(self) -> str:
        return f"{self.intact.name}: bit {self.bit % 8} of byte {self.bit // 8} of {self.file}"


@dataclass
class SweepResult:
    """The results of all bits.

    wrong: by the bit.  counts, seconds: by the log's name.
    start_bytes: the memory of the largest worker at first; peak_bytes: the most that any used.
    """

    wrong: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    start_bytes: int = 0
    peak_bytes: int = 0


def all_flips(intact_logs: Sequence[IntactLog]) -> list[Flip]:
    """Return every bit."""
    return [Flip(intact, file, bit) for intact in intact_logs for file, bit in intact.bits()]


def quick_flips(intact_logs: Sequence[IntactLog]) -> list[Flip]:
    """Return one bit of each byte of one log of each kind, and a few of all others."""
    flips = all_flips(intact_logs)
    each = [flip for flip in flips if flip.intact.name in QUICK and flip.bit % 8 == flip.bit // 8 % 8]
    return each + [flip for flip in flips if flip.intact.name not in QUICK][::_QUICK_STEP]


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder in memory, because states are made and removed by the ten thousand."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="binlog-flips-", dir=memory)


def sweep(flips: Sequence[Flip], scratch: Path, processes: int) -> SweepResult:
    """Check each bit, in `processes` processes."""
    folders = [scratch / f"worker-{index}" for index in range(processes)]
    pids = []
    for index, folder in enumerate(folders):
        folder.mkdir()
        pid = os.fork()
        if pid == 0:
            _work(flips[index::processes], folder)
        pids.append(pid)
    found = SweepResult()
    for pid, folder in zip(pids, folders, strict=True):
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != 0:
            found.wrong[(folder / "current").read_text()] = [f"the worker ended with {code}"]
            continue
        result = json.loads((folder / "found").read_text())
        found.wrong |= result["wrong"]
        found.counts.update(result["counts"])
        for name, seconds in result["seconds"].items():
            found.seconds[name] = found.seconds.get(name, 0.0) + seconds
        found.start_bytes = max(found.start_bytes, result["start_bytes"])
        found.peak_bytes = max(found.peak_bytes, result["peak_bytes"])
    return found


def _work(flips: Sequence[Flip], folder: Path) -> NoReturn:
    status = 1
    try:
        gc.freeze()
        found = SweepResult(start_bytes=_memory("VmRSS"))
        limit = _memory("VmSize") + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with (folder / "current").open("w") as current:
            for flip in flips:
                current.seek(0)
                current.truncate()
                current.write(str(flip))
                current.flush()
                begun = time.process_time()
                wrong = check_bit(flip.intact, flip.file, flip.bit, folder)
                if wrong:
                    found.wrong[str(flip)] = wrong
                found.counts[flip.intact.name] += 1
                spent = time.process_time() - begun
                found.seconds[flip.intact.name] = found.seconds.get(flip.intact.name, 0.0) + spent
        found.peak_bytes = _memory("VmHWM")
        (folder / "found").write_text(json.dumps(vars(found)))
        status = 0
    except BaseException:  # noqa: BLE001 - the exit status reports it to the parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _memory(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
