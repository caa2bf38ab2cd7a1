"""Verify a sealed log in use again and again: python -m stress.sealing [--seconds S] [--directory DIR], or `make
stress`.

Three processes append, one ingests files, and one cuts over, archives, and removes old files under statements and
holds.  A sealer hands its checkpoints to an anchor.  Each verification, with the anchor's latest checkpoint, must find
nothing, and in the end every record must be sealed.
DURATION_S= is the same as --seconds.
Exit codes: 0 nothing was found, 1 something was or a process failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import binlog
from binlog.format.seal.statement import Kind
from binlog.seal import Report, Sealer, SigningKey, begin_seal, parse_anchor, read_statements, verify
from stress.sealing.roles import ROLES, Stopped

_ORIGIN = "example.org/in-use"
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Outcome:
    """What a run has shown.

    findings: texts; empty if all is well.  runs: verifications.  records: compared in them.  sealed: records in the
    end.  prunes: statements that let retention remove files.
    """

    findings: list[str] = field(default_factory=list)
    runs: int = 0
    records: int = 0
    sealed: int = 0
    prunes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs} verifications of {self.records:,} records, {self.prunes} prunes, {self.sealed:,} records "
            f"sealed, {len(self.findings)} findings"
        )


def run(folder: Path, seconds: float, progress: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
    """Let all processes work on a new log in a folder for `seconds`, and verify it meanwhile.

    progress: called after each verification.
    """
    log, key_path, anchored = folder / "log", folder / "key", folder / "anchor"
    anchored.mkdir()
    key = SigningKey.generate(_ORIGIN)
    key.save(key_path)
    with binlog.Writer(log) as writer:
        writer.append(b"the first record")
    begin_seal(log, key)
    with Sealer(log, key) as first:
        first.seal()
    outcome = Outcome()
    place = f"dir:{anchored}"
    command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key_path), "--every", "0.1s"]
    stop = _SPAWN.Event()
    with subprocess.Popen([*command, "--anchor", place], stderr=subprocess.PIPE, text=True) as sealer:
        processes = {role.__name__: _start(role, log, key_path, stop.is_set) for role in ROLES}
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until and not outcome.findings:
                _verify(log, key, place, outcome)
                outcome.findings += [
                    f"{name} has ended with {process.exitcode}"
                    for name, process in processes.items()
                    if not process.is_alive()
                ]
                if sealer.poll() is not None:
                    outcome.findings.append("the sealer has ended")
                progress(outcome)
        finally:
            stop.set()
            for process in processes.values():
                process.join()
            sealer.terminate()
            outcome.findings += sealer.communicate()[1].splitlines()
    _finish(log, key, place, outcome)
    return outcome


def _start(role: Callable[[Path, Path, Stopped], None], log: Path, key: Path, stopped: Stopped) -> BaseProcess:
    process = _SPAWN.Process(target=role, args=(log, key, stopped))
    process.start()
    return process


def _verify(log: Path, key: SigningKey, place: str, outcome: Outcome) -> Report:
    latest = parse_anchor(place).latest(key.verifier.name)
    report = verify(log, str(key.verifier), checkpoints=[] if latest is None else [latest])
    outcome.findings += map(str, report.findings)
    outcome.runs += 1
    outcome.records += report.verified
    return report


def _finish(log: Path, key: SigningKey, place: str, outcome: Outcome) -> None:
    """Seal the rest, and verify it."""
    binlog.Writer(log).close()
    with Sealer(log, key, anchors=[parse_anchor(place)]) as sealer:
        sealer.seal()
        sealer.anchor()
    report = _verify(log, key, place, outcome)
    outcome.sealed = report.size
    outcome.prunes = [each.kind for each in read_statements(log, str(key.verifier))].count(Kind.PRUNE)
    outcome.findings += [f"check: {problem}" for problem in binlog.check(log)]
    if report.unsealed:
        outcome.findings.append(f"{report.unsealed} records are not sealed in the end")


def main() -> int:
    """Run for as long as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stress.sealing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=os.environ.get("DURATION_S") or 3600.0, metavar="S")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), metavar="DIR", help="default: /var/tmp")
    given = parser.parse_args()
    told = [time.monotonic()]

    def tell(outcome: Outcome) -> None:
        if time.monotonic() - told[0] > 60:
            told[0] = time.monotonic()
            print(outcome, flush=True)

    with tempfile.TemporaryDirectory(prefix="binlog-sealing-", dir=given.directory) as folder:
        outcome = run(Path(folder), given.seconds, tell)
    for finding in outcome.findings:
        print(finding)
    print(outcome)
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
