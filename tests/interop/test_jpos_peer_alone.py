"""The jPOS peer, tested alone, because the interop tests rely on it."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.interop import jpos_peer

# The file that the jPOS-EE module (2026-07) leaves after writing "hello", 1,000 times 0x41 and an empty record.
_GOLDEN_RECORDS = [b"hello", b"A" * 1000, b""]
_GOLDEN_HEADER = bytes.fromhex("000000fc 0001 0000 00000000000004f1 00000001 00000000")
_GOLDEN = b"".join(
    [_GOLDEN_HEADER.ljust(248, b"\0"), b"\0\0\0\x05hello", b"\0\0\x03\xe8" + b"A" * 1000, b"\0\0\0\0"],
)


def _command(*arguments: object) -> list[str]:
    return [sys.executable, jpos_peer.__file__, *map(str, arguments)]


def _run(*arguments: object) -> str:
    done = subprocess.run(_command(*arguments), stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode()


def _start(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(_command(*arguments), stdout=subprocess.PIPE)


def _parse(lines: str) -> list[jpos_peer.Record]:
    entries = [json.loads(line) for line in lines.splitlines()]
    return [(entry["number"], entry["offset"], bytes.fromhex(entry["hex"])) for entry in entries]


def _records(directory: Path, start: tuple[int, int] | None = None) -> list[jpos_peer.Record]:
    found = []
    for entry in jpos_peer.read(directory, start):
        if entry is None:
            break
        found.append(entry)
    return found


# --- bytes


def test_it_writes_the_same_bytes_as_the_module(tmp_path: Path) -> None:
    writer = jpos_peer.Writer(tmp_path)
    assert [writer.append(record) for record in _GOLDEN_RECORDS] == [(1, 248), (1, 257), (1, 1261)]
    writer.close()
    assert (tmp_path / "00000001.dat").read_bytes() == _GOLDEN
    assert os.listdir(tmp_path) == ["00000001.dat"]


def test_it_reads_the_modules_files(tmp_path: Path) -> None:
    (tmp_path / "00000001.dat").write_bytes(_GOLDEN)
    assert [data for _, _, data in _records(tmp_path)] == _GOLDEN_RECORDS


def test_a_new_file_has_256_bytes_and_its_tail_at_248(tmp_path: Path) -> None:
    jpos_peer.create_file(tmp_path, 7, replace=False)
    expected = bytes.fromhex("000000fc 0001 0000 00000000000000f8 00000007 00000000").ljust(256, b"\0")
    assert (tmp_path / "00000007.dat").read_bytes() == expected


_Call = tuple[str, int, int]  # a call's name; of a read or write, its size and offset


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[_Call]:
    """Record the calls of the functions that the peer uses."""
    seen: list[_Call] = []

    def see(module: ModuleType, name: str, told: Callable[..., tuple[int, int]]) -> None:
        call = getattr(module, name)

        def seen_call(*arguments: Any) -> Any:
            seen.append((name, *told(*arguments)))
            return call(*arguments)

        monkeypatch.setattr(module, name, seen_call)

    see(os, "pread", lambda _, size, offset: (size, offset))
    see(os, "pwrite", lambda _, data, offset: (len(data), offset))
    see(os, "link", lambda *_: (0, 0))
    see(os, "fdatasync", lambda _: (0, 0))
    see(fcntl, "lockf", lambda _, how: (how, 0))
    return seen


def test_an_append_makes_the_calls_that_the_module_makes(tmp_path: Path, calls: list[_Call]) -> None:
    writer = jpos_peer.Writer(tmp_path)
    calls.clear()
    writer.append(b"hello")
    writer.close()
    status, tail = ("pread", 2, 6), ("pread", 8, 8)
    written = [("pwrite", 9, 248), tail, ("pwrite", 8, 8), ("fdatasync", 0, 0)]
    assert calls == [status, ("lockf", fcntl.LOCK_EX, 0), status, tail, *written, ("lockf", fcntl.LOCK_UN, 0)]


def test_a_cutover_writes_the_next_number_and_then_the_status(tmp_path: Path, calls: list[_Call]) -> None:
    writer = jpos_peer.Writer(tmp_path)
    calls.clear()
    writer.cutover()
    writer.close()
    after = calls[calls.index(("link", 0, 0)) :]
    assert [call for call in after if call[0] == "pwrite"] == [("pwrite", 4, 20), ("pwrite", 2, 6)]
    assert calls.count(("fdatasync", 0, 0)) == 1
    header = bytes.fromhex("000000fc 0001 0001 00000000000000f8 00000001 00000002")
    assert (tmp_path / "00000001.dat").read_bytes() == header.ljust(256, b"\0")


def _file_with_a_magic(records: list[bytes]) -> bytes:
    """Return a file as the package makes it, up to the header's tail: first record at 256, space after the tail."""
    body = b"".join(struct.pack(">i", len(record)) + record for record in records)
    header = struct.pack(">iHHqii", 252, 1, 0, 256 + len(body), 1, 0) + b"M" * 224 + bytes(8)
    return header + body + bytes(4096)


def test_a_file_that_starts_at_256_has_two_empty_records_more(tmp_path: Path) -> None:
    (tmp_path / "00000001.dat").write_bytes(_file_with_a_magic([b"one", b"two"]))
    assert _records(tmp_path) == [(1, 248, b""), (1, 252, b""), (1, 256, b"one"), (1, 263, b"two")]


def test_appending_to_such_a_file_changes_the_tail_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "00000001.dat"
    path.write_bytes(_file_with_a_magic([b"one"]))
    writer = jpos_peer.Writer(tmp_path)
    assert writer.append(b"two") == (1, 263)
    writer.close()
    assert path.read_bytes() == _file_with_a_magic([b"one", b"two"])[: 256 + 7 + 4096]


# --- as a program


def test_records_are_read_back_from_any_start(tmp_path: Path) -> None:
    refs = _run("append", tmp_path, "w", 3).split()
    assert refs == ["1:248", "1:255", "1:262"]
    expected = [(1, 248, b"w 0"), (1, 255, b"w 1"), (1, 262, b"w 2")]
    assert _parse(_run("read", tmp_path)) == expected
    assert _parse(_run("read", tmp_path, "--start", "1:255")) == expected[1:]


def test_a_cutover_continues_in_the_next_file(tmp_path: Path) -> None:
    _run("append", tmp_path, "a", 2)
    assert _run("cutover", tmp_path) == "2\n"
    assert _run("cutover", tmp_path) == "3\n"  # an empty closed file is skipped
    assert _run("append", tmp_path, "b", 1, "--cutover-every", 1) == "3:248\n"
    expected = [(1, 248, b"a 0"), (1, 255, b"a 1"), (3, 248, b"b 0")]
    assert _records(tmp_path) == expected
    assert jpos_peer.numbers_in(tmp_path) == [1, 2, 3, 4]


def test_a_writer_that_was_open_before_follows_the_chain(tmp_path: Path) -> None:
    writer = jpos_peer.Writer(tmp_path)
    for _ in range(3):
        _run("cutover", tmp_path)
    assert writer.append(b"x") == (4, 248)
    writer.close()


def test_a_missing_next_file_is_made_again_and_a_loop_is_refused(tmp_path: Path) -> None:
    _run("cutover", tmp_path)
    (tmp_path / "00000002.dat").unlink()
    writer = jpos_peer.Writer(tmp_path)
    assert writer.append(b"x") == (2, 248)
    with (tmp_path / "00000001.dat").open("r+b") as file:
        file.seek(20)
        file.write(struct.pack(">i", 1))
    writer.move_to(1)
    with pytest.raises(ValueError, match="circular"):
        writer.append(b"x")
    writer.close()


def test_a_live_reader_gets_all_records_of_many_writers_through_cutovers(tmp_path: Path) -> None:
    """With a race for the first file, cutovers by all writers, and a reader that started before the first file."""
    writers, count = 4, 200
    with _start("read", tmp_path, "--count", writers * count) as reader:
        running = [_start("append", tmp_path, f"w{index}", count, "--cutover-every", 30) for index in range(writers)]
        kept = [process.communicate(timeout=60)[0].decode().split() for process in running]
        assert [process.returncode for process in running] == [0] * writers
        live = _parse(reader.communicate(timeout=60)[0].decode())
    assert live == _records(tmp_path)
    told = {f"{number}:{offset}" for number, offset, _ in live}
    assert told == {ref for refs in kept for ref in refs}
    by_writer = defaultdict(list)
    for _, _, data in live:
        name, index = data.split()
        by_writer[name].append(int(index))
    assert by_writer == {f"w{index}".encode(): list(range(count)) for index in range(writers)}
    assert len(jpos_peer.numbers_in(tmp_path)) == 1 + writers * (count // 30)
    assert not list(tmp_path.glob("*.tmp"))


# --- its switches


def test_a_new_file_replaces_no_file_by_default(tmp_path: Path) -> None:
    path = tmp_path / "00000001.dat"
    path.write_bytes(_GOLDEN)
    jpos_peer.create_file(tmp_path, 1, replace=False)
    assert path.read_bytes() == _GOLDEN
    jpos_peer.create_file(tmp_path, 1, replace=True)
    assert path.read_bytes() != _GOLDEN
    assert os.listdir(tmp_path) == ["00000001.dat"]


def _await_waiter_for_a_lock(pid: int) -> None:
    """Wait until the kernel lists the process as waiting for a lock: proc_locks(5)."""
    while not any(" -> POSIX " in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines()):
        os.sched_yield()


@pytest.mark.parametrize(("switches", "lands"), [([], "2:248"), (["--status-before-lock"], "1:248")])
def test_a_file_that_is_closed_during_the_wait_for_its_lock(tmp_path: Path, switches: list[str], lands: str) -> None:
    holder = jpos_peer.Writer(tmp_path)
    holder.lock_open_file()
    with _start("append", tmp_path, "w", 1, *switches) as process:
        _await_waiter_for_a_lock(process.pid)
        jpos_peer.create_file(tmp_path, 2, replace=False)
        os.pwrite(holder.fd, struct.pack(">i", 2), 20)
        os.pwrite(holder.fd, struct.pack(">H", jpos_peer.CLOSED), 6)
        holder.close()
        assert process.communicate(timeout=60)[0].decode().split() == [lands]


@pytest.mark.parametrize("stale_tail", [False, True])
def test_a_record_that_comes_just_before_the_file_is_closed(tmp_path: Path, stale_tail: bool) -> None:
    _run("append", tmp_path, "a", 1)
    records = jpos_peer.read(tmp_path, None, stale_tail=stale_tail)
    assert next(records) == (1, 248, b"a 0")  # it has read the tail, but not yet the status
    _run("append", tmp_path, "b", 1, "--cutover-every", 1)
    _run("append", tmp_path, "c", 1)
    late, following = (1, 255, b"b 0"), (2, 248, b"c 0")
    assert next(records) == (following if stale_tail else late)
