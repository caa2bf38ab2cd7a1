"""Records that jPOS appends are sealed as ours."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import binlog
from binlog import Background, Reader, Ref, Writer
from binlog.errors import SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import encode_base64
from binlog.format.seal.tree import leaf_hash
from binlog.seal import (
    Kind,
    Rule,
    Sealer,
    SigningKey,
    begin_seal,
    check_proof,
    prove,
    read_statements,
    stat_seal,
    verify,
)
from binlog.seal.folder import SealFolder
from binlog.seal.leaf_reader import LeafReader
from tests.support.logs import read_all
from tests.support.waiting import until

PEER = Path(__file__).with_name("jpos_peer.py")
KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)


def _start_peer(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, PEER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def _peer(*arguments: object) -> None:
    with _start_peer(*arguments) as peer:
        peer.communicate()
    assert peer.returncode == 0


def _seal(log: Path) -> int:
    with Sealer(log, KEY) as sealer:
        return parse_checkpoint(sealer.seal().text).size


def _check(log: Path) -> None:
    report = verify(log, VKEY)
    assert (report.findings, report.verified, report.unsealed) == ([], len(read_all(log)), 0)


def test_records_of_jpos_are_sealed_although_no_writer_of_ours_follows(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"ours")
    begin_seal(log, KEY)
    assert _seal(log) == 1
    _peer("append", log, "jpos", 3)
    assert _seal(log) == 4
    _peer("cutover", log)
    _peer("append", log, "jpos", 2)
    assert _seal(log) == 6
    _check(log)
    with Reader(log) as reader:
        for number, entry in enumerate(reader):
            proof = prove(log, entry.ref)
            assert proof.leaf_index == number
            assert check_proof(str(proof), entry.data, vkey=VKEY).size == 6


def test_a_file_that_jpos_closes_is_sealed_with_what_was_only_flushed(log: Path) -> None:
    with Writer(log, mode="flush", background=Background(sync_seconds=3600)) as writer:
        writer.append(b"synced")
        writer.sync()
        begin_seal(log, KEY)
        writer.append(b"flushed")
        assert _seal(log) == 1
        _peer("cutover", log)
        writer.append(b"in the next file")
        writer.sync()
        assert _seal(log) == 3
    _check(log)


def test_a_log_of_jpos_is_sealed_before_and_after_a_writer_of_ours(log: Path) -> None:
    log.mkdir()
    _peer("append", log, "jpos", 3)
    begin_seal(log, KEY)
    assert _seal(log) == 3
    with Writer(log) as writer:
        writer.append(b"in a file of jPOS")
        writer.cutover()
        writer.append(b"in a file of ours")
    assert _seal(log) == 5
    _check(log)


def test_another_log_in_its_place_is_still_found(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"ours")
    begin_seal(log, KEY)
    _seal(log)
    (log / "seal").rename(tmp_path / "seal")
    for path in log.iterdir():
        path.unlink()
    with Writer(log) as writer:
        writer.append(b"ours")
    (tmp_path / "seal").rename(log / "seal")
    assert [each.rule for each in verify(log, VKEY).findings] == [Rule.FORK]


def _add_late(log: Path, number: int, record: bytes) -> None:
    """Append to a closed file, as jPOS does if a cutover came after it read the status, and before it had the lock."""
    with (log / f"{number:08d}.dat").open("r+b") as file:
        tail = struct.unpack(">q", os.pread(file.fileno(), 8, 8))[0]
        os.pwrite(file.fileno(), struct.pack(">i", len(record)) + record, tail)
        os.pwrite(file.fileno(), struct.pack(">q", tail + 4 + len(record)), 8)


def test_a_late_record_that_comes_while_the_log_is_verified_is_no_difference(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"1")
        _peer("append", log, "jpos", 1)
        writer.append(b"2")
        writer.cutover()
        writer.append_many([b"3", b"4"])
    begin_seal(log, KEY)
    assert _seal(log) == 5
    with SealFolder(log) as folder:
        reader = LeafReader(str(log), folder.files(), [])
    found = []
    for part in reader.parts(Ref(1, 256), 0):
        found.append((part.batch.number, part.leaf, len(part)))
        if part.batch.number == 2:
            _add_late(log, 1, b"late")
    assert found == [(1, 0, 3), (2, 3, 2)]
    found = [(part.batch.number, part.leaf, len(part)) for part in reader.parts(Ref(1, 256), 0)]
    assert found == [(1, 0, 3), (1, None, 1), (2, 3, 2)]


@pytest.mark.slow
def test_a_late_record_is_a_finding_until_a_running_sealer_states_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"1")
        _peer("append", log, "jpos", 1)
        writer.cutover()
        writer.append(b"2")
    begin_seal(log, KEY)
    assert _seal(log) == 3
    _add_late(log, 1, b"late")
    [finding] = verify(log, VKEY).findings
    assert finding.rule is Rule.LATE
    with pytest.raises(SealError, match="was added after the next file was begun"):
        prove(log, str(finding.ref))
    stop = threading.Event()
    with Sealer(log, KEY) as sealer:
        thread = threading.Thread(target=sealer.run, args=(stop, 0.01), kwargs={"scrub": 1.0})
        thread.start()
        until(lambda: any(each.kind is Kind.LATE for each in read_statements(log, VKEY)))
        stop.set()
        thread.join()
    [statement] = [each for each in read_statements(log, VKEY) if each.kind is Kind.LATE]
    assert statement.values["ref"] == str(finding.ref)
    assert statement.values["hash"] == encode_base64(leaf_hash(b"late"))
    assert verify(log, VKEY).findings == []
    assert _seal(log) == 3
    _add_late(log, 1, b"later")
    assert [each.rule for each in verify(log, VKEY).findings] == [Rule.LATE]
    path = log / "00000001.dat"
    path.write_bytes(path.read_bytes().replace(b"late", b"l8te", 1))
    assert [each.rule for each in verify(log, VKEY).findings] == [Rule.LATE, Rule.LATE]


@pytest.mark.slow
def test_a_sealer_runs_beside_writers_and_cutovers_of_both_sides(log: Path) -> None:
    count = 200
    with Writer(log) as writer:
        writer.append(b"start")
    begin_seal(log, KEY)
    stop = threading.Event()
    raised: list[BaseException] = []

    def seal() -> None:
        try:
            with Sealer(log, KEY) as sealer:
                sealer.run(stop, 0.01)
        except BaseException as error:  # noqa: BLE001 - it fails the test below
            raised.append(error)

    thread = threading.Thread(target=seal)
    thread.start()
    peers = [_start_peer("append", log, name, count, "--cutover-every", 40) for name in ("j1", "j2")]
    with Writer(log) as writer:
        for number in range(count):
            writer.append(b"ours %d" % number)
            if number % 50 == 49:
                writer.cutover()
    for peer in peers:
        peer.communicate()
        assert peer.returncode == 0
    until(lambda: bool(raised) or stat_seal(log).size == 1 + 3 * count)
    stop.set()
    thread.join()
    assert raised == []
    assert len(binlog.stat(log).files) > 8
    _check(log)
