"""Work for an hour, and check that nothing grows: python -m stress.soak [--seconds S] [--directory DIR], or `make
soak`.

Writers in each mode, a follower, a visitor, a pruner, and one writer that is killed every few seconds.  The memory and
descriptors of each at the end are compared with those after a sixth of the time.  DURATION_S= is the same as --seconds.
Exit codes: 0 nothing grew by more than a twentieth, 1 something did or a process failed, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import binlog
from stress.soak.resource_usage import ResourceUsage, resource_usage, shared_memory_bytes
from stress.soak.roles import LASTING, victim

_SAMPLES = 60
_SAMPLE_SECONDS_MIN = 5.0
_FIRST_SAMPLE = 1 / 6  # of all samples
_GROWTH_MAX = 1.05
_DESCRIPTORS_IN_HAND = 2  # the prepared next file and its index
_KILL_SECONDS = 5.0
_FORK = multiprocessing.get_context("fork")


class Soak:
    """The processes of a run, and their samples."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._stop = _FORK.Event()
        self._killed = 0
        with binlog.Writer(log) as writer:
            writer.append(b"the first record")
        self._lasting = {f"{role.__name__} {index}": self._start(role) for index, role in enumerate(LASTING)}
        self._victim = self._start(victim)

    def run(self, seconds: float) -> bool:
        """Work for `seconds`; return whether nothing grew."""
        begun = time.monotonic()
        first: dict[str, ResourceUsage] = {}
        usage: dict[str, ResourceUsage] = {}
        first_shared = shared = 0
        samples = max(min(_SAMPLES, int(seconds / _SAMPLE_SECONDS_MIN)), 2)
        for sample in range(1, samples + 1):
            self._work_until(begun + seconds * sample / samples)
            usage = resource_usage({name: process.pid or 0 for name, process in self._lasting.items()})
            shared = shared_memory_bytes(self._log)
            print(
                f"soak: {time.monotonic() - begun:,.0f} s, {_text(usage)}, shared memory {shared:,} bytes", flush=True
            )
            if sample == max(round(samples * _FIRST_SAMPLE), 1):
                first, first_shared = usage, shared
        good = _compare(first, usage) and shared <= first_shared * _GROWTH_MAX
        print(f"shared memory: {first_shared:,} bytes, then {shared:,}; {self._killed} writers were killed")
        return self._end() and good

    def _start(self, role: Callable[..., None]) -> BaseProcess:
        process = _FORK.Process(target=role, args=(self._log, self._stop.is_set), daemon=True)
        process.start()
        return process

    def _work_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, _KILL_SECONDS))
            for name, process in self._lasting.items():
                if not process.is_alive():
                    raise ChildProcessError(f"{name} has ended with {process.exitcode}")
            self._victim.kill()
            self._victim.join()
            self._killed += 1
            self._victim = self._start(victim)

    def _end(self) -> bool:
        self._stop.set()
        for process in (*self._lasting.values(), self._victim):
            process.join()
        problems = binlog.check(self._log)
        for problem in problems:
            print(f"check: {problem}")
        return not problems and all(process.exitcode == 0 for process in self._lasting.values())


def _text(usage: dict[str, ResourceUsage]) -> str:
    return ", ".join(f"{name} {each.memory_kib:,} KiB {each.descriptors} fds" for name, each in usage.items())


def _compare(first: dict[str, ResourceUsage], last: dict[str, ResourceUsage]) -> bool:
    good = True
    for name, before in first.items():
        after = last[name]
        ratio = after.memory_kib / before.memory_kib
        grew = ratio > _GROWTH_MAX or after.descriptors > before.descriptors + _DESCRIPTORS_IN_HAND
        good = good and not grew
        print(
            f"{name}: {before.memory_kib:,} KiB, then {after.memory_kib:,} ({ratio:.3f}); "
            f"{before.descriptors} descriptors, then {after.descriptors}{'; it GREW' if grew else ''}"
        )
    return good


def main() -> int:
    """Run the soak and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m stress.soak", description="Work for long, and check that nothing grows."
    )
    parser.add_argument("--seconds", type=float, default=os.environ.get("DURATION_S") or 3600.0, metavar="S")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), metavar="DIR", help="default: /var/tmp")
    given = parser.parse_args()
    if given.seconds <= 0:
        parser.error("--seconds is more than 0")
    with tempfile.TemporaryDirectory(prefix="binlog-soak-", dir=given.directory) as folder:
        good = Soak(Path(folder) / "log").run(given.seconds)
    print(f"soak: {given.seconds:,.0f} s, {'nothing grew' if good else 'SOMETHING GREW, or a process failed'}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
