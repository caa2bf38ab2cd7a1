"""Files that were to join a log: what a death leaves of that, and who settles it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import binlog
from binlog import Drafted, Mode, Reader, Ref, Since, Start, Writer
from binlog.errors import AccessError, CorruptError
from binlog.format.log_header import LOG_HEADER
from binlog.log import adoption
from binlog.log.directory import LogDirectory
from binlog.log.once import Turns
from binlog.log.prepared_file import PreparedFile
from binlog.log.succession import Succession
from binlog.log.writable_file import WritableFile
from binlog.storage.file_access import access_of_directory
from tests.support.drafts import drafts
from tests.support.indexes import check_entries
from tests.support.logs import name_next_file_only, read_all


def die_at(log: Path, place: str, *, after: bool = False) -> None:
    """Have a process die in the middle of a turn of two drafts, at a call of Adoption's or of the file before them."""

    def work() -> None:
        owner, _, name = place.partition(".")
        kind = {"adoption": adoption.Adoption, "file": WritableFile, "turns": Turns}[owner]
        call = getattr(kind, name)

        def dying(*arguments: object) -> object:
            if after:
                call(*arguments)
            os._exit(9)

        setattr(kind, name, dying)
        with Writer(log) as writer:
            writer.append_drafts(drafts(log, [b"1"] * 50, [b"2"] * 50), source="s", turn=0)

    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


TURN = [b"1"] * 50 + [b"2"] * 50


@pytest.mark.parametrize(
    ("place", "after", "there"),
    [
        ("adoption._give_name", False, False),
        ("adoption._give_name", True, False),
        ("file.name_next", False, False),
        ("file.name_next", True, True),
        ("file.close_at", False, True),
        ("file.close_at", True, True),
        ("adoption._write_index", False, True),
        ("turns.finish", False, True),
    ],
)
def test_what_a_death_leaves_is_settled(log: Path, place: str, after: bool, there: bool) -> None:
    """Decided or not; before anybody settles it, readers see all of it or none."""
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, place, after=after)
    closed = place not in ("adoption._give_name", "file.name_next") and (place, after) != ("file.close_at", False)
    assert read_all(log) == [b"before", *(TURN if closed else [])]
    assert len(binlog.stat(log).files) == (3 if closed else 1)
    assert binlog.check(log) == []
    with Writer(log) as writer:
        writer.append(b"after")
        assert (writer.append_drafts(drafts(log, TURN[:50], TURN[50:]), source="s", turn=0) is None) == there
    assert read_all(log) == [b"before", *([*TURN, b"after"] if there else [b"after", *TURN])]
    assert binlog.check(log) == []


def test_a_listing_that_is_older_than_a_removal_leads_nobody_to_a_file_that_never_was_in_the_log(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "file.name_next")
    numbers = LogDirectory.numbers
    stale = [[1, 2, 3]] * 3

    def stale_numbers(self: LogDirectory) -> list[int]:
        return stale.pop() if stale else numbers(self)

    monkeypatch.setattr(LogDirectory, "numbers", stale_numbers)
    with Reader(log, Start.END) as reader:
        assert reader.next_ref == Ref(1, 266)
    stale[:] = [[1, 2, 3]] * 3
    with Writer(log) as writer:
        assert writer.append(b"after") == Ref(1, 266)
    monkeypatch.undo()
    assert sorted(path.name for path in log.glob("*.dat")) == ["00000001.dat"]
    assert read_all(log) == [b"before", b"after"]


def test_since_a_time_before_the_close_though_the_index_was_never_written(log: Path) -> None:
    import time

    with Writer(log) as writer:
        writer.append(b"before")
    moment = time.time()
    die_at(log, "adoption._write_index")
    for number in (2, 3):
        os.utime(log / f"0000000{number}.dat", (moment - 1, moment - 1))  # as though the close had taken a while
    with Writer(log) as writer:
        writer.append(b"after")
    with Reader(log, Since(moment)) as reader:
        assert [entry.data for entry in reader] == [*TURN, b"after"]


def test_what_another_program_appended_to_a_file_that_never_joined_is_set_aside(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "file.name_next")
    path = log / "00000003.dat"
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b"\0\0\0\6theirs")
        file.seek(8)
        file.write((size + 10).to_bytes(8, "big"))
    with Writer(log) as writer:
        writer.append(b"after")
    assert read_all(log) == [b"before", b"after"]
    kept = log / f"00000003.dat.0-{size + 10}.damaged"
    assert kept.read_bytes().endswith(b"theirs")
    kept.unlink()


def test_a_file_behind_a_gap_is_told_and_stays(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        stray = log / "00000003.dat"
        stray.write_bytes((log / "00000001.dat").read_bytes())
        with pytest.raises(CorruptError, match="file 3 lies behind a gap"):
            writer.append_drafts(drafts(log, [b"1"], [b"2"]))
        assert stray.exists()
        stray.unlink()
        writer.append(b"after")
    assert read_all(log) == [b"before", b"after"]


def test_a_file_with_a_header_is_no_draft(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
        writer.cutover()
        writer.append(b"two")
        path = str(log / "00000001.dat")
        forged = Drafted(path, 1, os.stat(path).st_size, 0, durable=True, entries=b"")
        with pytest.raises(AccessError, match="is no draft"):
            writer.append_drafts([forged])
    assert read_all(log) == [b"one", b"two"]


def test_the_marker_is_for_whom_the_files_are(log: Path) -> None:
    with Writer(log, permissions=0o644) as writer:
        writer.append(b"before")
    die_at(log, "file.close_at", after=True)
    assert (log / ".joining").stat().st_mode & 0o777 == 0o644
    with Writer(log):
        pass


def test_what_was_flushed_is_still_synced_behind_a_turn_that_is_there(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_drafts(drafts(log, [b"1"]), source="s", turn=0)
        writer.append(b"flushed", mode=Mode.FLUSH)
        assert writer.append_drafts(drafts(log, [b"1"]), source="s", turn=0) is None
    last = binlog.stat(log).files[-1]
    assert last.durable_end == last.tail


def test_a_file_that_is_removed_right_behind_its_opening_is_as_one_that_is_gone(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(log) as writer:
        for number in range(3):
            writer.append(b"%d" % number)
            writer.cutover()
    check_joined = LogDirectory.check_joined

    def removing(self: LogDirectory, fd: int, number: int) -> None:
        monkeypatch.undo()
        binlog.prune(log, before=Ref(number + 1, 256))
        check_joined(self, fd, number)

    monkeypatch.setattr(LogDirectory, "check_joined", removing)
    with Reader(log) as reader:
        assert [entry.data for entry in reader] == [b"1", b"2"]
    monkeypatch.setattr(LogDirectory, "check_joined", removing)
    assert [file.number for file in binlog.stat(log).files] == [3, 4]
    monkeypatch.setattr(LogDirectory, "check_joined", removing)
    assert binlog.check(log) == []


@pytest.mark.parametrize("after", [False, True])
def test_a_repair_that_seals_the_file_before_them_decides_nothing(log: Path, after: bool) -> None:
    """after: one of the two has its name."""
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "adoption._give_name", after=after)
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[64:67] = b"\0\0\1"  # the live block
    for at in range(LOG_HEADER.offset("slot_0"), LOG_HEADER.offset("zero")):
        data[at] ^= 0x55 if data[at] else 0
    path.write_bytes(data)
    binlog.repair(log)
    with Writer(log) as writer:
        writer.append(b"after")
        assert writer.append_drafts(drafts(log, [b"1"], [b"2"]), source="s", turn=0) is not None
    assert read_all(log)[-3:] == [b"after", b"1", b"2"]
    for path in log.glob("*.damaged"):
        path.unlink()
    assert not binlog.check(log)


def test_a_stale_listing_sweeps_nothing_that_is_of_use(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        directory = LogDirectory(log)
        prepared = PreparedFile(directory, 2, file_bytes=4096, access=access_of_directory(directory.fd))
        numbers = LogDirectory.numbers
        stale = [[1, 2, 3]]
        monkeypatch.setattr(LogDirectory, "numbers", lambda self: stale.pop() if stale else numbers(self))
        with Writer(log) as other:
            other.append(b"after")
        assert list(log.glob(".00000002.dat.*.new"))
        prepared.discard()


def test_a_marker_that_somebody_has_left_lying_about_decides_nothing(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    name_next_file_only(log, tmp_path / "aside")
    (log / ".joining").write_text('{"after": 1, "last": 3}')
    with Writer(log) as writer:
        writer.append(b"after")
        writer.cutover()
        writer.append(b"more")
    assert read_all(log) == [b"before", b"after", b"more"]


def test_indexes_that_a_death_left_out_are_begun_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
    die_at(log, "adoption._write_index")
    begin = Succession._begin_index
    begun: list[int] = []

    def beginning(self: Succession, number: int) -> None:
        begun.append(number)
        begin(self, number)

    monkeypatch.setattr(Succession, "_begin_index", beginning)
    for _ in range(3):
        with Writer(log):
            pass
    assert begun == [2, 3]
    assert read_all(log) == [b"before", *TURN]
    binlog.repair(log)
    assert [check_entries(log, number) for number in (2, 3)] == [0, 0]
