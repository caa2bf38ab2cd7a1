"""Starting at a sequence number or a time; and a false index shows no wrong record."""

from __future__ import annotations

import os
import random
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlog
from binlog import Entry, Mode, Reader, Ref, Sequence, Since, Start, Writer
from binlog.errors import GoneError
from binlog.format.log_header import parse_log_header
from binlog.log.directory import LogDirectory
from binlog.log.recovery.evidence import FileEvidence
from tests.support.indexes import check_entries, index_entries
from tests.support.logs import jpos_file


def _write(log: Path, *, files: int = 3, records: int = 400, seed: int = 3) -> list[tuple[Entry, float]]:
    """Make a log with a mixture of everything; return each record, and a time not after its append."""
    dice = random.Random(seed)
    written = []
    with Writer(log) as writer:
        for number in range(files):
            for _ in range(records):
                data, now = b"%d" % len(written) * dice.randrange(1, 200), time.time()
                mode = Mode.SYNC if dice.random() < 0.03 else Mode.FLUSH
                written.append((Entry(writer.append(data, mode=mode), data), now))
            if number < files - 1:
                writer.cutover()
    return written


@pytest.mark.slow
def test_a_reader_begins_at_each_sequence_number(log: Path) -> None:
    written = _write(log)
    for sequence in [*random.Random(4).sample(range(len(written)), 100), 0, 399, 400, 1199]:
        with Reader(log, Sequence(sequence)) as reader:
            assert next(reader) == written[sequence][0]
        with Reader(log, Sequence(sequence)) as reader:
            assert reader.read_batch().first_sequence == sequence


def test_a_reader_waits_for_the_next_sequence_number_and_refuses_a_later_one(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"first")
        with Reader(log, Sequence(1)) as reader:
            assert list(reader) == []
            writer.append(b"second")
            assert next(reader).data == b"second"
        with pytest.raises(ValueError, match="the log has 2 records"):
            Reader(log, Sequence(3))


def test_sequence_numbers_of_an_empty_log(log: Path) -> None:
    log.mkdir()
    with Reader(log, Sequence(0)) as reader, Writer(log) as writer:
        writer.append(b"first")
        assert next(reader).data == b"first"
    with pytest.raises(ValueError, match="no records"):
        Reader(_empty(log.parent / "empty"), Sequence(1))


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_sequence_number_in_a_removed_file_is_gone(tmp_path: Path) -> None:
    _write(tmp_path / "log")
    (tmp_path / "log" / "00000001.dat").unlink()
    with pytest.raises(GoneError):
        Reader(tmp_path / "log", Sequence(399))
    assert Reader(tmp_path / "log", Sequence(400)).read_batch().first_sequence == 400


def test_foreign_records_have_no_sequence_number(tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"one", b"two"])
    with pytest.raises(ValueError, match="another program"):
        Reader(tmp_path, Sequence(1))


@pytest.mark.slow
def test_nothing_appended_since_a_time_is_left_out_and_few_older_records_precede(log: Path) -> None:
    written = _write(log)
    ends = [entry.offset + entry.size for number in (1, 2, 3) for entry in index_entries(log, number)]
    assert len(ends) > 20
    for place in random.Random(5).sample(range(len(written)), 100):
        entry, moment = written[place]
        with Reader(log, Since(moment)) as reader:
            begun = next(reader).ref
        assert begun <= entry.ref
        before = sum(len(each.data) + 4 for each, _ in written[:place] if begun <= each.ref)
        assert before <= 65536


def test_since_now_is_the_end_and_since_long_ago_the_beginning(log: Path) -> None:
    written = _write(log)
    assert list(Reader(log, Since(time.time() + 1))) == []
    for start in (Since(0), Since(-5.5), Since(datetime(1960, 1, 1, tzinfo=UTC))):
        assert next(Reader(log, start)) == written[0][0]
    zone = datetime.now(UTC).astimezone().tzinfo
    assert list(Reader(log, Since(datetime.now(zone) + timedelta(seconds=1)))) == []


def test_without_an_index_the_files_times_count(log: Path) -> None:
    written = _write(log)
    for path in log.glob("*.idx"):
        path.unlink()
    second = log / "00000002.dat"
    made_ns = parse_log_header(second.read_bytes()[:256], path=str(second)).created_ns
    os.utime(log / "00000001.dat", ns=(made_ns, made_ns))
    assert next(Reader(log, Since(made_ns / 1e9 + 0.0001))) == written[400][0]
    assert next(Reader(log, Since(made_ns / 1e9 - 0.0001))) == written[0][0]
    assert next(Reader(log, Sequence(555))) == written[555][0]


@pytest.mark.parametrize("wrong", [True, b"1:256", None, 1.5, Since])
def test_a_start_of_another_type_is_refused(log: Path, wrong: object) -> None:
    with Writer(log), pytest.raises(TypeError):
        Reader(log, wrong)  # type: ignore[arg-type]


def test_impossible_numbers_and_times_are_refused() -> None:
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="out of range"):
            Sequence(wrong)
    for time_ in (float("nan"), 1e300):
        with pytest.raises(ValueError, match="out of range"):
            Since(time_)
    with pytest.raises(ValueError, match="zone"):
        Since(datetime(2025, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(TypeError):
        Since("today")  # type: ignore[arg-type]
    assert Since(datetime(2025, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)).time_ns == 1738324800_123456_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Entry]]:
    log = tmp_path_factory.mktemp("sound") / "log"
    return log, [entry for entry, _ in _write(log, files=2, records=300)]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_tampered_index_shows_no_wrong_record(
    sound: tuple[Path, list[Entry]], tmp_path: Path, data: st.DataObject
) -> None:
    log, entries = tmp_path / "log", sound[1]
    shutil.rmtree(log, ignore_errors=True)
    shutil.copytree(sound[0], log)
    index = bytearray((log / "00000001.idx").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at, to = data.draw(st.integers(0, len(index) - 1)), data.draw(st.integers(0, len(index) - 1))
        match data.draw(st.sampled_from(["byte", "field", "copy", "cut", "insert"])):
            case "byte":
                index[at] ^= data.draw(st.integers(1, 255))
            case "field":
                index[at // 8 * 8 : at // 8 * 8 + 8] = data.draw(st.integers(0, 100_000)).to_bytes(8, "big")
            case "copy":
                at, to = at // 32 * 32, to // 32 * 32
                index[to : to + 32] = index[at : at + 32]
            case "cut":
                del index[max(at, 16) :]
            case "insert":
                index[at:at] = data.draw(st.binary(max_size=64))
    (log / "00000001.idx").write_bytes(index)
    for number in data.draw(st.lists(st.integers(0, 599), min_size=3, max_size=6)):
        assert next(Reader(log, Sequence(number))) == entries[number]
        with Reader(log, entries[number].ref) as reader:
            assert reader.read_batch(records_max=1).first_sequence == number
    for place in data.draw(st.lists(st.integers(256, entries[299].ref.offset), max_size=4)):
        ref = Ref(1, place)
        if ref not in {entry.ref for entry in entries}:
            with pytest.raises(ValueError, match="is not the start of a record"):
                Reader(log, ref)
    begun = next(iter(Reader(log, Since(data.draw(st.floats(0, 4e9))))), None)
    assert begun is None or begun in entries
    assert {problem.rule for problem in binlog.check(log)} <= {"index", "index-crc"}
    with Writer(log) as writer:
        writer.cutover()
    assert list(Reader(log)) == entries


def test_entries_prove_records_that_were_not_synced(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"synced")
        start = 256 + 4 + 6
        for _ in range(300):
            writer.append(bytes(1000), mode=Mode.FLUSH)
        shutil.copytree(log, log.with_name("copy"))
    tail = start + 300 * 1004
    path = log.with_name("copy") / "00000001.dat"
    entries = index_entries(log.with_name("copy"))
    assert len(entries) == 5
    with open(path, "r+b") as file:
        evidence = FileEvidence(file.fileno(), str(path))
        assert evidence.proven_end(start, tail) == entries[4].offset + entries[4].size
        assert evidence.proven_end(start, entries[4].offset + 1) == entries[4].offset
        file.seek(entries[3].offset + 100)
        file.write(b"!")
        file.flush()
        assert evidence.proven_end(start, tail) == entries[3].offset
        assert evidence.proven_end(entries[3].offset, tail) == entries[3].offset
    shutil.rmtree(log.with_name("copy"))


def test_a_flipped_bit_in_a_record_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _write(log, files=1, records=100)
    assert check_entries(log) == 0
    data = (log / "00000001.dat").read_bytes()
    with open(log / "00000001.dat", "r+b") as file:
        for entry in index_entries(log):
            at = random.Random(entry.offset).randrange(entry.offset + 4, entry.offset + entry.size)
            file.seek(at)
            file.write(bytes([data[at] ^ 0x10]))
            file.flush()
            told = [(problem.rule, problem.offset) for problem in binlog.check(log)]
            assert ("index-crc", entry.offset) in told
            file.seek(at)
            file.write(data[at : at + 1])
            file.flush()
    assert binlog.check(log) == []


@pytest.mark.slow
def test_the_canary_a_directory_is_not_scanned_for_each_start(log: Path) -> None:
    """A start near the end of a large file reads little of it, which is the purpose of an index."""
    with Writer(log) as writer:
        for _ in range(64):
            writer.append_many([bytes(1000)] * 1000)
        ref = writer.append(b"last")
    for start in (ref, Sequence(64000), Start.END):
        before = _read_bytes()
        with Reader(log, start) as reader:
            reader.read_batch()
        assert _read_bytes() - before < 1 << 20
    assert LogDirectory(log).numbers() == [1]


def _read_bytes() -> int:
    return next(
        int(line.split()[1]) for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")
    )
