"""Damage of a group: bytes of its log are changed at random.

Whatever was changed, these hold:
- Only binlog's errors are raised, nothing crashes, and every call returns.
- If a member can use the group, it gets every message that is neither acknowledged nor a dead letter; others may come
  again.  So no acknowledgement is invented.
- The same is true after a repair.  If the damage was in the only checkpoint, the group is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import binlog
from binlog.errors import BinlogError
from stress.crash.disk_model.disk import Tree
from stress.crash.failure_modes.damage import CHANGES
from stress.crash.marks import Values, forget_shared_memory, values_of
from stress.crash.recording import build
from stress.crash.system import ProcessContext, Step
from stress.crash.systems.group.actor import GROUP, GroupActor
from stress.crash.systems.group.expectation import Expectation
from stress.crash.systems.group.marks import Identity
from stress.crash.systems.group.observation import all_letters, deliver_to
from stress.crash.workers.context import Context
from stress.crash.workers.victim_process import error_text

_STATES_PER_SLICE = 60
_HEADER_BYTES = 256
_FLIPS = 0.7
_STEPS: dict[Step, int] = {
    GroupActor.produce: 4, GroupActor.consume: 3, GroupActor.take_batches: 2, GroupActor.ack: 4, GroupActor.fail: 2,
    GroupActor.give_back: 1, GroupActor.get: 2, GroupActor.end_by_token: 1, GroupActor.pause: 1,
}  # fmt: skip
_STEP_COUNT, _PROCESSES = 12, 3
_FOLDER = f"groups/{GROUP}"


@dataclass(frozen=True)
class IntactGroup:
    """A log and its group with nothing wrong: the files by path, the seats, and what its members did."""

    files: Tree
    seats: Sequence[str]
    marks: Sequence[Values]

    def expectation(self) -> Expectation:
        """Return the expectation after all marks."""
        expected = Expectation()
        for mark in self.marks:
            expected.add(mark)
        return expected


class GroupDamage:
    """Makes intact groups, and changes the log of each in many ways."""

    def __init__(self, context: Context, system: object, part: str) -> None:
        self._context, self._part = context, part
        self._slice_count = 0

    def run_slice(self) -> None:
        """Make one intact group and check many changes of its log."""
        self._slice_count += 1
        seed = f"{self._context.job.seed}.{self._context.job.worker}.{self._slice_count}"
        chance = random.Random(f"{seed}/group-damage")
        counts = self._context.tally.row(f"{self._part}/files")
        begun = time.monotonic()
        self._context.current.set("making an intact group")
        intact = _make_intact_group(self._context.scratch / "sound", chance)
        counts.runs += 1
        tried: set[bytes] = set()
        for number in range(_STATES_PER_SLICE):
            name, data = _changed(intact, chance)
            key = hashlib.blake2b(data + name.encode()).digest()
            if key in tried or data == intact.files[name]:
                continue
            tried.add(key)
            self._context.current.set(f"change {number} of the intact group with seed {seed}: {name}")
            counts.states += 1
            wrong = _check(intact, name, data, self._context.scratch)
            if wrong:
                self._violation(f"{self._part}-{seed}-{number}", intact, name, data, wrong)
            if self._context.done:
                break
            self._context.report_tally()
        counts.seconds += time.monotonic() - begun
        self._context.report_tally()

    def _violation(self, label: str, intact: IntactGroup, name: str, data: bytes, wrong: list[str]) -> None:
        def keep(folder: Path) -> None:
            files = {path: None if each is None else _text(each) for path, each in intact.files.items()}
            about = {
                "part": self._part,
                "changed": name,
                "data": _text(data),
                "files": files,
                "seats": intact.seats,
                "marks": intact.marks,
            }
            (folder / "part.json").write_text(json.dumps(about))
            build({**intact.files, name: data}, folder / "state")

        self._context.violation(f"{self._part}/files", label, [f"{name}: {line}" for line in wrong], keep)


def replay(system: object, part: str, folder: Path, scratch: Path) -> list[str]:
    """Check one saved change again and return the violations."""
    about = json.loads((folder / "part.json").read_text())
    files = {path: None if each is None else base64.b64decode(each) for path, each in about["files"].items()}
    intact = IntactGroup(files, about["seats"], [tuple(each) for each in about["marks"]])
    name = about["changed"]
    return [f"{name}: {line}" for line in _check(intact, name, base64.b64decode(about["data"]), scratch)]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class _Marks(list[Values]):
    """Collects marks."""

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Add a mark."""
        self.append(values_of(mark))


def _make_intact_group(path: Path, chance: random.Random) -> IntactGroup:
    """Make a log and a group, whose log has several files or only the newest ones."""
    marks = _Marks()
    history_bytes = chance.choice((0, 1 << 20))
    for number in range(1, 1 + _PROCESSES):
        context = ProcessContext(marks, number, random.Random(f"{chance.random()}"))
        actor = GroupActor(path, context, history_bytes=history_bytes)
        for step in chance.choices([*_STEPS], [*_STEPS.values()], k=_STEP_COUNT):
            step(actor)
        actor.close()
    paths = sorted(path.rglob("*"))
    files: Tree = {
        str(each.relative_to(path)): None if each.is_dir() else each.read_bytes()
        for each in paths
        if not each.is_fifo()
    }
    seats = [str(each.relative_to(path)) for each in paths if each.is_fifo()]
    _remove(path)
    return IntactGroup(files, seats, marks)


def _changed(intact: IntactGroup, chance: random.Random) -> tuple[str, bytes]:
    logs = {
        name: data
        for name, data in intact.files.items()
        if data is not None and name.startswith(_FOLDER) and name.endswith(".dat") and "/dead/" not in name
    }
    name = chance.choice(sorted(logs))
    data = bytearray(logs[name])
    used = len(data.rstrip(b"\0"))
    if chance.random() < _FLIPS and used > _HEADER_BYTES:
        data[chance.randrange(_HEADER_BYTES, used)] ^= 1 << chance.randrange(8)
    else:
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            chance.choice(CHANGES)(data, chance, list(logs.values()))
    return name, bytes(data)


def _check(intact: IntactGroup, name: str, data: bytes, scratch: Path) -> list[str]:
    path = scratch / "damaged"
    build({**intact.files, name: data}, path)
    for seat in intact.seats:
        os.mkfifo(path / seat)
    try:
        return _use(path, intact.expectation())
    except Exception as failure:  # noqa: BLE001 - whatever the group raises is the result
        return [error_text(failure)]
    finally:
        _remove(path)


def _use(path: Path, expected: Expectation) -> list[str]:
    """Use the group, repair its log, and use it again; return the violations."""
    found: set[Identity] = set()
    wrong: list[str] = []
    with suppress(BinlogError):
        binlog.check(path)
    try:
        deliver_to(path, found)
        wrong += _missing(path, expected, found, "in spite of the damage")
    except BinlogError:
        pass  # it was refused
    folder = path / _FOLDER
    try:
        binlog.repair(folder)
        deliver_to(path, found)
        wrong += _missing(path, expected, found, "after the repair")
    except BinlogError:
        pass
    return wrong


def _missing(path: Path, expected: Expectation, found: set[Identity], when: str) -> list[str]:
    dead = {letter.message for letter in all_letters(path)}
    lost = sorted(expected.durable - set(expected.acked) - dead - found)
    return [f"{message} was not acknowledged, and did not come {when}" for message in lost]


def _remove(path: Path) -> None:
    shutil.rmtree(path)
    forget_shared_memory()
