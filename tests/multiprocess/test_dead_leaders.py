"""A leader that died between two system calls: its traces in shared memory are made by hand."""

from __future__ import annotations

import mmap
import os
import struct
import threading
from pathlib import Path

import pytest

from binlog import Reader, Ref, Writer
from binlog.format.log_header import LogHeader
from binlog.log.append.writable_file import WritableFile
from binlog.storage.staging_area import area_name
from tests.support.children import Child
from tests.support.logs import read_all

# native/log/staging_area.h: offsets from the beginning of the staging area, in bytes.
NOTE_STATE = 96
RINGS, RING_BYTES = 1856, 192
SETTLED = 64  # in a ring
ENTRIES, ENTRIES_BYTES = 32768, 262144
HEAD_OF_TWO = 128  # of two entries with a few bytes each
TAKEN, SLOTTED = 2, 3

RECORDS = (b"one", b"two")


# Hints, after the note.
LED, DEPUTISED = 1792, 1796


def _area(log: Path) -> mmap.mmap:
    with (log / "00000001.dat").open("rb") as file:
        uuid = file.read(48)[32:]
    with open("/dev/shm" + area_name(log.stat(), uuid), "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _two_threads(log: Path, ready: int, go: int, told: int) -> None:
    with Writer(log) as writer:
        os.write(ready, b".")
        os.read(go, 1)

        def append(record: bytes) -> None:
            ref = writer.append(record)
            os.write(told, b"%s %d %d\n" % (record, *ref))

        threads = [threading.Thread(target=append, args=(record,)) for record in RECORDS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_after_a_leader_died_while_it_reported_refs_the_rest_got_wrong_refs(log: Path) -> None:
    """The process that resolved the rest took the first of them for the first of the group."""
    ready, go, told = os.pipe(), os.pipe(), os.pipe()
    with Writer(log) as writer:
        writer.append(b"before")
        child = Child(_two_threads, log, ready[1], go[0], told[1])
        os.read(ready[0], 1)
        memory = _area(log)
        ring, entries = RINGS + RING_BYTES, ENTRIES + ENTRIES_BYTES  # the second ring is the child's

        def lead_and_die(file: WritableFile, header: LogHeader) -> None:
            os.write(go[1], b".")
            while struct.unpack_from("=Q", memory, ring)[0] < HEAD_OF_TWO:
                os.sched_yield()
            session = writer._open_session()
            file.drain(session.area, confirm=True)
            first_bytes = struct.unpack_from("=I", memory, entries + 4)[0]
            second = entries + 32 + -(-first_bytes // 32) * 32
            memory[second : second + 4] = struct.pack("=I", TAKEN)
            memory[ring + SETTLED : ring + SETTLED + 8] = bytes(8)
            memory[NOTE_STATE : NOTE_STATE + 4] = struct.pack("=I", SLOTTED)

        writer._open_session().run(lead_and_die)
        child.join()
    os.close(told[1])
    lines = os.read(told[0], 1000).splitlines()
    places = {Ref(int(number), int(offset)): record for record, number, offset in map(bytes.split, lines)}
    with Reader(log) as reader:
        assert places == {entry.ref: entry.data for entry in reader if entry.data in RECORDS}
    for fd in (*ready, *go, told[0]):
        os.close(fd)


@pytest.mark.parametrize("hints", [(LED,), (DEPUTISED,), (LED, DEPUTISED)])
def test_hints_of_dead_processes_block_no_writer(log: Path, hints: tuple[int, ...]) -> None:
    with Writer(log) as writer, Writer(log) as other:
        writer.append(b"before")
        other.append(b"so both have a ring")
        memory = _area(log)
        for hint in hints:
            memory[hint : hint + 4] = struct.pack("=I", 1)
        child = Child(lambda: _append(log, b"child"))
        assert other.append(b"here") is not None
        child.join()
        assert struct.unpack_from("=I", memory, LED)[0] == 0
    assert sorted(read_all(log)[2:]) == [b"child", b"here"]


def _append(log: Path, record: bytes) -> None:
    with Writer(log) as writer:
        writer.append(record)
