"""Ingesting external files: all of them together, once, without a copy."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlog
from binlog import Batch, ExternalFile, Mode, Reader, Ref, Since, Start, Writer
from binlog import Sequence as SequenceNumber
from binlog.errors import AccessError, ClosedError, CorruptError, FullError, StateError
from binlog.log.ingest import ingestion as ingest
from binlog.spark.log.snapshot import take_snapshot
from binlog.storage.locking import locks
from tests.support.examples import examples
from tests.support.external_files import external_file, external_files
from tests.support.indexes import check_entries, index_entries
from tests.support.logs import jpos_file, read_all


def inode(path: str | Path) -> int:
    return os.stat(path).st_ino


def test_external_files_become_the_next_files_without_a_copy(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        made = external_files(log, [b"1", b"2"], [b"3"], [b"4", b"5"])
        inodes = [inode(each.path) for each in made]
        batch = writer.ingest(made)
        assert batch is not None
        assert (batch.ref, batch.record_count, batch.producer) == (Ref(2, 256), 5, "")
        assert [inode(log / f"0000000{number}.dat") for number in (2, 3, 4)] == inodes
        assert writer.append(b"after") == Ref(4, 266)
    assert read_all(log) == [b"before", b"1", b"2", b"3", b"4", b"5", b"after"]
    assert not any(os.path.exists(each.path) for each in made)
    assert sorted(log.glob(".*")) == []
    assert binlog.check(log) == []
    assert [file.first_sequence for file in binlog.stat(log).files] == [0, 1, 3, 4]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.binary(max_size=20), max_size=4), max_size=5), st.booleans(), st.integers(0, 2))
def test_any_external_files_join_the_log(tmp_path: Path, files: list[list[bytes]], durable: bool, before: int) -> None:
    log = tmp_path / os.urandom(6).hex()
    with Writer(log) as writer:
        for number in range(before):
            writer.append(b"%d" % number)
        made = [
            external_file(log / "aside", str(number), records, durable_from=0 if durable else 1 << 30)
            for number, records in enumerate(files)
        ]
        records = [record for each in files for record in each]
        batch = writer.ingest(made, producer="s", sequence=7)
        assert batch is not None
        assert batch.record_count == len(records)
        assert writer.ingest(made, producer="s", sequence=7) is None
        writer.append(b"after")
    assert read_all(log) == [*(b"%d" % number for number in range(before)), *records, b"after"]
    adopted = sum(bool(each) for each in files) if durable else 0
    assert len(binlog.stat(log).files) == 1 + adopted
    assert binlog.check(log) == []


def test_the_index_is_made_from_the_entries_at_hand(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(100)])
        made = external_files(log, [b"x" * 500] * 5000, [b"y" * 700] * 3000)
        writer.ingest(made)
        for number in (2, 3):
            assert check_entries(log, number) == 0
            assert len(index_entries(log, number)) > 10
        writer.append(b"after")
    assert check_entries(log, 3) == 0
    times = [entry.time_ns for number in (1, 2, 3) for entry in index_entries(log, number)]
    assert times == sorted(times)
    with Reader(log, SequenceNumber(5100 + 7)) as reader:
        assert next(reader).ref == Ref(3, 256 + 7 * 704)


def test_reading_since_a_time_finds_ingested_records(log: Path) -> None:
    """Although the files were written, and named, before that time."""
    import time

    with Writer(log) as writer:
        writer.append(b"before")
        made = external_files(log, [b"x" * 500] * 500, [b"y"])
        name = ingest.IngestedFile.give_name
        moments: list[float] = []

        def named(self: ingest.IngestedFile, number: int, **arguments: Any) -> bool:
            found = name(self, number, **arguments)
            time.sleep(0.02)
            moments.append(time.time())
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ingest.IngestedFile, "give_name", named)
            writer.ingest(made)
    with Reader(log, Since(moments[0])) as reader:
        assert [entry.data[:1] for entry in reader] == [b"x"] * 500 + [b"y"]


def test_an_ingested_file_joins_the_log_when_the_one_before_it_is_closed(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ingest.IngestedFile.give_name
    seen: list[list[bytes]] = []

    def named(self: ingest.IngestedFile, number: int, **arguments: Any) -> bool:
        found = name(self, number, **arguments)
        seen.append(read_all(log))
        last = binlog.stat(log).files[-1]
        assert (last.number, last.closed) == (number - 1, False)
        assert binlog.stat(log).tail == Ref(number - 1, last.tail)
        assert take_snapshot(log)[-1].number == number - 1
        assert binlog.check(log) == []
        with Reader(log, Start.END) as reader:
            assert reader.next_ref == Ref(number - 1, last.tail)
            assert list(reader) == []
        return found

    with Writer(log) as writer:
        writer.append(b"before")
        made = external_files(log, [b"1"], [b"2"])
        monkeypatch.setattr(ingest.IngestedFile, "give_name", named)
        writer.ingest(made)
    assert seen == [[b"before"], [b"before", b"1"]]
    assert read_all(log) == [b"before", b"1", b"2"]


def test_a_waiting_reader_is_woken_and_reads_all_ingested_records(log: Path) -> None:
    found: list[bytes] = []
    with Writer(log) as writer:
        writer.append(b"before")
        with Reader(log) as reader:

            def follow() -> None:
                for entry in reader.tail():
                    found.append(entry.data)
                    if entry.data == b"after":
                        return

            thread = threading.Thread(target=follow)
            thread.start()
            writer.ingest(external_files(log, [b"1"], [b"2"]))
            writer.append(b"after")
            thread.join(20)
    assert found == [b"before", b"1", b"2", b"after"]


def test_another_writer_and_its_staged_records_follow_the_ingest(log: Path) -> None:
    with Writer(log) as writer, Writer(log) as other:
        other.append(b"a")
        other.append(b"b", mode=Mode.STAGE)
        writer.ingest(external_files(log, [b"1"], [b"2"]))
        other.append(b"c", mode=Mode.STAGE)
        other.append(b"d")
        writer.append(b"e")
    found = read_all(log)
    assert sorted(found) == [b"1", b"2", b"a", b"b", b"c", b"d", b"e"]
    assert found.index(b"1") + 1 == found.index(b"2") < found.index(b"d") < found.index(b"e")
    assert binlog.check(log) == []


def test_an_ingested_producer_batch_is_in_the_log_once(log: Path) -> None:
    with Writer(log) as writer:
        for sequence in (0, 3):
            first = writer.ingest(external_files(log, [b"%d" % sequence], [b"x"]), producer="s", sequence=sequence)
            assert first is not None
            assert writer.last_producer_batch("s") == first
            assert writer.ingest(external_files(log, [b"again"]), producer="s", sequence=sequence) is None
            assert writer.append_idempotent([Batch.from_records([b"again"])], producer="s", sequence=sequence) is None
        writer.cutover()
        assert writer.last_producer_batch("s") == first
    binlog.prune(log, keep_bytes=0)
    with Writer(log) as writer:
        assert writer.ingest(external_files(log, [b"again"]), producer="s", sequence=3) is None
    with pytest.raises(ClosedError):
        writer.ingest([])
    with Writer(log) as writer, pytest.raises(TypeError, match="a sequence is a whole number"):
        writer.ingest([], producer="s", sequence="1")  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["second name", "cut", "longer", "damaged", "gone", "not synced"])
def test_a_file_that_cannot_move_is_copied_or_raises(log: Path, how: str) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        good, made = external_files(log, [b"1"], [b"2", b"3"])
        path = Path(made.path)
        if how == "second name":
            os.link(path, log / "other")
        elif how == "cut":
            os.truncate(path, made.end - 1)
        elif how == "longer":
            path.write_bytes(path.read_bytes() + b"more")
        elif how == "damaged":
            made = external_file(log / "aside", "again", [b"2"], durable_from=100)
            Path(made.path).write_bytes(bytes(260) + b"3")
        elif how == "gone":
            path.unlink()
        else:
            made = external_file(log / "aside", "again", [b"2", b"3"], durable_from=100)
        if how in ("cut", "damaged", "gone"):
            with pytest.raises((CorruptError, AccessError)):
                writer.ingest([good, made], producer="s", sequence=0)
            assert writer.last_producer_batch("s") is None
            expected = []
        else:
            assert writer.ingest([good, made], producer="s", sequence=0) is not None
            expected = [b"1", b"2", b"3"]
        assert not os.path.exists(good.path)
        assert len(binlog.stat(log).files) == 1
    assert read_all(log) == [b"before", *expected]
    assert binlog.check(log) == []


@pytest.mark.parametrize("only_theirs", [True, False])
def test_external_files_join_a_log_with_foreign_writers(log: Path, only_theirs: bool) -> None:
    """Even if no file in the log has the log's UUID."""
    if only_theirs:
        log.mkdir()
    else:
        with Writer(log) as writer:
            writer.cutover()
        (log / "00000002.dat").unlink()
    number = 1 if only_theirs else 2
    jpos_file(log, [b"theirs"], number=number)
    with Writer(log) as writer:
        with pytest.raises(StateError, match="cut over first"):
            writer.ingest([external_file(log / "aside", "small", [b"1"], durable_from=100)])
        batch = writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=0)
        assert batch is not None
        assert batch.number == number + 1
        assert writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=0) is None
        writer.append(b"after")
    assert read_all(log) == [b"theirs", b"1", b"2", b"after"]
    assert [file.first_sequence for file in binlog.stat(log).files][number:] == [1, 2]
    assert binlog.check(log) == []


def test_an_empty_next_file_that_a_dead_cutover_left_comes_first(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        with Writer(log) as other:
            other.cutover()
        # As a process leaves it that died after it named the next file and before it closed this one.
        with open(log / "00000001.dat", "r+b") as file:
            file.seek(6)
            file.write(bytes(2))
            file.seek(20)
            file.write(bytes(4))
        batch = writer.ingest(external_files(log, [b"1"]))
        assert batch is not None
        assert batch.number == 3
    assert read_all(log) == [b"before", b"1"]
    assert binlog.check(log) == []


def test_ingested_files_have_the_writers_permissions_and_limits(log: Path) -> None:
    with Writer(log, permissions=0o604, cutover_bytes=1000) as writer:
        writer.ingest(external_files(log, [bytes(600)], [bytes(2000)]))
        assert (log / "00000003.dat").stat().st_mode & 0o777 == 0o604
        writer.append(b"over the limit")
        assert writer.append(b"after").number == 4
    assert binlog.check(log) == []


def test_an_ingest_without_free_file_numbers_raises(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        writer.append(b"before")
        monkeypatch.setattr(ingest, "NUMBER_MAX", 2)
        with pytest.raises(FullError, match="no more file numbers"):
            writer.ingest(external_files(log, [b"1"], [b"2"]))
        assert writer.ingest(external_files(log, [b"1"])) is not None
    assert read_all(log) == [b"before", b"1"]


def test_an_external_file_removed_during_the_ingest_leaves_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = ingest.Ingestion._take
    with Writer(log) as writer:
        writer.append(b"before")
        good, lost = external_files(log, [b"1"], [b"2"])

        def taken(self: ingest.Ingestion, each: ExternalFile, *arguments: Any) -> None:
            if each is lost:
                os.unlink(lost.path)
            take(self, each, *arguments)

        monkeypatch.setattr(ingest.Ingestion, "_take", taken)
        with pytest.raises((AccessError, KeyError)):
            writer.ingest([good, lost], producer="s", sequence=1)
        assert sorted(path.name for path in log.iterdir()) == ["00000001.dat", "00000001.idx", "aside"]
        monkeypatch.undo()
        assert writer.ingest(external_files(log, [b"1"], [b"2"]), producer="s", sequence=1) is not None
    assert read_all(log) == [b"before", b"1", b"2"]


def test_an_external_file_given_twice_is_refused(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer, Writer(tmp_path / "other") as other:
        [made] = external_files(log, [b"1"])
        with pytest.raises(ValueError, match="an external file is given twice"):
            writer.ingest([made, made])
        writer.ingest([made])
        with pytest.raises(AccessError, match="No such file"):
            other.ingest([made])
        other.append(b"its own")
    assert read_all(log) == [b"1"]
    assert read_all(tmp_path / "other") == [b"its own"]


def test_an_external_file_that_two_writers_ingest_is_in_one_log(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writer, which opened the file before the second took it, finds no file under its name."""
    with Writer(log) as writer, Writer(tmp_path / "other") as other:
        [made] = external_files(log, [b"1"])

        def locked(fd: int, path: str, timeout: float | None = None) -> None:
            monkeypatch.undo()
            thread = threading.Thread(target=other.ingest, args=([made],))
            thread.start()
            thread.join()
            locks.lock(fd, path, timeout)

        monkeypatch.setattr(ingest, "lock", locked)
        with pytest.raises(AccessError, match="No such file or directory while checking it again"):
            writer.ingest([made])
        writer.append(b"its own")
        other.append(b"2")
    assert read_all(log) == [b"its own"]
    assert read_all(tmp_path / "other") == [b"1", b"2"]
