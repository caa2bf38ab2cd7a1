"""Files of the real jPOS BinLog, and a live directory shared with programs that follow its rules."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Reader, Ref, Start, Writer
from tests.support.workers import append_named, follow_count, run_all

PEER = Path(__file__).with_name("jpos_peer.py")

# Written by the real module (jPOS-EE, 2026-07) for one file and three records: `hello`, 1,000 bytes of 0x41, nothing.
GOLDEN_HEADER = "000000fc0001000000000000000004f10000000100000000"
GOLDEN_RECORDS = [b"hello", b"A" * 1000, b""]


def _golden(log: Path) -> Path:
    log.mkdir()
    body = b"".join(struct.pack(">i", len(record)) + record for record in GOLDEN_RECORDS)
    path = log / "00000001.dat"
    path.write_bytes(bytes.fromhex(GOLDEN_HEADER) + bytes(224) + body)
    assert path.stat().st_size == 1265
    return path


def _peer(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, PEER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def _said(peer: subprocess.Popen[str]) -> list[str]:
    out, _ = peer.communicate(timeout=120)
    assert peer.returncode == 0
    return out.splitlines()


def _peer_reads(log: Path, *arguments: object) -> list[bytes]:
    """Return the records that a jPOS reader returns, without the two empty records that it reads in the end of our
    header."""
    found = [json.loads(line) for line in _said(_peer("read", log, *arguments))]
    return [bytes.fromhex(entry["hex"]) for entry in found if entry["offset"] not in (248, 252) or entry["hex"]]


def test_a_file_of_the_real_module_is_read_exactly(log: Path) -> None:
    _golden(log)
    with Reader(log) as reader:
        entries = list(reader)
        assert [entry.data for entry in entries] == GOLDEN_RECORDS
        assert [entry.ref for entry in entries] == [Ref(1, 248), Ref(1, 257), Ref(1, 1261)]
        assert reader.next_ref == Ref(1, 1265)
    assert [entry.data for entry in Reader(log, Ref(1, 257))] == GOLDEN_RECORDS[1:]


def test_appending_to_a_file_of_the_real_module_changes_its_tail_alone(log: Path) -> None:
    path = _golden(log)
    before = path.read_bytes()
    with Writer(log) as writer:
        assert writer.append_many([b"ours", b""]) == [Ref(1, 1265), Ref(1, 1273)]
    after = path.read_bytes()
    assert after[8:16] == struct.pack(">Q", 1277)
    assert after[:8] + before[8:16] + after[16:1265] == before
    assert after[1265:1277] == b"\0\0\0\4ours\0\0\0\0"
    assert [entry.data for entry in Reader(log)] == [*GOLDEN_RECORDS, b"ours", b""]
    # Its own three empty records differ from the two that our header would give.
    assert [bytes.fromhex(json.loads(line)["hex"]) for line in _said(_peer("read", log))] == [
        *GOLDEN_RECORDS,
        b"ours",
        b"",
    ]


def test_after_a_cutover_the_real_module_can_read_its_file(log: Path) -> None:
    path = _golden(log)
    with Writer(log) as writer:
        assert writer.cutover() == 2
        writer.append(b"ours")
    assert path.read_bytes()[:24].hex() == "000000fc0001000100000000000004f10000000100000002"
    assert [entry.data for entry in Reader(log)] == [*GOLDEN_RECORDS, b"ours"]
    assert _peer_reads(log) == [*GOLDEN_RECORDS, b"ours"]
    assert binlog.stat(log).files[1].first_sequence == 3


def test_a_jpos_reader_reads_our_live_file(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        reader = _peer("read", log, "--count", 4)
        writer.append_many([b"2", b"3"])
        writer.cutover()
        writer.append(b"4")
        found = [bytes.fromhex(json.loads(line)["hex"]) for line in _said(reader)]
    assert [record for record in found if record] == [b"1", b"2", b"3", b"4"]


def test_a_jpos_writer_appends_to_our_live_file_and_our_followers_see_it(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"ours 0")
        with Reader(log, Start.END) as reader:
            refs = _said(_peer("append", log, "jpos", 3))
            assert reader.wait(60)
            assert list(reader) == [Entry(Ref.parse(ref), b"jpos %d" % index) for index, ref in enumerate(refs)]
            writer.append(b"ours 1")
            assert reader.wait(60)
            assert next(reader).data == b"ours 1"
        assert binlog.stat(log).files[0].has_foreign_writers
        assert binlog.stat(log).files[0].record_count == 5
        writer.cutover()
        assert binlog.stat(log).files[1].has_foreign_writers
        assert binlog.stat(log).files[1].first_sequence == 5


def test_a_jpos_cutover_of_our_file_is_followed(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        writer.append(b"1")
        assert _said(_peer("cutover", log)) == ["2"]
        assert writer.append(b"2") == Ref(2, 248)
        assert writer.cutover() == 3
        assert writer.append(b"3") == Ref(3, 256)
        assert [entry.data for entry in reader] == [b"1", b"2", b"3"]
    assert _peer_reads(log) == [b"1", b"2", b"3"]


def _names(count: int, *writers: str) -> Counter[bytes]:
    return Counter(f"{writer} {index}".encode() for writer in writers for index in range(count))


def _in_order(records: list[bytes], *writers: str) -> None:
    for writer in writers:
        own = [int(record.split()[1]) for record in records if record.split()[0] == writer.encode()]
        assert own == sorted(own), f"{writer}'s records are out of order"


@pytest.mark.slow
def test_four_of_ours_and_two_of_theirs_share_a_live_directory(log: Path) -> None:
    """Cutovers and followers of both sides: nothing lost, nothing twice, each writer's records in order."""
    count, ours, theirs = 200, ["o1", "o2", "o3", "o4"], ["j1", "j2"]
    log.mkdir()
    with Writer(log) as writer:
        writer.append(b"start 0")
    total = 1 + count * 6
    peers = [_peer("append", log, name, count, "--cutover-every", 40) for name in theirs]
    their_reader = _peer("read", log, "--count", total)
    results = run_all(
        "spawn",
        [(append_named, (log, name, count, 50)) for name in ours] + [(follow_count, (log, total)) for _ in range(2)],
    )
    refs = dict(zip(ours, results, strict=False))
    for name, peer in zip(theirs, peers, strict=True):
        refs[name] = [Ref.parse(line) for line in _said(peer)]
    expected = _names(count, *ours, *theirs) + Counter([b"start 0"])
    with Reader(log) as reader:
        entries = list(reader)
    records = [entry.data for entry in entries]
    assert Counter(records) == expected
    _in_order(records, *ours, *theirs)
    kept = {entry.ref: entry.data for entry in entries}
    for name, own in refs.items():
        assert [kept[ref] for ref in own] == [f"{name} {index}".encode() for index in range(count)]
    for followed in results[len(ours) :]:
        assert followed == records
    found = [bytes.fromhex(json.loads(line)["hex"]) for line in _said(their_reader)]
    assert [record for record in found if record] == records
    kinds = {file.first_offset for file in binlog.stat(log).files}
    assert kinds == {248, 256}


@pytest.mark.slow
def test_records_that_jpos_adds_to_a_file_just_closed_reach_a_follower(tmp_path: Path) -> None:
    """The module reads the status before it takes the lock, so that a cutover may come in between."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"1")
        _said(_peer("append", log, "jpos", 1))  # makes the log one with foreign writers
        reader = Reader(log)
        writer.append(b"2")
        peer: list[subprocess.Popen[str]] = []

        def start_peer_under_our_lock() -> None:
            # The peer finds the file open, and waits for the lock that the cutover holds.
            peer.append(_peer("append", log, "late", 1, "--status-before-lock"))
            _until_waiting(peer[0].pid)

        original = writer._open_session()._cutover.run
        writer._open_session()._cutover.run = lambda *given: (start_peer_under_our_lock(), original(*given))[1]  # type: ignore[method-assign]
        assert writer.cutover() == 2
        assert _said(peer[0])[0].startswith("1:")
        writer.append(b"3")
        found = [entry.data for entry in reader.tail(timeout=1)]
    assert sorted(found) == [b"1", b"2", b"3", b"jpos 0", b"late 0"]
    assert [entry.data for entry in Reader(log)] == [b"1", b"jpos 0", b"2", b"late 0", b"3"]
    assert [problem.rule for problem in binlog.check(log)] == ["late"]


def _until_waiting(process: int) -> None:
    """Wait until the process waits for a lock: the kernel lists it under the lock's line, after an arrow."""
    done = threading.Event()
    threading.Timer(60, done.set).start()
    while not done.is_set():
        for line in Path("/proc/locks").read_text().splitlines():
            if "->" in line and line.split()[5] == str(process):
                return
        os.sched_yield()
    raise AssertionError("the peer did not wait for the lock")
