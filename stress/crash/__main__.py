"""Test crashes of every engine: python -m stress.crash [--seconds S] [--seed N] [--keep DIR], or `make crash`.

DURATION_S= and SEED= in the environment are the same as --seconds and --seed. Exit codes: 0 no violation, 1 a
violation, 2 wrong usage or no C compiler, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stress.crash.parts import PARTS
from stress.crash.preloaded.preload import CompilerError, Preload, compile_recorder
from stress.crash.seeded_bugs import SEEDED_BUGS, SeedingError, seeded_tree
from stress.crash.systems.commitlog.system import remove_pools
from stress.crash.workers.context import Job
from stress.crash.workers.report import progress, table
from stress.crash.workers.tally import Tally, from_json, total
from stress.crash.workers.worker_pool import Worker, WorkerPool
from stress.memory import folder_in_memory

_SECONDS = 60.0
_PROGRESS_SECONDS = 10.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stress.crash", description="Test crashes of every engine.")
    parser.add_argument("--seconds", type=float, default=os.environ.get("DURATION_S") or _SECONDS, metavar="S")
    parser.add_argument("--seed", type=int, default=os.environ.get("SEED") or None, metavar="N", help="default: random")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="default: all cores")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    parser.add_argument("--states", type=int, default=0, metavar="N", help="stop after N distinct states")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="save violations in this new or empty directory")
    parser.add_argument(
        "--seeded-bug", choices=SEEDED_BUGS, metavar="NAME", help="run with this bug: " + ", ".join(SEEDED_BUGS)
    )
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--replay", type=Path, metavar="DIR", help="run only this saved violation again")
    given = parser.parse_args()
    if given.processes < 1 or given.seconds <= 0 or given.states < 0:
        parser.error("--processes is 1 or more, --seconds more than 0, --states 0 or more")
    if given.keep and given.keep.exists() and not (given.keep.is_dir() and not any(given.keep.iterdir())):
        parser.error(f"--keep: {given.keep} is not a new or empty directory")
    if given.replay and not (given.replay / "part.json").is_file():
        parser.error(f"--replay: {given.replay} is not a saved violation")
    return given


class Command:
    """One run of the command."""

    def __init__(self, given: argparse.Namespace, scratch: Path) -> None:
        self._given = given
        self._scratch = scratch
        self._seed: int = secrets.randbelow(1_000_000) if given.seed is None else given.seed
        self._keep: Path = (given.keep or Path(tempfile.gettempdir()) / f"binlog-crash-{os.getpid()}").resolve()
        bug = SEEDED_BUGS[given.seeded_bug] if given.seeded_bug else None
        self._tree = seeded_tree(bug, scratch) if bug else Path(__file__).parents[2]
        recorder_bug = bug.name if bug and bug.is_switch else "none"
        self._preload = Preload(compile_recorder(scratch), scratch, f"{scratch.name}-", recorder_bug)
        self._tallies: dict[int, Tally] = {}
        self._deaths = 0

    def replay(self) -> int:
        """Run a saved violation again."""
        environment = {**self._preload.environment("third"), "PYTHONPATH": str(self._tree)}
        command = [sys.executable, "-m", "stress.crash.replay", str(self._given.replay.resolve()), str(self._scratch)]
        # It leads a process group: its victims are killed with it, before their files are removed.
        with subprocess.Popen(command, cwd=self._tree, env=environment, start_new_session=True) as process:
            try:
                return process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise

    def run(self) -> int:
        """Start the workers, print their violations, and print the totals."""
        print(f"crash: seed {self._seed}, {self._given.seconds:.0f} s, {self._given.processes} processes", flush=True)
        begun = reported = time.monotonic()
        with WorkerPool(self._jobs(begun), self._preload, self._tree) as pool:
            for worker, message in pool.messages():
                self._take(worker, message)
                if self._given.stop and self._violations():
                    break
                if time.monotonic() - reported > _PROGRESS_SECONDS:
                    reported = time.monotonic()
                    print(progress(reported - begun, total(self._tallies.values())), flush=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(table(time.monotonic() - begun, used.ru_utime + used.ru_stime, total(self._tallies.values())))
        violations = self._violations()
        print(
            f"crash: seed {self._seed}: {violations:,} violations" + (f", saved in {self._keep}" if violations else "")
        )
        return 1 if violations else 0

    def _jobs(self, begun: float) -> list[Job]:
        return [
            Job(
                worker=index,
                seed=self._seed,
                parts=tuple(self._given.parts),
                until=begun + self._given.seconds,
                states=-(-self._given.states // self._given.processes),
                scratch=str(self._scratch / f"worker-{index}"),
                keep=str(self._keep),
                library=str(self._preload.library),
                memory=f"{self._preload.memory}{index}-",
                recorder_bug=self._preload.recorder_bug,
                seeded_bug=self._given.seeded_bug or "",
            )
            for index in range(self._given.processes)
        ]

    def _take(self, worker: Worker, message: dict[str, object]) -> None:
        match message:
            case {"tally": dict(rows)}:
                self._tallies[worker.job.worker] = from_json(rows)
            case {"violation": {"row": row, "wrong": [*wrong], "command": command}}:
                print(f"crash: {row}: VIOLATION\n  " + "\n  ".join(wrong) + f"\n  replay: {command}", flush=True)
            case {"ended": str(failure)}:
                self._deaths += 1
                folder = self._keep / f"worker-{worker.job.worker}"
                worker.keep(folder)
                in_hand = worker.current.get()[1]
                print(f"crash: VIOLATION: a worker {failure} at: {in_hand}\n  saved: {folder}", flush=True)

    def _violations(self) -> int:
        rows = total(self._tallies.values()).rows.values()
        return sum(counts.violations for counts in rows) + self._deaths


def _sweep_memory(scratch: Path) -> None:
    """Remove the shared memory of killed processes."""
    for path in Path("/dev/shm").glob(f"{scratch.name}-*"):
        path.unlink(missing_ok=True)
    for folder in (path for path in scratch.rglob("*") if path.is_dir()):
        remove_pools(folder)


def main() -> int:
    """See the module."""
    given = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # In memory: states are made and removed by the thousand, and the disk itself is not under test.
    try:
        memory = folder_in_memory()
        with tempfile.TemporaryDirectory(prefix="binlog-crash-", dir=memory, ignore_cleanup_errors=True) as scratch:
            try:
                command = Command(given, Path(scratch))
                return command.replay() if given.replay else command.run()
            finally:
                _sweep_memory(Path(scratch))
    except (CompilerError, SeedingError) as error:
        print(f"crash: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("crash: interrupted; all of its processes have ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
