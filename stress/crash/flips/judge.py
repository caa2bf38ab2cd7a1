"""Judging one flipped bit: by two writers, readers, `check` and `repair`; whichever refuses must change nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import binlog
from binlog import Batch, Reader, Writer
from binlog.errors import BinlogError, CorruptError, InternalError
from stress.crash.flips.logs import PREPARE_BYTES, SOURCE, Promise, Sound
from stress.crash.systems.log_actor import ASIDE

LOCK_SECONDS = 20.0
_READ_BYTES = 1 << 21


class Judge:
    """One copy of a log, with one flipped bit.  wrong: all that is not as it must be."""

    def __init__(self, sound: Sound, log: Path) -> None:
        self._sound = sound
        self._log = log
        self._appended: list[bytes] = []
        self._known: dict[str, bytes] | None = None
        self.wrong: list[str] = []

    def used(self) -> None:
        """Read, open and append twice, read, check, repair, append, read."""
        sound = self._sound
        found, error = self._read("reading first")
        expected = [*sound.records, *sound.later]
        self._hold(found == expected[: len(found)], "reading first: a record that is none of the log's")
        least = len(sound.records) if sound.acknowledged is None else sound.acknowledged
        self._hold(error is not None or len(found) >= least, f"reading first: {len(found)} records, no error")
        if sound.promise is Promise.READ:
            self._hold(error is None, f"reading first: {error}")
        told = self._check("checking first")
        self._hold(error is None or bool(told), "checking first: nothing is told of what ends a reader")
        opened = [self._append(f"writer {number}", b"appended by %d" % number) for number in (1, 2)]
        self._hold(len(set(opened)) == 1, f"one writer of two was refused: {opened}")
        if sound.promise is Promise.READ:
            self._hold(all(opened), "writers are refused")
            self._all_there("reading after the writers", later=True)
        else:
            self._read("reading after the writers")
        self._refused("repairing", lambda: binlog.repair(self._log))
        self._repaired("after the repair")

    def repaired(self) -> None:
        """Repair it before anything else, first without a change."""
        before = self._bytes()
        self._refused("repairing dry", lambda: binlog.repair(self._log, dry_run=True))
        self._hold(self._look() == before, "a dry run changed something")
        self._refused("repairing", lambda: binlog.repair(self._log))
        self._repaired("after a repair that came first")

    def _repaired(self, when: str) -> None:
        if self._sound.promise is Promise.TREE:
            self._append(f"appending {when}", b"appended")
            self._read(f"reading {when}")
            return
        self._all_there(f"reading {when}", later=True)
        rules = {problem.rule for problem in self._check(f"checking {when}")}
        self._hold(rules == self._sound.rules, f"checking {when}: {sorted(rules)}")
        error = self._refused(f"appending {when}", lambda: self._append_and_take_turns(when))
        self._hold(error is None, f"appending {when}: {error}")
        self._all_there(f"reading {when}, and an append", later=True)

    def _append_and_take_turns(self, when: str) -> None:
        """The last turn is not taken again, and the next one is."""
        turn = self._sound.turn
        with self._writer() as writer:
            writer.append(b"appended after a repair")
            self._appended.append(b"appended after a repair")
            if turn is None:
                return
            last = writer.last_producer_batch(SOURCE)
            self._hold(last is not None and last.sequence == turn, f"the last turn {when}: {last}")
            again = writer.append_idempotent([Batch.from_records([b"again"])], producer=SOURCE, sequence=turn)
            self._hold(again is None, f"a turn is taken twice {when}")
            taken = writer.append_idempotent([Batch.from_records([b"next"])], producer=SOURCE, sequence=turn + 1)
            self._hold(taken is not None, f"a turn is not taken {when}")
            self._appended.append(b"next")

    def _all_there(self, when: str, *, later: bool) -> None:
        expected = [*self._sound.records, *(self._sound.later if later else ()), *self._appended]
        found, error = self._read(when)
        self._hold(error is None, f"{when}: {error}")
        if error is None and found != expected:
            lost = [record[:20] for record in expected if record not in found]
            self._hold(False, f"{when}: {len(found)} records in place of {len(expected)}, without {lost[:3]}")

    def _read(self, when: str) -> tuple[list[bytes], BinlogError | None]:
        found: list[bytes] = []

        def read() -> None:
            with Reader(self._log) as reader:
                found.extend(entry.data for entry in reader)

        return found, self._refused(when, read, writes=False)

    def _check(self, when: str) -> list[binlog.Problem]:
        problems: list[binlog.Problem] = []
        error = self._refused(when, lambda: problems.extend(binlog.check(self._log)), writes=False)
        self._hold(error is None, f"{when}: {error}")
        return problems

    def _append(self, when: str, record: bytes) -> bool:
        """Whether a writer took the record.  Then the last turn is told right, or is an error."""

        def append() -> None:
            with self._writer() as writer:
                writer.append(record)
                if self._sound.turn is not None:
                    self._look_at_turn(when, writer)

        if self._refused(when, append) is not None:
            return False
        self._appended.append(record)
        return True

    def _look_at_turn(self, when: str, writer: Writer) -> None:
        try:
            last = writer.last_producer_batch(SOURCE)
        except CorruptError:
            self._hold(self._sound.promise is not Promise.READ, f"{when}: the last turn is not told")
            return
        told = None if last is None else last.sequence
        self._hold(told == self._sound.turn, f"{when}: the last turn is {told}, without an error")

    def _writer(self) -> Writer:
        return Writer(self._log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS)

    def _refused(self, when: str, use: Callable[[], object], *, writes: bool = True) -> BinlogError | None:
        """The error that it raises, which must be one of ours, and must have changed nothing.

        writes: whether it may change the log if it raises nothing.
        """
        before = self._bytes()
        try:
            use()
        except InternalError as error:
            self._hold(False, f"{when}: {type(error).__name__}: {error}")
            return error
        except BinlogError as error:
            changed = _difference(before, self._look())
            self._hold(not changed, f"{when}: {type(error).__name__}: {error}; yet it changed {changed}")
            return error
        except Exception as error:  # noqa: BLE001 - whatever the log raises is what is to be told
            self._hold(False, f"{when}: an error that is none of binlog's: {type(error).__name__}: {error}")
        if writes:
            self._known = None
        return None

    def _bytes(self) -> dict[str, bytes]:
        """The files as they are since the last writer, or repair."""
        if self._known is None:
            self._known = self._look()
        return self._known

    def _look(self) -> dict[str, bytes]:
        found = {}
        for name in os.listdir(self._log):
            if name != ".repair.lock" and name != ASIDE:
                fd = os.open(f"{self._log}/{name}", os.O_RDONLY)
                found[name] = os.read(fd, _READ_BYTES)
                os.close(fd)
        return found

    def _hold(self, right: bool, text: str) -> None:
        if not right:
            self.wrong.append(text)


def _difference(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    names = sorted(before.keys() | after.keys())
    return ", ".join(
        name + ("" if name in after else " (gone)") + ("" if name in before else " (new)")
        for name in names
        if before.get(name) != after.get(name)
    )


def judge(sound: Sound, name: str, bit: int, scratch: Path) -> list[str]:
    """What is wrong with a log of which a bit of a file is flipped."""
    wrong = []
    for way in (Judge.used, Judge.repaired):
        log = scratch / "log"
        sound.build(log, name, bit)
        try:
            judging = Judge(sound, log)
            way(judging)
            wrong += judging.wrong
        finally:
            shutil.rmtree(log)
    return wrong
