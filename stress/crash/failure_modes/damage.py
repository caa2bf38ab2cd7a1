"""Damage: flip, cut, overwrite, repeat, splice and swap bytes of intact logs.

Whatever was changed, these hold:
- Only binlog's errors are raised, nothing crashes, and every call returns.
- Every record before the first change is read correctly; in the changed file, by a reader that does not verify.
- If only a header was changed, every record that is read is correct, and either all are read or there is an error.
  This does not hold for logs that other programs write too, because nothing vouches for their tail.
- If a writer accepts the log, its appends are read back, unless `check` reports a problem; for a log that other
  programs write too, unless `check` reported one before the append: an appended record may complete a record that the
  tail cuts.

A reader that does not verify returns a changed body with an intact length as it is: only the index vouches for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import binlog
from binlog import Entry, Reader, Ref, Writer
from binlog.errors import BinlogError
from binlog.format.log_header import LOG_HEADER, Flag
from stress.crash.disk_model.disk import Tree
from stress.crash.marks import forget_shared_memory
from stress.crash.recording import build
from stress.crash.records import record_bytes
from stress.crash.systems.log.actor import PREPARE_BYTES
from stress.crash.systems.log.jpos import peer_file
from stress.crash.systems.log.system import LOCK_SECONDS
from stress.crash.workers.context import Context

_HEADER_BYTES = 256
_STATES_PER_SLICE = 400
_RECORD_BYTES_MAX = 1 << 20  # so that a changed length does not make the reader allocate gigabytes
_APPENDED = b"appended to a damaged log"

Change = Callable[[bytearray, random.Random, list[bytes]], None]


@dataclass(frozen=True)
class IntactLog:
    """A log with nothing wrong: its files by name, and its entries."""

    files: dict[str, bytes]
    entries: list[Entry]


def _place(data: bytearray, chance: random.Random) -> int:
    """Return a random offset, most often in or near the header, because changes there do the most harm."""
    return chance.randrange(min(len(data), chance.choice((_HEADER_BYTES, 600, 1 << 20))) or 1)


def flip(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """Flip one bit."""
    if data:
        data[_place(data, chance)] ^= 1 << chance.randrange(8)


def cut_out(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """Cut out a few bytes, so that the rest moves up."""
    at = _place(data, chance)
    del data[at : at + chance.randint(1, 300)]


def cut_off(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """Cut off the end."""
    del data[_place(data, chance) :]


def overwrite(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """Overwrite a few bytes with random bytes, zeros or ones."""
    at, count = _place(data, chance), chance.randint(1, 24)
    piece = chance.choice((chance.randbytes(count), bytes(count), b"\xff" * count))
    data[at : at + count] = piece[: len(data) - at]


def repeat(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """Insert a copy of one part of the file at another offset."""
    start, at = _place(data, chance), _place(data, chance)
    data[at:at] = data[start : start + chance.randint(1, 600)]


def splice(data: bytearray, chance: random.Random, others: list[bytes]) -> None:
    """Replace a part by bytes of another file."""
    other = chance.choice(others)
    at = _place(data, chance)
    data[at : at + 512] = other[at : at + chance.choice((8, 64, 512))]


def swap(data: bytearray, chance: random.Random, others: list[bytes]) -> None:
    """Replace the whole by another file."""
    data[:] = chance.choice(others)


CHANGES: tuple[Change, ...] = (flip, flip, flip, cut_out, cut_off, overwrite, overwrite, repeat, splice, swap)


class Damage:
    """Makes intact logs, and changes each in many ways."""

    def __init__(self, context: Context, system: object, part: str) -> None:
        self._context = context
        self._slice_count = 0

    def run_slice(self) -> None:
        """Make one intact log and check many changes of it."""
        self._slice_count += 1
        seed = f"{self._context.job.seed}.{self._context.job.worker}.{self._slice_count}"
        chance = random.Random(f"{seed}/damage")
        counts = self._context.tally.row("damage/files")
        begun = time.monotonic()
        self._context.current.set("making an intact log")
        intact = _make_intact_log(self._context.scratch / "sound", chance)
        counts.runs += 1
        tried: set[bytes] = set()
        for number in range(_STATES_PER_SLICE):
            name, data = _changed(intact, chance)
            key = hashlib.blake2b(data + name.encode()).digest()
            if key in tried or data == intact.files[name]:
                continue
            tried.add(key)
            self._context.current.set(f"change {number} of the intact log with seed {seed}: {name}")
            counts.states += 1
            wrong = _check(intact, name, data, self._context.scratch)
            if wrong:
                self._violation(f"damage-{seed}-{number}", intact, name, data, wrong)
            if self._context.done:
                break
        counts.seconds += time.monotonic() - begun
        self._context.report_tally()

    def _violation(self, label: str, intact: IntactLog, name: str, data: bytes, wrong: list[str]) -> None:
        def keep(folder: Path) -> None:
            entries = [[entry.ref.number, entry.ref.offset, _text(entry.data)] for entry in intact.entries]
            files = {file: _text(content) for file, content in intact.files.items()}
            about = {"part": "damage", "changed": name, "data": _text(data), "entries": entries, "files": files}
            (folder / "part.json").write_text(json.dumps(about))
            build({**intact.files, name: data}, folder / "state")

        self._context.violation("damage/files", label, wrong, keep)


def replay(system: object, part: str, folder: Path, scratch: Path) -> list[str]:
    """Check one saved change again and return the violations."""
    about = json.loads((folder / "part.json").read_text())
    entries = [Entry(Ref(number, offset), _bytes(data)) for number, offset, data in about["entries"]]
    intact = IntactLog({name: _bytes(data) for name, data in about["files"].items()}, entries)
    return _check(intact, about["changed"], _bytes(about["data"]), scratch)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _make_intact_log(log: Path, chance: random.Random) -> IntactLog:
    """Make a log of one to three files; sometimes jPOS's rules apply to the first."""
    log.mkdir()
    if chance.random() < 0.25:
        peer_file(log, 1, chance.randint(0, 3))
    count = 0
    with Writer(log, prepare_bytes=PREPARE_BYTES) as writer:
        for file in range(chance.randint(1, 3)):
            if file:
                writer.cutover()
            for _ in range(chance.randint(0, 3)):
                sizes = [chance.choice((0, 0, chance.randint(16, 4000))) for _ in range(chance.randint(1, 3))]
                records = [record_bytes(0, index, size) for index, size in enumerate(sizes, count)]
                count += len(records)
                writer.append_many(records)
    with Reader(log) as reader:
        intact = IntactLog({path.name: path.read_bytes() for path in sorted(log.iterdir())}, list(reader))
    shutil.rmtree(log)
    forget_shared_memory()
    return intact


def _changed(intact: IntactLog, chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice([name for name in intact.files if name.endswith(".dat")])
    data = bytearray(intact.files[name])
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(data, chance, list(intact.files.values()))
    return name, bytes(data)


def _check(intact: IntactLog, name: str, data: bytes, scratch: Path) -> list[str]:
    log = scratch / "damaged"
    tree: Tree = {**intact.files, name: data}
    build(tree, log)
    try:
        found, error = _read(log, verify=True)
        unverified, _ = _read(log, verify=False)
        wrong = _compare(intact, name, data, found, unverified, error)
        _use(log)
    except Exception as failure:  # noqa: BLE001 - whatever the log raises is the result
        return [f"not one of binlog's errors: {type(failure).__name__}: {failure}"]
    else:
        return wrong + _append(log, intact.files[name])
    finally:
        shutil.rmtree(log)
        forget_shared_memory()


def _read(log: Path, *, verify: bool) -> tuple[dict[Ref, bytes], BinlogError | None]:
    found: dict[Ref, bytes] = {}
    try:
        with Reader(log, record_bytes_max=_RECORD_BYTES_MAX, verify=verify) as reader:
            for entry in reader:
                found[entry.ref] = entry.data
    except BinlogError as error:
        return found, error
    return found, None


def _compare(
    intact: IntactLog,
    name: str,
    data: bytes,
    found: dict[Ref, bytes],
    unverified: dict[Ref, bytes],
    error: BinlogError | None,
) -> list[str]:
    """Return the violations in the records that were read.

    A reader that verifies withholds all records of a damaged range, because a CRC does not say which one is damaged.
    So the records before the change in the same file are compared with a reader that does not verify.
    """
    before, number = intact.files[name], int(name.partition(".")[0])
    both = min(len(data), len(before))
    changed_at = next((at for at in range(both) if data[at] != before[at]), both)
    first_body = _HEADER_BYTES if any(before[24:248]) else 248
    wrong = []
    for entry in intact.entries:
        earlier = entry.ref.number < number
        ends = entry.ref.offset + 4 + len(entry.data)
        untouched = entry.ref.number == number and changed_at >= first_body and ends <= changed_at
        if (earlier and found.get(entry.ref) != entry.data) or (
            (earlier or untouched) and unverified.get(entry.ref) != entry.data
        ):
            wrong.append(f"the record at {entry.ref} is before the change at {number}:{changed_at}, and is not read")
    if changed_at < first_body and data[first_body:] == before[first_body:] and not _shared_with_others(before):
        right = {entry.ref: entry.data for entry in intact.entries}
        wrong += [f"a record that was never written is read at {ref}" for ref in found if found[ref] != right.get(ref)]
        if error is None and len(found) < len(right):
            wrong.append(f"{len(found)} of {len(right)} records are read, and there is no error")
    return wrong


def _shared_with_others(header: bytes) -> bool:
    """Whether other programs write this log too: they move only the tail, so nothing vouches for it."""
    flags = LOG_HEADER.offset("flags")
    return not any(header[24:248]) or bool(int.from_bytes(header[flags : flags + 2], "big") & Flag.FOREIGN_WRITERS)


def _use(log: Path) -> None:
    """Call the other functions that open a log; they may raise only binlog's errors."""
    binlog.check(log)
    for use in (lambda: binlog.stat(log), lambda: Reader(log, Ref(1, 265)), lambda: Reader(log, Ref(2, 256))):
        try:
            use()
        except (BinlogError, ValueError):
            continue


def _append(log: Path, header: bytes) -> list[str]:
    reported = _shared_with_others(header) and binlog.check(log) != []
    try:
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            ref = writer.append(_APPENDED)
            writer.cutover()
    except BinlogError:
        return []
    except Exception as error:  # noqa: BLE001 - as above
        return [f"appending: not one of binlog's errors: {type(error).__name__}: {error}"]
    found, error_read = _read(log, verify=True)
    if found.get(ref) != _APPENDED and not reported and binlog.check(log) == []:
        return [f"the record appended at {ref} is not read ({error_read}), and check reports nothing"]
    return []
