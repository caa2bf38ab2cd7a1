"""Files of different moments: readers and writers refuse them, and `repair` makes one history of them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Mode, Reader, Ref, Sequence, Start, Writer, repair
from binlog.errors import CorruptError, FullError
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from binlog.log.directory import LogDirectory
from binlog.log.maintain.fillers import FILLER
from binlog.log.maintain.gap_repair import GapRepair
from stress.crash.preloaded.injector import Kind
from tests.interop import jpos_peer
from tests.support.external_files import external_files
from tests.support.indexes import check_entries
from tests.support.logs import jpos_file, read_all
from tests.support.preloaded import kill_at_each_call
from tests.support.turns import in_turn

FILE_1, FILE_2 = "00000001.dat", "00000002.dat"


def _pieces(log: Path, copy: Path, *, missing: int = 2, after: int = 1, files: int = 2) -> list[bytes]:
    """Make a copy whose file 1 is from before the cutover and whose later files are from after it.

    after: the number of records in each later file.  Returns the records of the later files.
    """
    with Writer(log) as writer:
        writer.append(b"0")
        shutil.copytree(log, copy)
        writer.append_many([b"lost %d" % number for number in range(missing)])
        for file in range(2, files + 1):
            writer.cutover()
            for number in range(after):
                writer.append(b"%d in file %d" % (number, file))
        for file in range(2, files + 1):
            shutil.copy(log / f"{file:08d}.dat", copy)
    return [b"%d in file %d" % (number, file) for file in range(2, files + 1) for number in range(after)]


def _bytes(log: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.glob("0*.dat*")}


def _rules(log: Path) -> list[str]:
    return [problem.rule for problem in binlog.check(log)]


def _actions(log: Path, *, dry_run: bool = False) -> list[str]:
    return [each.action for each in repair(log, dry_run=dry_run) if each.action != "index"]


def _check_repaired(log: Path, kept: list[bytes], missing: int, rest: list[bytes]) -> None:
    """Check a log in which fillers replaced `missing` records between others."""
    found = read_all(log)
    assert (found[: len(kept)], found[len(kept) + missing :]) == (kept, rest)
    assert all(record.startswith(FILLER) for record in found[len(kept) : len(kept) + missing])
    assert _rules(log) == ["quarantined"]
    assert repair(log) == []
    if rest:
        assert next(Reader(log, Sequence(len(kept) + missing))).data == rest[0]
    for path in log.glob("*.dat"):
        assert not any(path.read_bytes()[24:248]) or check_entries(log, int(path.name[:8])) == 0
    with Writer(log) as writer:
        writer.append(b"more")
    assert read_all(log) == [*found, b"more"]
    [marker] = log.glob("*.damaged")
    assert marker.stat().st_size == 0
    marker.unlink()
    assert binlog.check(log) == []


def _rewrite(path: Path, **changes: int) -> None:
    """Change fields of a file's header, and make its CRCs valid."""
    with open(path, "r+b") as file:
        header = parse_log_header(file.read(HEADER_BYTES), path="")
        os.pwrite(file.fileno(), header._replace(**changes).pack(), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("after", [1, 2])
def test_files_of_different_moments_are_reported_and_not_changed(log: Path, tmp_path: Path, after: int) -> None:
    copy = tmp_path / "pieces"
    _pieces(log, copy, after=after)
    before = _bytes(copy)
    [problem] = binlog.check(copy)
    assert (problem.rule, "2 records are missing between file 1 and file 2" in problem.text) == ("gap", True)
    with Reader(copy) as reader:
        assert next(reader).data == b"0"
        for _ in range(2):
            with pytest.raises(CorruptError, match=f"2 records are missing.*binlog repair {copy}"):
                next(reader)
    with pytest.raises(CorruptError, match="binlog backup"):
        Writer(copy)
    assert sorted(_actions(copy, dry_run=True)) == ["closed", "filled"]
    assert _bytes(copy) == before
    shutil.copy(log / FILE_1, copy)
    assert read_all(copy) == read_all(log)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("files", [2, 4])
@pytest.mark.parametrize("missing", [1, 2, 50_000])
def test_a_repair_replaces_missing_records_by_fillers(
    log: Path, tmp_path: Path, missing: int, files: int, after: int
) -> None:
    copy = tmp_path / "pieces"
    rest = _pieces(log, copy, missing=missing, after=after, files=files)
    [told] = [each for each in repair(copy) if each.action == "filled"]
    assert told.path == str(copy / FILE_1)
    assert f"{missing} record{'s are' if missing > 1 else ' is'} missing" in told.text
    with Reader(copy) as reader:
        fillers = list(reader)[1 : 1 + missing]
    assert fillers[0].ref == Ref(1, told.offset)
    assert {each.data for each in fillers} == {FILLER + f"1:{told.offset}-{(copy / FILE_1).stat().st_size}".encode()}
    _check_repaired(copy, [b"0"], missing, rest)


def test_an_index_of_a_later_moment_is_cut_before_fillers_are_written(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pieces"
    rest = _pieces(log, copy, missing=300)
    shutil.copy(log / "00000001.idx", copy)
    repair(copy)
    _check_repaired(copy, [b"0"], 300, rest)


def test_flushed_records_in_a_file_of_another_boot_are_kept(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pieces"
    with Writer(log) as writer:
        writer.append(b"0")
        writer.append(b"flushed", mode=Mode.FLUSH)
        shutil.copytree(log, copy)
        writer.append(b"lost")
        writer.cutover()
        writer.append(b"after")
        writer.cutover()
        writer.append(b"later")
        for name in (FILE_2, "00000003.dat"):
            shutil.copy(log / name, copy)
    _rewrite(copy / FILE_1, boot_id=bytes(16))  # type: ignore[arg-type]
    repair(copy)
    _check_repaired(copy, [b"0", b"flushed"], 1, [b"after", b"later"])


def _copy_closed_by_itself(log: Path, copy: Path) -> Path:
    """A copy that a writer opened and cut over while it had only file 1, and to which the log's file 2 then came.

    Five records are missing between the two.
    """
    with Writer(log) as writer:
        writer.append(b"0")
        shutil.copytree(log, copy)
        with Writer(copy) as own:
            own.cutover()
        for number in range(5):
            writer.append(b"lost %d" % number)
        writer.cutover()
        writer.append(b"after")
        shutil.copy(log / FILE_2, copy)
    return copy


def test_a_gap_after_a_closed_file(log: Path, tmp_path: Path) -> None:
    copy = _copy_closed_by_itself(log, tmp_path / "pieces")
    assert _rules(copy) == ["gap"]
    with Reader(copy) as reader:
        assert next(reader).data == b"0"
        with pytest.raises(CorruptError, match="5 records are missing between file 1 and file 2"):
            next(reader)
    with Reader(copy, Ref(2, 256)) as reader:
        assert next(reader).data == b"after"
    assert _actions(copy, dry_run=True) == ["filled"]
    assert _actions(copy) == ["filled"]
    _check_repaired(copy, [b"0"], 5, [b"after"])


def test_records_appended_after_the_close_before_a_gap_are_kept(log: Path, tmp_path: Path) -> None:
    copy = _copy_closed_by_itself(log, tmp_path / "pieces")
    tail = (copy / FILE_1).stat().st_size
    with open(copy / FILE_1, "r+b") as file:
        os.pwrite(file.fileno(), b"\0\0\0\4late", tail)
        os.pwrite(file.fileno(), (tail + 8).to_bytes(8, "big"), 8)
    assert sorted(_rules(copy)) == ["gap", "late"]
    assert _actions(copy) == ["filled"]
    # It takes the number of one that is missing.
    _check_repaired(copy, [b"0", b"late"], 4, [b"after"])


@pytest.mark.parametrize("files", [2, 3])
def test_a_copy_that_lacks_only_the_close_is_read_and_closed(log: Path, tmp_path: Path, files: int) -> None:
    copy = tmp_path / "pieces"
    rest = _pieces(log, copy, missing=0, files=files)
    assert read_all(copy) == [b"0", *rest]
    with Reader(copy, Start.END) as reader:
        assert len(reader.read_batch()) == 0
        assert reader.next_ref == binlog.stat(copy).tail
        assert reader.next_ref.number == files
    assert _rules(copy) == ["two-open"]
    assert _actions(copy) == ["closed"]
    assert binlog.check(copy) == []
    assert read_all(copy) == [b"0", *rest]
    with Writer(copy) as writer:
        writer.append(b"more")
    assert read_all(copy) == [b"0", *rest, b"more"]


def test_an_older_file_before_one_that_was_ingested(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pieces"
    with Writer(log) as writer:
        writer.append(b"0")
        shutil.copytree(log, copy)
        writer.append(b"lost")
        writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=1)
        for name in (FILE_2, "00000003.dat"):
            shutil.copy(log / name, copy)
    shutil.rmtree(log / "aside")
    with pytest.raises(CorruptError, match="1 record is missing between file 1 and file 2"):
        read_all(copy)
    repair(copy)
    _check_repaired(copy, [b"0"], 1, [b"1", b"2"])


def test_an_older_file_before_the_only_one_that_was_ingested(log: Path, tmp_path: Path) -> None:
    """That file is open and has no appends: it is in the log once the file before it is closed."""
    copy = tmp_path / "pieces"
    with Writer(log) as writer:
        writer.append(b"0")
        shutil.copytree(log, copy)
        writer.append(b"lost")
        writer.ingest(external_files(log, [b"1"]))
        shutil.copy(log / FILE_2, copy)
    shutil.rmtree(log / "aside")
    with pytest.raises(CorruptError, match="1 record is missing between file 1 and file 2"):
        Writer(copy)
    repair(copy)
    _check_repaired(copy, [b"0"], 1, [b"1"])


@pytest.mark.parametrize("records", [[], [b"theirs", b""]])
def test_an_older_foreign_file(log: Path, tmp_path: Path, records: list[bytes]) -> None:
    copy = tmp_path / "pieces"
    log.mkdir()
    jpos_file(log, records)
    shutil.copytree(log, copy)
    with Writer(log) as writer:
        writer.append(b"lost")
        writer.append(b"lost too")
        writer.cutover()
        writer.append(b"after")
        shutil.copy(log / FILE_2, copy)
    assert _rules(copy) == ["gap"]
    with pytest.raises(CorruptError, match="2 records are missing between file 1 and file 2"):
        read_all(copy)
    with pytest.raises(CorruptError, match="2 records are missing between file 1 and file 2"):
        Writer(copy)
    repair(copy)
    theirs = [found[2] for found in takewhile(bool, jpos_peer.read(copy, None)) if found is not None]
    assert [record for record in theirs if record] == [record for record in read_all(copy) if record]
    _check_repaired(copy, records, 2, [b"after"])


def test_a_foreign_file_with_an_unknown_record_count(log: Path, tmp_path: Path) -> None:
    """Some of the files before it were removed, so nothing shows whether records are missing."""
    log.mkdir()
    jpos_file(log, [b"1", b"2"], number=7)
    with Writer(log) as writer:
        writer.cutover()
        writer.append(b"after")
    _rewrite(log / "00000008.dat", first_sequence=100)
    assert read_all(log) == [b"1", b"2", b"after"]
    assert _actions(log) == []


def test_files_removed_by_retention_are_not_a_gap(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(4):
            writer.append(b"%d" % number)
            writer.cutover()
    binlog.prune(log, before=Ref(3, 256))
    assert _actions(log) == []
    assert read_all(log) == [b"2", b"3"]


def test_a_copy_without_the_newest_file(log: Path, tmp_path: Path) -> None:
    """The directory was listed before the cutover, and the file copied after it."""
    copy = tmp_path / "pieces"
    with Writer(log) as writer:
        writer.append(b"0")
        writer.cutover()
        writer.append(b"not copied")
        copy.mkdir()
        shutil.copy(log / FILE_1, copy)
    assert _rules(copy) == ["missing-next"]
    with pytest.raises(CorruptError, match=r"binlog repair .* makes an empty one"):
        Writer(copy)
    with Reader(copy) as reader:
        assert next(reader).data == b"0"
        with pytest.raises(CorruptError, match=r"binlog repair .* makes an empty one"):
            next(reader)
    before = _bytes(copy)
    assert _actions(copy, dry_run=True) == ["next-file"]
    assert _bytes(copy) == before
    assert _actions(copy) == ["next-file"]
    assert binlog.check(copy) == []
    with Writer(copy) as writer:
        assert writer.append(b"more") == Ref(2, 256)
    assert list(Reader(copy, Sequence(1))) == [Entry(Ref(2, 256), b"more")]
    assert repair(copy) == []


@pytest.mark.parametrize("archived", [False, True])
def test_a_copy_without_files_in_the_middle(log: Path, archived: bool) -> None:
    with Writer(log) as writer:
        for number in range(10):
            writer.append(b"%d" % number)
            if number % 2:
                writer.cutover()
    if archived:
        binlog.archive(log)
    for path in [*log.glob("00000002.*"), *log.glob("00000003.*")]:
        path.unlink()
    with pytest.raises(CorruptError, match="missing-next"):
        read_all(log)
    expected = ["next-file", "next-file", "closed", "filled", "closed"]
    assert _actions(log, dry_run=True) == ["next-file", "next-file"]
    assert _actions(log) == expected
    _check_repaired(log, [b"0", b"1"], 4, [b"%d" % number for number in range(6, 10)])


def test_no_files_are_made_up_to_a_number_far_above_the_others(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"0")
        writer.cutover()
    far = tmp_path / "far"
    shutil.copytree(log, far)
    os.rename(far / FILE_2, far / "99999999.dat")
    with open(far / "99999999.dat", "r+b") as file:
        os.pwrite(file.fileno(), bytes(HEADER_BYTES), 0)
    before = sorted(os.listdir(far))
    repair(far)
    assert sorted(name for name in os.listdir(far) if not name.startswith(".repair")) == before


def test_more_missing_records_than_fit_on_the_disk(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pieces"
    _pieces(log, copy)
    _rewrite(copy / FILE_2, first_sequence=1 << 50)
    before = (copy / FILE_1).read_bytes()
    with pytest.raises(FullError):
        repair(copy)
    assert (copy / FILE_1).read_bytes() == before
    _rewrite(copy / FILE_2, first_sequence=3)
    repair(copy)
    _check_repaired(copy, [b"0"], 2, [b"0 in file 2"])


_CHANGING = (
    Kind.OPEN, Kind.WRITE, Kind.TRUNCATE, Kind.ALLOCATE, Kind.SYNC, Kind.DATA_SYNC, Kind.LINK, Kind.UNLINK, Kind.OTHER,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", in_turn(["open", "closed", "theirs", "missing"]))
def test_a_repair_that_dies_at_any_call_can_be_repeated(in_memory: Path, what: str) -> None:
    """No record of the files is lost, and whatever a reader returns in between is right."""
    source, log = in_memory / "source", in_memory / "log"
    kept, rest = [b"0"], [b"0 in file 2"]
    _pieces(log, source, missing=3)
    if what == "closed":
        with open(source / FILE_1, "r+b") as file:
            os.pwrite(file.fileno(), b"\0\1", 6)
            os.pwrite(file.fileno(), (2).to_bytes(4, "big"), 20)
    elif what == "theirs":
        jpos_file(source, kept)
    elif what == "missing":
        shutil.copy(log / FILE_1, source)
        (source / FILE_2).unlink()
        kept = read_all(log)[:4]
    copy, deaths = in_memory / "copy", 0
    # Before any other call the files are as after the last of these.
    for run in kill_at_each_call(repair, source, copy, kinds=_CHANGING):
        found = []
        with Reader(copy) as reader, suppress(CorruptError):
            found.extend(entry.data for entry in reader)
        assert [data for data in found if not data.startswith(FILLER)][: len(kept)] == kept
        repair(copy)
        if what == "missing":
            assert read_all(copy) == read_all(log)[:4]
            with Writer(copy) as writer:
                writer.append(b"more")
            assert binlog.check(copy) == []
        else:
            _check_repaired(copy, kept, 3, rest)
        deaths += run.killed
    assert deaths > 15


def test_nothing_is_repaired_if_all_files_were_removed_meanwhile(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"0")
    directory = LogDirectory(log)
    try:
        (log / FILE_1).unlink()
        assert list(GapRepair(directory, dry_run=False, lock_timeout=None).run()) == []
    finally:
        directory.close()


def test_a_reader_that_follows_only_later_finds_the_next_file_at_once(log: Path, tmp_path: Path) -> None:
    """A copy from just before a cutover lacks the close of its first file, and no record."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with Writer(log) as writer:
        writer.append_many([b"1", b"2"])
        shutil.copy(log / FILE_1, copy)
        writer.cutover()
        writer.append(b"3")
        shutil.copy(log / FILE_2, copy)
    with Reader(copy, follow=False) as reader:
        assert [entry.data for entry in reader] == [b"1", b"2"]
        reader.follow = True
        assert [entry.data for entry in reader] == [b"3"]
