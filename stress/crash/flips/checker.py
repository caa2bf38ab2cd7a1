"""Checks of one flipped bit: by two writers, readers, `check` and `repair`; a call that refuses must change nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import binlog
from binlog import Batch, Reader, Writer
from binlog.errors import BinlogError, CorruptError, InternalError
from stress.crash.flips.logs import PREPARE_BYTES, SOURCE, IntactLog, Promise
from stress.crash.systems.log.actor import ASIDE

LOCK_SECONDS = 20.0
_READ_BYTES = 1 << 21


class Checker:
    """Checks one copy of a log with one flipped bit.  wrong: the violations."""

    def __init__(self, intact: IntactLog, log: Path) -> None:
        self._intact = intact
        self._log = log
        self._appended: list[bytes] = []
        self._known: dict[str, bytes] | None = None
        self.wrong: list[str] = []

    def used(self) -> None:
        """Read, open and append twice, read, check, repair, append, read."""
        intact = self._intact
        found, error = self._read("reading first")
        expected = [*intact.records, *intact.later]
        self._require(found == expected[: len(found)], "reading first: a record that was never appended")
        least = len(intact.records) if intact.acknowledged is None else intact.acknowledged
        self._require(error is not None or len(found) >= least, f"reading first: {len(found)} records, no error")
        if intact.promise is Promise.READ:
            self._require(error is None, f"reading first: {error}")
        problems = self._check("checking first")
        self._require(error is None or bool(problems), "checking first: a reader fails, but check reports nothing")
        opened = [self._append(f"writer {number}", b"appended by %d" % number) for number in (1, 2)]
        self._require(len(set(opened)) == 1, f"one writer of two was refused: {opened}")
        if intact.promise is Promise.READ:
            self._require(all(opened), "writers are refused")
            self._all_there("reading after the writers", later=True)
        else:
            self._read("reading after the writers")
        self._refused("repairing", lambda: binlog.repair(self._log))
        self._repaired("after the repair")

    def repaired(self) -> None:
        """Repair it before anything else, first as a dry run."""
        before = self._bytes()
        self._refused("repairing dry", lambda: binlog.repair(self._log, dry_run=True))
        self._require(self._snapshot() == before, "a dry run changed something")
        self._refused("repairing", lambda: binlog.repair(self._log))
        self._repaired("after a repair that came first")

    def _repaired(self, when: str) -> None:
        if self._intact.promise is Promise.TREE:
            self._append(f"appending {when}", b"appended")
            self._read(f"reading {when}")
            return
        self._all_there(f"reading {when}", later=True)
        rules = {problem.rule for problem in self._check(f"checking {when}")}
        self._require(rules == self._intact.rules, f"checking {when}: {sorted(rules)}")
        error = self._refused(f"appending {when}", lambda: self._append_and_produce(when))
        self._require(error is None, f"appending {when}: {error}")
        self._all_there(f"reading {when}, and an append", later=True)

    def _append_and_produce(self, when: str) -> None:
        """Check that the last producer batch is not appended again, and the next one is."""
        sequence = self._intact.sequence
        with self._writer() as writer:
            writer.append(b"appended after a repair")
            self._appended.append(b"appended after a repair")
            if sequence is None:
                return
            last = writer.last_producer_batch(SOURCE)
            self._require(last is not None and last.sequence == sequence, f"the last producer batch {when}: {last}")
            again = writer.append_idempotent([Batch.from_records([b"again"])], producer=SOURCE, sequence=sequence)
            self._require(again is None, f"a producer batch is appended twice {when}")
            taken = writer.append_idempotent([Batch.from_records([b"next"])], producer=SOURCE, sequence=sequence + 1)
            self._require(taken is not None, f"a producer batch is not appended {when}")
            self._appended.append(b"next")

    def _all_there(self, when: str, *, later: bool) -> None:
        expected = [*self._intact.records, *(self._intact.later if later else ()), *self._appended]
        found, error = self._read(when)
        self._require(error is None, f"{when}: {error}")
        if error is None and found != expected:
            lost = [record[:20] for record in expected if record not in found]
            self._require(False, f"{when}: {len(found)} records in place of {len(expected)}, without {lost[:3]}")

    def _read(self, when: str) -> tuple[list[bytes], BinlogError | None]:
        found: list[bytes] = []

        def read() -> None:
            with Reader(self._log) as reader:
                found.extend(entry.data for entry in reader)

        return found, self._refused(when, read, writes=False)

    def _check(self, when: str) -> list[binlog.Problem]:
        problems: list[binlog.Problem] = []
        error = self._refused(when, lambda: problems.extend(binlog.check(self._log)), writes=False)
        self._require(error is None, f"{when}: {error}")
        return problems

    def _append(self, when: str, record: bytes) -> bool:
        """Return whether a writer took the record.  Then the last producer batch must be right, or an error."""

        def append() -> None:
            with self._writer() as writer:
                writer.append(record)
                if self._intact.sequence is not None:
                    self._check_last_batch(when, writer)

        if self._refused(when, append) is not None:
            return False
        self._appended.append(record)
        return True

    def _check_last_batch(self, when: str, writer: Writer) -> None:
        try:
            last = writer.last_producer_batch(SOURCE)
        except CorruptError:
            self._require(self._intact.promise is not Promise.READ, f"{when}: the last producer batch is not known")
            return
        sequence = None if last is None else last.sequence
        self._require(
            sequence == self._intact.sequence, f"{when}: the last producer batch is {sequence}, without an error"
        )

    def _writer(self) -> Writer:
        return Writer(self._log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS)

    def _refused(self, when: str, use: Callable[[], object], *, writes: bool = True) -> BinlogError | None:
        """Return the error that a call raises, which must be one of binlog's, and must have changed nothing.

        writes: whether the call may change the log if it raises nothing.
        """
        before = self._bytes()
        try:
            use()
        except InternalError as error:
            self._require(False, f"{when}: {type(error).__name__}: {error}")
            return error
        except BinlogError as error:
            changed = _difference(before, self._snapshot())
            self._require(not changed, f"{when}: {type(error).__name__}: {error}; yet it changed {changed}")
            return error
        except Exception as error:  # noqa: BLE001 - whatever the log raises is the result
            self._require(False, f"{when}: not one of binlog's errors: {type(error).__name__}: {error}")
        if writes:
            self._known = None
        return None

    def _bytes(self) -> dict[str, bytes]:
        """Return the files as the last writer, or repair, left them."""
        if self._known is None:
            self._known = self._snapshot()
        return self._known

    def _snapshot(self) -> dict[str, bytes]:
        found = {}
        for name in os.listdir(self._log):
            if name != ".repair.lock" and name != ASIDE:
                fd = os.open(f"{self._log}/{name}", os.O_RDONLY)
                found[name] = os.read(fd, _READ_BYTES)
                os.close(fd)
        return found

    def _require(self, right: bool, text: str) -> None:
        if not right:
            self.wrong.append(text)


def _difference(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    names = sorted(before.keys() | after.keys())
    return ", ".join(
        name + ("" if name in after else " (gone)") + ("" if name in before else " (new)")
        for name in names
        if before.get(name) != after.get(name)
    )


def check_bit(intact: IntactLog, name: str, bit: int, scratch: Path) -> list[str]:
    """Return the violations of a log with one flipped bit."""
    wrong = []
    for way in (Checker.used, Checker.repaired):
        log = scratch / "log"
        intact.build(log, name, bit)
        try:
            checker = Checker(intact, log)
            way(checker)
            wrong += checker.wrong
        finally:
            shutil.rmtree(log)
    return wrong
