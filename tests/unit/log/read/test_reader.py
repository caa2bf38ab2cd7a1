from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Entry, Reader, Ref, Start, Writer
from binlog.errors import AccessError, ClosedError, CorruptError, FullError, GoneError, NotFoundError
from tests.support.logs import jpos_file


@pytest.fixture
def three_files(log: Path) -> Path:
    """Records a0 a1 a2, b0 b1 b2, c0 c1 c2 in files 1, 2, 3; an empty file 4 is open."""
    with Writer(log) as writer:
        for letter in "abc":
            writer.append_many([f"{letter}{index}".encode() for index in range(3)])
            writer.cutover()
    return log


def _data(entries: list[Entry]) -> bytes:
    return b" ".join(entry.data for entry in entries)


def test_iterating_stops_when_caught_up_and_continues_later(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        assert list(reader) == []
        writer.append(b"1")
        assert list(reader) == [Entry(Ref(1, 256), b"1")]
        assert list(reader) == []
        writer.cutover()
        writer.append(b"2")
        assert list(reader) == [Entry(Ref(2, 256), b"2")]


def test_reading_starts_at_the_beginning_the_end_or_a_ref(three_files: Path) -> None:
    assert _data(list(Reader(three_files))) == b"a0 a1 a2 b0 b1 b2 c0 c1 c2"
    assert list(Reader(three_files, Start.END)) == []
    assert _data(list(Reader(three_files, Ref(2, 262)))) == b"b1 b2 c0 c1 c2"
    assert _data(list(Reader(three_files, Ref(2, 274)))) == b"c0 c1 c2"


def test_without_following_reading_ends_with_the_file(three_files: Path) -> None:
    assert _data(list(Reader(three_files, follow=False))) == b"a0 a1 a2"
    reader = Reader(three_files, Ref(3, 262), follow=False)
    assert _data(list(reader)) == b"c1 c2"
    assert reader.wait(30) is False
    # Tomorrow's extract starts here.
    assert reader.next_ref == Ref(4, 256)


def test_next_ref_restarts_exactly(three_files: Path) -> None:
    reader = Reader(three_files)
    seen = []
    for entry in reader:
        seen.append(entry.data)
        later = Reader(three_files, reader.next_ref)
        assert [*seen, *(entry.data for entry in later)] == [e.data for e in Reader(three_files)]
        later.close()


def test_next_ref_stays_at_a_closed_files_tail_until_the_next_file_exists(three_files: Path) -> None:
    reader = Reader(three_files, Ref(2, 274), follow=False)
    (three_files / "00000003.dat").rename(three_files / "aside")
    assert reader.next_ref == Ref(2, 274)
    (three_files / "aside").rename(three_files / "00000003.dat")
    assert reader.next_ref == Ref(3, 256)


NO_RECORDS = [
    *(Ref(1, offset) for offset in (0, 255, 257, 273, 275, 2**60, -4, 2**70)),
    *(Ref(number, 256) for number in (9, 0, -1)),
]


@pytest.mark.parametrize("ref", NO_RECORDS, ids=str)
def test_a_ref_that_is_no_records_start_is_a_value_error(three_files: Path, ref: Ref) -> None:
    with pytest.raises(ValueError, match=str(ref)):
        Reader(three_files, ref)


def test_a_ref_into_a_removed_file_is_gone(three_files: Path) -> None:
    (three_files / "00000001.dat").unlink()
    with pytest.raises(GoneError):
        Reader(three_files, Ref(1, 256))


def test_a_start_of_another_kind_is_a_type_error(three_files: Path) -> None:
    with pytest.raises(TypeError):
        Reader(three_files, (1, 256))  # type: ignore[arg-type]


def test_batches_have_the_records_as_stored(three_files: Path) -> None:
    reader = Reader(three_files)
    batch = reader.read_batch()
    assert list(batch) == [b"a0", b"a1", b"a2"]
    assert batch.offsets.tolist() == [0, 6, 12, 18]
    assert batch.offsets.format == "I"
    assert bytes(batch.data[batch.offsets[1] + 4 : batch.offsets[2]]) == b"a1"
    assert batch.refs() == [Ref(1, 256), Ref(1, 262), Ref(1, 268)]
    assert batch.entries() == [Entry(Ref(1, 256), b"a0"), Entry(Ref(1, 262), b"a1"), Entry(Ref(1, 268), b"a2")]
    assert (batch.first_sequence, batch.next_ref) == (0, Ref(1, 274))
    values, bounds = batch.packed()
    assert (bytes(values), bounds.tolist()) == (b"a0a1a2", [0, 2, 4, 6])
    assert reader.read_batch(records_max=1).first_sequence == 3
    assert list(reader.read_batch(bytes_max=7)) == [b"b1"]
    assert list(reader.read_batch(bytes_max=1)) == [b"b2"]
    assert list(reader.read_batch()) == [b"c0", b"c1", b"c2"]
    end = reader.read_batch()
    assert (len(end), list(end), end.refs(), end.next_ref) == (0, [], [], Ref(4, 256))


def test_batches_continue_where_iterating_stopped_and_back(three_files: Path) -> None:
    reader = Reader(three_files)
    assert next(reader).data == b"a0"
    batch = reader.read_batch(records_max=1)
    assert (list(batch), batch.first_sequence) == ([b"a1"], 1)
    assert next(reader).data == b"a2"
    assert list(reader.read_batch()) == [b"b0", b"b1", b"b2"]


@pytest.mark.slow
def test_a_record_larger_than_a_batch_comes_alone(log: Path) -> None:
    records = [b"small", os.urandom(3 << 20), b"", os.urandom(2 << 20)]
    with Writer(log) as writer:
        writer.append_many(records)
    reader = Reader(log)
    batches = []
    while batch := reader.read_batch(bytes_max=1 << 20):
        batches.append(list(batch))
    assert batches == [[b"small"], [records[1]], [b""], [records[3]]]
    assert [entry.data for entry in Reader(log)] == records


def test_a_record_over_the_readers_limit_is_refused_and_the_position_kept(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"1", bytes(100), b"2"])
    reader = Reader(log, record_bytes_max=99)
    assert next(reader).data == b"1"
    for _ in range(2):
        with pytest.raises(FullError) as caught:
            next(reader)
        assert (caught.value.limit, caught.value.size) == (99, 100)
    assert reader.next_ref == Ref(1, 261)
    assert [entry.data for entry in Reader(log, reader.next_ref)] == [bytes(100), b"2"]


def test_waiting_ends_when_a_record_comes_or_time_runs_out(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        assert reader.wait(0) is False
        assert reader.wait(0.01) is False
        thread = threading.Timer(0.05, writer.append, (b"1",))
        thread.start()
        assert reader.wait(30) is True
        assert reader.wait(0) is True
        thread.join()
        next(reader)
        assert reader.wait(0) is False


def test_waiting_sees_records_read_ahead(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        writer.append_many([b"1", b"2"])
        next(reader)
        assert reader.wait(0) is True
        next(reader)
        assert reader.wait(0) is False


def test_tail_waits_over_a_cutover_and_ends_with_its_timeout(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        writer.append(b"1")

        def go_on() -> None:
            writer.append(b"2")
            writer.cutover()
            writer.append(b"3")

        thread = threading.Timer(0.05, go_on)
        thread.start()
        entries = reader.tail(timeout=30)
        assert [next(entries).data for _ in range(3)] == [b"1", b"2", b"3"]
        assert list(reader.tail(timeout=0.01)) == []
        thread.join()


def test_a_reader_waits_for_the_first_file(log: Path) -> None:
    log.mkdir()
    reader = Reader(log)
    assert list(reader) == []
    assert reader.next_ref == Ref(1, 256)
    assert len(reader.read_batch()) == 0

    def begin() -> None:
        with Writer(log) as writer:
            writer.append(b"1")

    thread = threading.Thread(target=begin)
    thread.start()
    assert reader.wait(30) is True
    assert next(reader).data == b"1"
    thread.join()


def test_the_end_of_a_log_without_files_is_its_beginning(log: Path) -> None:
    log.mkdir()
    reader = Reader(log, Start.END)
    with Writer(log) as writer:
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")
    assert [entry.data for entry in reader] == [b"1", b"2"]


def test_asyncio_readers_share_a_thread_and_follow_a_cutover(log: Path) -> None:
    with Writer(log) as writer:

        async def read(count: int) -> list[bytes]:
            found = []
            with Reader(log) as reader:
                async for entry in reader:
                    found.append(entry.data)
                    if len(found) == count:
                        break
            return found

        async def main() -> list[list[bytes]]:
            tasks = [asyncio.create_task(read(4)) for _ in range(20)]
            for record in (b"1", b"2"):
                await asyncio.to_thread(writer.append, record)
            await asyncio.to_thread(writer.cutover)
            for record in (b"3", b"4"):
                await asyncio.to_thread(writer.append, record)
            return await asyncio.gather(*tasks)

        assert asyncio.run(main()) == [[b"1", b"2", b"3", b"4"]] * 20


def test_asyncio_without_following_ends_with_the_closed_file(three_files: Path) -> None:
    async def main() -> list[bytes]:
        return [entry.data async for entry in Reader(three_files, follow=False)]

    assert asyncio.run(main()) == [b"a0", b"a1", b"a2"]


def test_a_closed_reader_refuses(three_files: Path) -> None:
    reader = Reader(three_files)
    next(reader)
    reader.close()
    reader.close()
    for call in (lambda: next(reader), reader.read_batch, reader.wait, lambda: reader.next_ref):
        with pytest.raises(ClosedError):
            call()


def test_a_reader_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="missing: there is no such directory"):
        Reader(tmp_path / "missing")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AccessError) as caught:
        Reader(tmp_path / "file")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == 20


def test_a_reader_of_removed_files_gets_an_error(three_files: Path) -> None:
    reader = Reader(three_files)
    assert next(reader).data == b"a0"
    for number in (1, 2, 3):
        (three_files / f"{number:08d}.dat").unlink()
    assert [next(reader).data for _ in range(2)] == [b"a1", b"a2"]
    with pytest.raises(GoneError):
        next(reader)


def test_a_missing_next_file_is_damage(three_files: Path) -> None:
    (three_files / "00000002.dat").rename(three_files / "aside")
    reader = Reader(three_files)
    assert len(reader.read_batch()) == 3
    with pytest.raises(CorruptError) as caught:
        reader.read_batch()
    assert caught.value.rule == "missing-next"
    (three_files / "aside").rename(three_files / "00000002.dat")
    assert list(reader.read_batch()) == [b"b0", b"b1", b"b2"]


def test_a_jpos_file_is_read_without_sequence_numbers(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"hello", b"A" * 1000, b""])
    batch = Reader(log).read_batch()
    assert (batch.refs()[0], list(batch), batch.first_sequence) == (Ref(1, 248), [b"hello", b"A" * 1000, b""], None)


def test_an_empty_batch_is_false_and_equal_to_none_of_the_others(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"")
    reader = Reader(log)
    full = reader.read_batch()
    assert isinstance(full, Batch)
    assert full
    assert not reader.read_batch()


def test_stat_shows_files_and_records(three_files: Path) -> None:
    stat = binlog.stat(three_files)
    assert [file.closed for file in stat.files] == [True, True, True, False]
    assert stat.tail == Ref(4, 256)
    assert stat.files[3].file_bytes == 1 << 20
    assert stat.files[0].file_bytes == 274
    assert len({file.uuid for file in stat.files}) == 1


def test_a_writer_reads_to_its_own_record_without_the_header(log: Path) -> None:
    with Writer(log) as other, Writer(log) as writer, Reader(log) as reader:
        other.append(b"before")
        assert reader.read_to(Ref(1, 256), 6) is not None
        others = [other.append(b"%d" % number) for number in range(3)]
        own = writer.append(b"own")
        other.append(b"later")
        batch = reader.read_to(own, 3)
        assert batch is not None
        assert batch.entries() == [*(Entry(ref, b"%d" % at) for at, ref in enumerate(others)), Entry(own, b"own")]
        assert batch.first_sequence == 1
        assert [entry.data for entry in reader] == [b"later"]
        # The position is after it, in another file, or too far before it: nothing is read.
        assert reader.read_to(own, 3) is None
        other.append(bytes(20_000))
        last = writer.append(b"far")
        assert reader.read_to(last, 3) is None
        writer.cutover()
        assert reader.read_to(writer.append(b"next file"), 9) is None
        assert [len(entry.data) for entry in reader] == [20_000, 3, 9]


def test_a_writer_does_not_read_to_a_place_that_is_no_record(log: Path) -> None:
    with Writer(log) as writer, Reader(log) as reader:
        ref = writer.append(b"only")
        assert reader.read_to(ref, 3) is None
        assert reader.read_to(ref, 5) is None
        assert list(reader) == [Entry(ref, b"only")]
