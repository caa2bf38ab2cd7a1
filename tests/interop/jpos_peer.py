"""A reader and a writer that follow the rules of the jPOS-EE binlog module, and share no code with the package.

They are used instead of Java processes. The rules are those that the module was seen to follow:

1. Big-endian. A new file has 256 bytes: length word 252, version 1, status, tail 248, number, next number 0, zeros. The
   first record is at 248. There is no magic.
2. The header's tail is the offset of the next record, whatever bytes follow it. A record is a 4-byte length and its
   bytes.
3. An append follows the chain of next numbers to the open file, locks all of it (F_SETLKW from 0 without end), reads
   the tail, writes the record, reads the tail, writes the 8 bytes of the tail, syncs once, unlocks.
4. A cutover, under the same lock, makes the next file under a temporary name and then names it, writes the next number
   at 20, then the status at 6, and syncs once.
5. A reader takes no lock. It moves from a closed file to the next by number.

If the module is wrong, this is right, except with these options: `--status-before-lock` appends to a file that was
closed between the check and the lock; `--rename-replaces` replaces an existing file by a new one; `--stale-tail` lets a
reader leave a closed file without reading its tail again.

A classic lock belongs to the process and is released when any descriptor of its file is closed. So this is a program:
one writer or one reader a process.

`--poll` requests the lock again and again (F_SETLK) for 5 s, and never queues for it; `--waits` prints how long each
append waited for its lock, in ns, instead of its ref.

    python jpos_peer.py append DIR WRITER COUNT   records "WRITER 0", "WRITER 1", ...; prints each ref after its sync
    python jpos_peer.py cutover DIR               prints the number of the open file
    python jpos_peer.py read DIR                  JSON lines: number, offset, hex
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

OPEN, CLOSED, FIRST_OFFSET = 0, 1, 248
Record = tuple[int, int, bytes]  # number, offset, data


def path_of(directory: Path, number: int) -> Path:
    return directory / f"{number:08d}.dat"


def numbers_in(directory: Path) -> list[int]:
    return sorted(int(name[:8]) for name in os.listdir(directory) if re.fullmatch(r"\d{8}\.dat", name))


def field(fd: int, offset: int, form: str) -> int:
    return int(struct.unpack(form, os.pread(fd, struct.calcsize(form), offset))[0])


def status_of(fd: int) -> int:
    return field(fd, 6, ">H")


def tail_of(fd: int) -> int:
    return field(fd, 8, ">q")


def open_file(directory: Path, number: int, flags: int) -> int:
    fd = os.open(path_of(directory, number), flags)
    if field(fd, 0, ">i") != 252:
        raise ValueError(f"{path_of(directory, number)} is no log file")
    return fd


def create_file(directory: Path, number: int, *, replace: bool) -> None:
    path = path_of(directory, number)
    temporary = path.with_name(f"{path.name}-{os.urandom(4).hex()}.tmp")
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_SYNC)
    os.pwrite(fd, struct.pack(">iHHqii", 252, 1, OPEN, FIRST_OFFSET, number, 0).ljust(256, b"\0"), 0)
    os.close(fd)
    if replace:
        os.rename(temporary, path)
        return
    with contextlib.suppress(FileExistsError):  # another process was faster, and its file is used
        os.link(temporary, path)
    os.unlink(temporary)


class Writer:
    def __init__(
        self,
        directory: Path,
        *,
        status_before_lock: bool = False,
        rename_replaces: bool = False,
        poll_seconds: float | None = None,
    ) -> None:
        self.directory = directory
        self.poll_seconds = poll_seconds
        self.waited_ns = 0
        self.status_before_lock = status_before_lock
        self.rename_replaces = rename_replaces
        self.fd = -1
        numbers = numbers_in(directory)
        for self.number in reversed(numbers):  # starts at the highest that is closed, otherwise at the lowest, or at 1
            self.move_to(self.number)
            if status_of(self.fd) == CLOSED:
                break
        if not numbers:
            self.move_to(1)

    def move_to(self, number: int) -> None:
        if not path_of(self.directory, number).exists():
            create_file(self.directory, number, replace=self.rename_replaces)
        self.close()
        self.number, self.fd = number, open_file(self.directory, number, os.O_RDWR)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def lock_open_file(self) -> None:
        while True:
            while status_of(self.fd) == CLOSED:
                following = field(self.fd, 20, ">i")
                if following <= self.number:
                    raise ValueError(f"circular reference: {self.number} to {following}")
                self.move_to(following)
            self.lock()
            if self.status_before_lock or status_of(self.fd) == OPEN:
                return
            fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def lock(self) -> None:
        start_ns = time.monotonic_ns()
        if self.poll_seconds is None:
            fcntl.lockf(self.fd, fcntl.LOCK_EX)
        else:
            while not self.tried():
                self.waited_ns = time.monotonic_ns() - start_ns
                if self.waited_ns > 5e9:
                    raise TimeoutError("no lock within 5 s")
                time.sleep(self.poll_seconds)
        self.waited_ns = time.monotonic_ns() - start_ns

    def tried(self) -> bool:
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def append(self, data: bytes) -> tuple[int, int]:
        self.lock_open_file()
        offset = tail_of(self.fd)
        os.pwrite(self.fd, struct.pack(">i", len(data)) + data, offset)
        os.pwrite(self.fd, struct.pack(">q", tail_of(self.fd) + 4 + len(data)), 8)
        os.fdatasync(self.fd)
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        return self.number, offset

    def cutover(self) -> int:
        self.lock_open_file()
        if status_of(self.fd) != OPEN:
            raise ValueError(f"{self.number} is closed already")
        create_file(self.directory, self.number + 1, replace=self.rename_replaces)
        os.pwrite(self.fd, struct.pack(">i", self.number + 1), 20)
        os.pwrite(self.fd, struct.pack(">H", CLOSED), 6)
        os.fdatasync(self.fd)
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        self.move_to(self.number + 1)
        return self.number


def read(directory: Path, start: tuple[int, int] | None, *, stale_tail: bool = False) -> Iterator[Record | None]:
    """Yield the records from `start` or the lowest file on, and None whenever there are no more for now."""
    while not (start or numbers_in(directory)):
        yield None
    number, offset = start or (numbers_in(directory)[0], FIRST_OFFSET)
    while True:
        while not path_of(directory, number).exists():
            yield None
        fd = open_file(directory, number, os.O_RDONLY)
        for entry in read_file(fd, offset, stale_tail=stale_tail):
            yield None if entry is None else (number, *entry)
        os.close(fd)
        number, offset = number + 1, FIRST_OFFSET


def read_file(fd: int, offset: int, *, stale_tail: bool) -> Iterator[tuple[int, bytes] | None]:
    closed = False
    while True:
        end = tail_of(fd)
        while offset < end:
            size = field(fd, offset, ">i")
            yield offset, os.pread(fd, size, offset + 4)
            offset += 4 + size
        if closed:
            return
        closed = status_of(fd) == CLOSED
        if closed and stale_tail:
            return
        if not closed:
            yield None


def append_many(
    writer: Writer, name: str, count: int, cutover_every: int, *, waits: bool, pause_seconds: float
) -> None:
    for index in range(count):
        time.sleep(pause_seconds)
        number, offset = writer.append(f"{name} {index}".encode())
        print(writer.waited_ns if waits else f"{number}:{offset}", flush=True)
        if cutover_every and (index + 1) % cutover_every == 0:
            writer.cutover()


def print_records(records: Iterator[Record | None], count: int | None) -> None:
    """Print records to the present end; with `count`, until that many non-empty ones were printed."""
    found = 0
    while count is None or found < count:
        entry = next(records)
        if entry is not None:
            number, offset, data = entry
            print(json.dumps({"number": number, "offset": offset, "hex": data.hex()}), flush=True)
            found += bool(data)
        elif count is None:
            return
        else:
            time.sleep(0.001)  # it polls: nothing wakes a reader in another process


def ref(text: str) -> tuple[int, int]:
    number, offset = text.split(":")
    return int(number), int(offset)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("append", "cutover", "read"):
        commands.add_parser(name).add_argument("directory", type=Path)
    for name in ("append", "cutover"):
        commands.choices[name].add_argument("--status-before-lock", action="store_true")
        commands.choices[name].add_argument("--rename-replaces", action="store_true")
    commands.choices["append"].add_argument("writer")
    commands.choices["append"].add_argument("count", type=int)
    commands.choices["append"].add_argument("--poll", type=float, metavar="SECONDS")
    commands.choices["append"].add_argument("--pause", type=float, default=0, metavar="SECONDS", help="before each")
    commands.choices["append"].add_argument("--waits", action="store_true")
    commands.choices["append"].add_argument("--cutover-every", type=int, default=0, metavar="COUNT")
    commands.choices["read"].add_argument("--start", type=ref, metavar="NUMBER:OFFSET")
    commands.choices["read"].add_argument("--count", type=int, help="go on until so many that are not empty are read")
    commands.choices["read"].add_argument("--stale-tail", action="store_true")
    given = parser.parse_args()
    if given.command == "read":
        print_records(read(given.directory, given.start, stale_tail=given.stale_tail), given.count)
        return
    writer = Writer(
        given.directory,
        status_before_lock=given.status_before_lock,
        rename_replaces=given.rename_replaces,
        poll_seconds=getattr(given, "poll", None),
    )
    if given.command == "append":
        append_many(
            writer, given.writer, given.count, given.cutover_every, waits=given.waits, pause_seconds=given.pause
        )
    else:
        print(writer.cutover())


if __name__ == "__main__":
    main()
