"""The sequence number and the time of an entry, read from its log, and the lag of a reader."""

from __future__ import annotations

import os
import pickle
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Lag, Reader, Ref, Writer
from binlog.errors import GoneError, StateError
from tests.support.logs import jpos_file


def test_an_entry_knows_its_sequence_number_and_its_time(log: Path) -> None:
    begun = datetime.now(UTC) - timedelta(milliseconds=50)
    with Writer(log) as writer:
        for number in range(50):
            writer.append(b"%d" % number)
        writer.cutover()
        writer.append_many([b"x"] * 20)
    with Reader(log) as reader:
        entries = list(reader)
        batches = Reader(log).read_batch().entries()
    ended = datetime.now(UTC)
    # The reader is closed by now: the lookup reads the log.
    assert [entry.sequence for entry in entries] == list(range(70))
    times = [entry.time for entry in entries]
    assert times == sorted(times)
    assert all(begun <= each <= ended + timedelta(seconds=1) for each in times)
    assert [entry.sequence for entry in batches] == list(range(50))
    assert batches[3].time == entries[3].time


def test_times_are_those_of_the_index_and_without_one_that_of_the_file(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"old")
        writer.cutover()
    (entry,) = Reader(log)
    known = entry.time
    path = log / "00000001.dat"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert entry.time == known
    (log / "00000001.idx").unlink()
    assert entry.time == datetime.fromtimestamp(1_000_000_000, UTC)
    assert entry.sequence == 0


def test_foreign_records_have_a_time_and_no_sequence_number(tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"a", b"b"])
    entry = list(Reader(tmp_path))[1]
    assert entry.sequence is None
    assert entry.time.tzinfo is UTC
    assert binlog.stat(tmp_path).record_count is None
    assert binlog.stat(tmp_path).end_sequence is None
    with Reader(tmp_path) as reader:
        assert reader.lag() == Lag(None, 10)


def test_an_entry_of_a_removed_file_and_one_without_a_reader(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")
    entry = next(Reader(log))
    binlog.prune(log, keep_bytes=0)
    with pytest.raises(GoneError, match="1:256"):
        assert entry.sequence
    with pytest.raises(StateError, match="not from a Reader"):
        assert Entry(Ref(1, 256), b"").time


def test_an_entry_is_a_pair_of_ref_and_data(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
    entry = next(Reader(log))
    assert entry == Entry(Ref(1, 256), b"1") == (Ref(1, 256), b"1")
    assert repr(entry) == repr(Entry(Ref(1, 256), b"1"))
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert hash(entry) == hash(Entry(Ref(1, 256), b"1"))
    assert isinstance(entry, Entry)
    # One type per log, for any number of readers.
    assert type(next(Reader(log))) is type(entry)


def test_a_relative_path_is_that_of_the_reader_s_directory(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
    monkeypatch.chdir(log.parent)
    with Reader(log.name) as reader:
        entry = next(reader)
        monkeypatch.chdir("/")
        assert entry.sequence == 0
        assert reader.path == log.name


def test_a_reader_and_a_ref_have_a_lag(log: Path) -> None:
    with Writer(log) as writer:
        assert writer.path == str(log)
        refs = writer.append_many([b"12345"] * 10)
        writer.cutover()
        writer.append_many([b"1"] * 5)
        with Reader(log) as reader:
            assert reader.path == str(log)
            assert reader.lag() == Lag(15, 10 * 9 + 5 * 5)
            next(reader)
            assert reader.lag() == Lag(14, 9 * 9 + 5 * 5)
            assert binlog.lag(log, refs[4]) == Lag(11, 6 * 9 + 5 * 5)
            list(reader)
            assert reader.lag() == Lag(0, 0)
            writer.append(b"new")
            assert reader.lag() == Lag(1, 7)
        assert binlog.stat(log).record_count == 16
        assert binlog.stat(log).end_sequence == 16
    with pytest.raises(ValueError, match="is not the start of a record"):
        binlog.lag(log, Ref(1, 257))
    with pytest.raises(GoneError):
        binlog.lag(log, Ref(7, 256))


def test_an_open_reader_can_stop_following_and_start_again(log: Path) -> None:
    with Writer(log) as writer, Reader(log, follow=False) as reader:
        for number in range(4):
            writer.append(b"%d" % number)
            writer.cutover()
        assert [entry.data for entry in reader] == [b"0"]
        assert not reader.wait()
        assert not reader.follow
        reader.follow = True
        assert next(reader).data == b"1"
        reader.follow = False
        assert [entry.data for entry in reader] == []
        reader.follow = True
        assert [entry.data for entry in reader] == [b"2", b"3"]


def test_every_error_is_at_the_top_of_the_package() -> None:
    for name in binlog.errors.__all__:
        assert getattr(binlog, name) is getattr(binlog.errors, name)
        assert name in binlog.__all__


@pytest.mark.slow
def test_a_lookup_is_quick_and_does_not_slow_iteration(log: Path) -> None:
    """A loose limit, because the machine may be busy: reading the whole file for each would take seconds."""
    with Writer(log, mode="flush") as writer:
        for _ in range(200):
            writer.append_many([b"x" * 100] * 500)
    entries = list(Reader(log))
    begun = time.process_time()
    assert [entry.sequence for entry in entries[::1000]] == list(range(0, 100_000, 1000))
    assert all(entry.time for entry in entries[::1000])
    assert time.process_time() - begun < 2
