"""Ingests together with the real binlog module of jPOS-EE: `make jpos JPOS_SOURCE=...`."""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import binlog
from binlog import Batch, ExternalFile, ExternalFileWriter, Ref, Writer
from tests.interop.jpos_module.peer import Added, JposPeer, compile_module
from tests.support.preloaded import run_preloaded

_FILES, _RECORDS = 10, 5
_KILLED_FILES = 3


class LostError(Exception):
    """An acknowledged record is missing, or in the log twice, or `check` reports a problem."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.jpos_module", description=__doc__)
    parser.add_argument("source", type=Path, help="a checkout or a repository of jPOS-EE, or the module's Java files")
    parser.add_argument("--logs", type=int, default=500, metavar="N", help="so many logs for each kind of race")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), metavar="N", help="default: drawn")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        compile_module(arguments.source, scratch / "classes")
        with JposPeer(scratch / "classes") as peer:
            print(f"seed {arguments.seed}", flush=True)
            for cutover_every in (0, 3):
                late = sum(
                    _race(peer, scratch / f"race-{each}", chance, cutover_every) for each in range(arguments.logs)
                )
                how = "adds" if not cutover_every else "adds and cuts over"
                print(f"{arguments.logs} logs: it opens, {how} while ours ingests {_FILES} files; "
                      f"{late} files with late records", flush=True)  # fmt: skip
            for cutover_every in (0, 1):
                died = _kill_at_each_call(peer, scratch, cutover_every)
                how = "adds" if not cutover_every else "adds and cuts over"
                print(f"{died} deaths, one at each call of ingesting {_KILLED_FILES} files; then it opens and {how}",
                      flush=True)  # fmt: skip


def _external_files(log: Path, count: int) -> list[ExternalFile]:
    made = []
    for file in range(count):
        with ExternalFileWriter(log / f".{os.urandom(8).hex()}.external") as writer:
            writer.append(Batch.from_records([b"external-%d-%d" % (file, index) for index in range(_RECORDS)]))
            made.append(writer.finish())
    return made


def _external_file(count: int) -> list[bytes]:
    return [b"external-%d-%d" % (file, index) for file in range(count) for index in range(_RECORDS)]


def _race(peer: JposPeer, log: Path, chance: random.Random, cutover_every: int) -> int:
    """Ingest while the module opens the log for the first time; return how many files have late records."""
    own = []
    with Writer(log) as writer:
        for index in range(chance.randrange(1, 4)):
            own.append(b"own-%d" % index)
            writer.append(own[-1])
            if chance.random() < 0.3:
                writer.cutover()
        files = _external_files(log, _FILES)
        peer.begin_adding(log, "java", 12, cutover_every=cutover_every)
        _spend(chance.random() * 0.004)
        writer.ingest(files, producer="s", sequence=0)
        for index in range(3):
            own.append(b"after-%d" % index)
            writer.append(own[-1])
        added = peer.added()
        if any(not _is_there(log, each) for each in added):
            raise LostError(f"{log}: a record is not where the module said that it lies")
    late = _look(peer, log, [*own, *_external_file(_FILES), *(each.record for each in added)])
    _remove(log)
    return late


def _ingest(log: Path, files: list[ExternalFile]) -> None:
    with Writer(log) as writer:
        writer.ingest(files, producer="s", sequence=0)


def _prepare(log: Path) -> list[ExternalFile]:
    _remove(log)
    with Writer(log) as writer:
        writer.append(b"own-0")
    return _external_files(log, _KILLED_FILES)


def _kill_at_each_call(peer: JposPeer, scratch: Path, cutover_every: int) -> int:
    """Kill an ingest at each of its calls, and let the module continue; return the number of deaths."""
    log = scratch / "killed"
    died, killed = 0, True
    while killed:
        files = _prepare(log)
        killed = run_preloaded(_ingest, log, files, kill_at=died).killed
        peer.begin_adding(log, "java", 3, cutover_every=cutover_every)
        added = peer.added()
        with Writer(log) as writer:
            there = writer.last_producer_batch("s") is not None
            writer.append(b"after")
        if any(not _is_there(log, each) for each in added):
            raise LostError(f"{log}, killed at call {died}: a record is not where the module said that it lies")
        external_file = _external_file(_KILLED_FILES) if there else []
        try:
            _look(peer, log, [b"own-0", b"after", *external_file, *(each.record for each in added)])
        except LostError as error:
            raise LostError(f"killed at call {died}: {error}") from error
        died += killed
    _remove(log)
    return died


def _is_there(log: Path, added: Added) -> bool:
    with binlog.Reader(log, Ref(added.number, added.offset)) as reader:
        return next(reader).data == added.record


def _look(peer: JposPeer, log: Path, expected: list[bytes]) -> int:
    """Read the log with both readers and check it; return how many files have late records."""
    with binlog.Reader(log) as reader:
        found = Counter(entry.data for entry in reader)
    if found != Counter(expected):
        lost, more = Counter(expected) - found, found - Counter(expected)
        raise LostError(f"{log}: ours lacks {sorted(lost.elements())} and has {sorted(more.elements())} too often")
    theirs = Counter(peer.read(log))
    if theirs != found:
        raise LostError(f"{log}: the module's reader lacks {sorted((found - theirs).elements())}")
    problems = binlog.check(log)
    # The module reads a file's status before it has the lock, and therefore appends to files that were closed
    # meanwhile.
    if any(problem.rule != "late" for problem in problems):
        raise LostError(f"{log}: {[str(problem) for problem in problems]}")
    return len(problems)


def _spend(seconds: float) -> None:
    """Wait without sleeping: a sleep takes at least a tenth of a millisecond."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def _remove(log: Path) -> None:
    if log.is_dir():
        for path in log.iterdir():
            path.unlink()
        log.rmdir()


if __name__ == "__main__":
    main()
