"""Processes of two users on one log: no file that one of them makes locks the other one out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Writer
from binlog.errors import AccessError
from binlog.storage.staging_area import area_name
from tests.support.logs import read_all
from tests.support.users import GROUP, OTHER_GROUP, USER, access, as_user, folder_of_user, needs_root


@pytest.fixture
def log() -> Iterator[Path]:
    with folder_of_user() as path:
        yield path


def _append(log: Path, *records: bytes, permissions: int | None = None) -> None:
    with Writer(log, permissions=permissions) as writer:
        for record in records:
            writer.append(record)


def _owned(log: Path, owner: int = USER, group: int = GROUP, mode: int = 0o640) -> None:
    found = {path.name: access(path) for path in log.iterdir()}
    assert found == dict.fromkeys(found, (owner, group, mode))


def _command(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "binlog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_root
def test_after_root_cut_over_the_owner_appends(log: Path) -> None:
    as_user(_append, log, b"1")
    assert _command("cutover", log).returncode == 0
    as_user(_append, log, b"2")
    _owned(log)
    assert read_all(log) == [b"1", b"2"]


@needs_root
def test_files_that_root_makes_in_a_log_belong_to_its_owner(log: Path) -> None:
    """Indexes, archives, quarantined ranges, the lock of repairs, producer files and prepared files."""
    as_user(_append, log, *(b"%d" % number for number in range(200)))
    (log / "00000001.idx").unlink()
    with Writer(log) as writer:
        writer.append_idempotent([binlog.Batch.from_framed(b"\0\0\0\1x")], producer="s", sequence=0)
        writer.cutover()
        writer.append(b"y" * 100)
        writer.cutover()
    binlog.Producer(log, "till-7").close()
    data = bytearray((log / "00000002.dat").read_bytes())
    data[300] ^= 1
    (log / "00000002.dat").write_bytes(data)
    assert binlog.repair(log)
    assert [each.problem for each in binlog.archive(log)] == [None, None]
    names = {path.name for path in log.iterdir()}
    assert {".repair.lock", "00000001.dat.zst", "00000003.dat", "00000001.idx"} <= names
    assert any(name.endswith(".damaged") for name in names)
    assert any("producer" in name for name in names)
    _owned(log)
    as_user(_append, log, b"2")
    as_user(lambda: binlog.Producer(log, "till-7").append(b"3"))
    as_user(binlog.repair, log)
    as_user(lambda: binlog.prune(log, keep_bytes=0))


@needs_root
def test_recovery_by_root_leaves_the_log_to_its_owner(log: Path) -> None:
    as_user(_append, log, b"1")
    (log / "00000001.idx").unlink()
    data = bytearray((log / "00000001.dat").read_bytes())
    data[100:104] = b"\xff\xff\xff\xff"  # the epoch, which breaks the live block's CRC
    (log / "00000001.dat").write_bytes(data)
    _append(log, b"2")
    as_user(_append, log, b"3")
    _owned(log)
    assert read_all(log) == [b"1", b"2", b"3"]


@needs_root
def test_roots_first_file_has_the_directorys_owner(log: Path) -> None:
    _append(log, b"1")
    _owned(log)
    as_user(_append, log, b"2")


@needs_root
def test_shared_memory_that_root_makes_belongs_to_the_owner(log: Path) -> None:
    as_user(_append, log, b"1")
    with Writer(log, mode=Mode.STAGE) as writer:
        writer.append(b"2")
        header = (log / "00000001.dat").read_bytes()[32:48]
        memory = Path("/dev/shm" + area_name(os.stat(log), header))
        assert access(memory) == (USER, GROUP, 0o640)
    as_user(_append, log, b"3")


@needs_root
def test_a_directory_that_sets_the_group_changes_nothing(log: Path) -> None:
    as_user(_append, log, b"1")
    os.chown(log, USER, OTHER_GROUP)
    log.chmod(0o2755)
    _append(log, b"2")
    _command("cutover", log)
    _owned(log)
    # The owner, who is not in that group, must not be refused either.
    as_user(lambda: Writer(log).cutover())
    _owned(log)


@needs_root
def test_a_user_who_would_lock_the_owner_out_is_refused(log: Path) -> None:
    as_user(_append, log, b"1", permissions=0o660)
    log.chmod(0o770)

    def refused() -> None:
        before = sorted(os.listdir(log))
        with Writer(log, permissions=0o640) as writer:
            writer.append(b"2")
            with pytest.raises(AccessError, match=f"run this as #{USER}") as raised:
                writer.cutover()
            assert raised.value.run_as == f"#{USER}"
        assert sorted(os.listdir(log)) == before

    as_user(refused, user=USER + 1)


@needs_root
def test_users_of_one_group_share_a_log(log: Path) -> None:
    as_user(_append, log, b"1", permissions=0o660)
    log.chmod(0o770)

    def cut_over() -> None:
        os.umask(0o077)
        with Writer(log) as writer:
            writer.append(b"2")
            writer.cutover()
        binlog.repair(log)

    as_user(cut_over, user=USER + 1)
    as_user(_append, log, b"3")
    as_user(binlog.repair, log)
    assert {access(path)[1:] for path in log.iterdir()} == {(GROUP, 0o660)}


@needs_root
def test_a_group_that_cannot_be_given_is_refused_by_name(log: Path) -> None:
    as_user(_append, log, b"1")
    os.chown(log / "00000001.dat", USER, OTHER_GROUP)

    def refused() -> None:
        before = sorted(os.listdir(log))
        with Writer(log) as writer, pytest.raises(AccessError, match=f":#{OTHER_GROUP} with mode 0640"):
            writer.cutover()
        assert sorted(os.listdir(log)) == before

    as_user(refused)
    as_user(lambda: Writer(log).cutover(), groups=(OTHER_GROUP,))


@needs_root
def test_the_command_prints_the_line_that_works(log: Path) -> None:
    as_user(_append, log, b"1")

    def refused() -> None:
        from binlog.cli.exits import advice

        sys.argv = ["binlog", "cutover", "a log"]
        with pytest.raises(AccessError) as raised:
            Writer(log)
        assert advice(raised.value) == f"; try: sudo -u '#{USER}' binlog cutover 'a log'"

    as_user(refused, user=USER + 1, group=GROUP + 7)


def test_a_file_has_the_mode_of_the_one_before_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        _append(tmp_path, b"1", permissions=0o660)
        assert _command("cutover", tmp_path).returncode == 0
        assert [each.action for each in binlog.repair(tmp_path)] == ["index"]
        assert [each.problem for each in binlog.archive(tmp_path)] == [None]
        _append(tmp_path, b"2")
    finally:
        os.umask(before)
    assert {path.lstat().st_mode & 0o7777 for path in tmp_path.iterdir()} == {0o660}


def test_the_first_file_has_mode_0640_whatever_the_umask(tmp_path: Path) -> None:
    for number, umask in enumerate((0, 0o077)):
        before = os.umask(umask)
        try:
            _append(tmp_path / f"{number}", b"1")
        finally:
            os.umask(before)
        assert {path.lstat().st_mode & 0o7777 for path in (tmp_path / f"{number}").iterdir()} == {0o640}
