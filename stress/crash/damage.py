"""Damage: the bytes of sound logs are flipped, cut, overwritten, repeated, spliced and swapped.

What is held, whatever was changed:
- Nothing but errors of binlog, no crash, and an end.
- Every record that lies before the first change is read, and right.
- Where only a header was changed, whatever is read is right, and all of it is read or there is an error; but for logs
  that other programs write too, whose tail nothing vouches for.
- A log that a writer still accepts shows what was then appended, unless `check` tells that something is wrong; or told
  it before, of a log that others write too: what is appended may be just what a record lacks that its tail cuts.

Changed bytes of a record with its length as it was are read as they are: nothing in a log file vouches for them.
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
from stress.crash.context import Context
from stress.crash.disk import Tree
from stress.crash.marks import forget_shared_memory
from stress.crash.recording import build
from stress.crash.records import record_bytes
from stress.crash.systems.jpos import peer_file
from stress.crash.systems.log import LOCK_SECONDS
from stress.crash.systems.log_actor import PREPARE_BYTES

_HEADER_BYTES = 256
_STATES_A_TURN = 400
_RECORD_BYTES_MAX = 1 << 20  # a length that was changed must not make the reader ask for gigabytes
_APPENDED = b"appended to a damaged log"

Change = Callable[[bytearray, random.Random, list[bytes]], None]


@dataclass(frozen=True)
class Sound:
    """A log in which nothing is wrong: its files by name, and what lies where in it."""

    files: dict[str, bytes]
    entries: list[Entry]


def _place(data: bytearray, chance: random.Random) -> int:
    """Most often in the header or near it, where the most can go wrong."""
    return chance.randrange(min(len(data), chance.choice((_HEADER_BYTES, 600, 1 << 20))) or 1)


def flip(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """One bit."""
    if data:
        data[_place(data, chance)] ^= 1 << chance.randrange(8)


def cut_out(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """A few bytes, what follows moving up."""
    at = _place(data, chance)
    del data[at : at + chance.randint(1, 300)]


def cut_off(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """The end."""
    del data[_place(data, chance) :]


def overwrite(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """A few bytes by others, by zeros or by ones."""
    at, count = _place(data, chance), chance.randint(1, 24)
    piece = chance.choice((chance.randbytes(count), bytes(count), b"\xff" * count))
    data[at : at + count] = piece[: len(data) - at]


def repeat(data: bytearray, chance: random.Random, _: list[bytes]) -> None:
    """A part of the file once more, in another place."""
    start, at = _place(data, chance), _place(data, chance)
    data[at:at] = data[start : start + chance.randint(1, 600)]


def splice(data: bytearray, chance: random.Random, others: list[bytes]) -> None:
    """A part of another file in place of this one's."""
    other = chance.choice(others)
    at = _place(data, chance)
    data[at : at + 512] = other[at : at + chance.choice((8, 64, 512))]


def swap(data: bytearray, chance: random.Random, others: list[bytes]) -> None:
    """Another file as a whole."""
    data[:] = chance.choice(others)


CHANGES: tuple[Change, ...] = (flip, flip, flip, cut_out, cut_off, overwrite, overwrite, repeat, splice, swap)


class Damage:
    """Makes sound logs, and changes each in many ways."""

    def __init__(self, context: Context, system: object, part: str) -> None:
        self._context = context
        self._turns = 0

    def turn(self) -> None:
        """One sound log and its changes."""
        self._turns += 1
        seed = f"{self._context.job.seed}.{self._context.job.worker}.{self._turns}"
        chance = random.Random(f"{seed}/damage")
        counts = self._context.tally.row("damage/files")
        begun = time.monotonic()
        self._context.current.set("making a sound log")
        sound = _make_sound(self._context.scratch / "sound", chance)
        counts.runs += 1
        tried: set[bytes] = set()
        for number in range(_STATES_A_TURN):
            name, data = _changed(sound, chance)
            key = hashlib.blake2b(data + name.encode()).digest()
            if key in tried or data == sound.files[name]:
                continue
            tried.add(key)
            self._context.current.set(f"change {number} of the sound log with seed {seed}: {name}")
            counts.states += 1
            wrong = _judge(sound, name, data, self._context.scratch)
            if wrong:
                self._violation(f"damage-{seed}-{number}", sound, name, data, wrong)
            if self._context.done:
                break
        counts.seconds += time.monotonic() - begun
        self._context.tell()

    def _violation(self, label: str, sound: Sound, name: str, data: bytes, wrong: list[str]) -> None:
        def keep(folder: Path) -> None:
            entries = [[entry.ref.number, entry.ref.offset, _text(entry.data)] for entry in sound.entries]
            files = {file: _text(content) for file, content in sound.files.items()}
            about = {"part": "damage", "changed": name, "data": _text(data), "entries": entries, "files": files}
            (folder / "part.json").write_text(json.dumps(about))
            build({**sound.files, name: data}, folder / "state")

        self._context.violation("damage/files", label, wrong, keep)


def replay(system: object, part: str, folder: Path, scratch: Path) -> list[str]:
    """Judge one kept change again; what is wrong with it."""
    about = json.loads((folder / "part.json").read_text())
    entries = [Entry(Ref(number, offset), _bytes(data)) for number, offset, data in about["entries"]]
    sound = Sound({name: _bytes(data) for name, data in about["files"].items()}, entries)
    return _judge(sound, about["changed"], _bytes(about["data"]), scratch)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _make_sound(log: Path, chance: random.Random) -> Sound:
    """One to three files; now and then the first is jPOS's."""
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
        sound = Sound({path.name: path.read_bytes() for path in sorted(log.iterdir())}, list(reader))
    shutil.rmtree(log)
    forget_shared_memory()
    return sound


def _changed(sound: Sound, chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice([name for name in sound.files if name.endswith(".dat")])
    data = bytearray(sound.files[name])
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(data, chance, list(sound.files.values()))
    return name, bytes(data)


def _judge(sound: Sound, name: str, data: bytes, scratch: Path) -> list[str]:
    log = scratch / "damaged"
    tree: Tree = {**sound.files, name: data}
    build(tree, log)
    try:
        found, error = _read(log, verify=True)
        unverified, _ = _read(log, verify=False)
        wrong = _compare(sound, name, data, found, unverified, error)
        _use(log)
    except Exception as failure:  # noqa: BLE001 - whatever the log raises is what is to be told
        return [f"an error that is none of binlog's: {type(failure).__name__}: {failure}"]
    else:
        return wrong + _append(log, sound.files[name])
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
    sound: Sound,
    name: str,
    data: bytes,
    found: dict[Ref, bytes],
    unverified: dict[Ref, bytes],
    error: BinlogError | None,
) -> list[str]:
    """What is wrong with what was read.

    A reader that verifies withholds all records of a damaged range, whose CRC does not tell which one is damaged.  So
    those before the change in its own file are asked of one that does not verify.
    """
    before, number = sound.files[name], int(name.partition(".")[0])
    both = min(len(data), len(before))
    changed_at = next((at for at in range(both) if data[at] != before[at]), both)
    first_body = _HEADER_BYTES if any(before[24:248]) else 248
    wrong = []
    for entry in sound.entries:
        earlier = entry.ref.number < number
        ends = entry.ref.offset + 4 + len(entry.data)
        untouched = entry.ref.number == number and changed_at >= first_body and ends <= changed_at
        if (earlier and found.get(entry.ref) != entry.data) or (
            (earlier or untouched) and unverified.get(entry.ref) != entry.data
        ):
            wrong.append(f"the record at {entry.ref} lies before the change at {number}:{changed_at}, and is not read")
    if changed_at < first_body and data[first_body:] == before[first_body:] and not _shared_with_others(before):
        right = {entry.ref: entry.data for entry in sound.entries}
        wrong += [f"a record that was never there is read at {ref}" for ref in found if found[ref] != right.get(ref)]
        if error is None and len(found) < len(right):
            wrong.append(f"{len(found)} of {len(right)} records are read, and there is no error")
    return wrong


def _shared_with_others(header: bytes) -> bool:
    """Whether other programs write here too: they move the tail alone, so nothing can vouch for it."""
    flags = LOG_HEADER.offset("flags")
    return not any(header[24:248]) or bool(int.from_bytes(header[flags : flags + 2], "big") & Flag.FOREIGN_WRITERS)


def _use(log: Path) -> None:
    """Whatever else looks at a log may raise binlog's errors alone."""
    binlog.check(log)
    for use in (lambda: binlog.stat(log), lambda: Reader(log, Ref(1, 265)), lambda: Reader(log, Ref(2, 256))):
        try:
            use()
        except (BinlogError, ValueError):
            continue


def _append(log: Path, header: bytes) -> list[str]:
    told = _shared_with_others(header) and binlog.check(log) != []
    try:
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            ref = writer.append(_APPENDED)
            writer.cutover()
    except BinlogError:
        return []
    except Exception as error:  # noqa: BLE001 - as above
        return [f"appending: an error that is none of binlog's: {type(error).__name__}: {error}"]
    found, error_read = _read(log, verify=True)
    if found.get(ref) != _APPENDED and not told and binlog.check(log) == []:
        return [f"what was appended at {ref} is not read ({error_read}), and check is silent"]
    return []
