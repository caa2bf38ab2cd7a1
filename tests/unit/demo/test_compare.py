"""The judge accepts correct data and rejects every kind of error."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Writer
from stress.demo import compare
from stress.demo.compare import Keys, Ledger
from stress.demo.events import Key, hash_of, key_of, make_record
from tests.support.checkout import ROOT

WRITERS, EVENTS = 2, 10
KEYS = [Key(writer, sequence, f"{writer}{sequence}") for writer in range(WRITERS) for sequence in range(5)]
KILLED = Key(1, 3, "13")


@pytest.fixture
def ledger() -> Ledger:
    """Everything is acknowledged, and the killed writer's in-flight record was not in the log."""
    return Ledger(EVENTS, WRITERS, acknowledged=Counter(KEYS), in_flight=KILLED)


def wrong(log: Keys, ledger: Ledger, *, followed: Keys | None = None, extracted: Keys | None = None) -> str:
    _, lines = compare.judge(
        log, log if followed is None else followed, log if extracted is None else extracted, ledger
    )
    return "\n".join(lines)


def test_equal_data_has_no_differences(ledger: Ledger) -> None:
    assert wrong(Counter(KEYS), ledger) == ""


def test_the_in_flight_record_may_exist_unacknowledged(ledger: Ledger) -> None:
    del ledger.acknowledged[KILLED]
    ledger.found[KILLED] += 1
    assert wrong(Counter(KEYS), ledger) == ""


def dropped(keys: Keys) -> None:
    keys[KEYS[2]] -= 1


def duplicated(keys: Keys) -> None:
    keys[KEYS[2]] += 1


def changed(keys: Keys) -> None:
    keys[KEYS[2]] -= 1
    keys[KEYS[2]._replace(hash="other")] += 1


MISHAPS = pytest.mark.parametrize("mishap", [dropped, duplicated, changed])


@MISHAPS
@pytest.mark.parametrize("where", ["followed", "extracted"])
def test_a_difference_from_the_log_is_found(ledger: Ledger, mishap: Callable[[Keys], None], where: str) -> None:
    log, other = Counter(KEYS), Counter(KEYS)
    mishap(other)
    text = wrong(log, ledger, **{where: other})
    assert f"writer {KEYS[2].writer}, sequence {KEYS[2].sequence}" in text
    assert ("follower" if where == "followed" else "Parquet") in text


@MISHAPS
def test_a_difference_from_the_acknowledged_records_is_found(ledger: Ledger, mishap: Callable[[Keys], None]) -> None:
    """The same error in all three places: they are equal, and all wrong."""
    log = Counter(KEYS)
    mishap(log)
    assert f"writer {KEYS[2].writer}, sequence {KEYS[2].sequence}" in wrong(log, ledger)


def test_the_in_flight_record_must_not_exist_twice(ledger: Ledger) -> None:
    log = Counter(KEYS)
    log[KILLED] += 1
    assert "appended more than once: writer 1, sequence 3" in wrong(log, ledger)


def test_the_in_flight_record_must_not_exist_twice_with_other_bytes(ledger: Ledger) -> None:
    log = Counter(KEYS)
    log[KILLED._replace(hash="measured again")] += 1
    assert "appended more than once: writer 1, sequence 3" in wrong(log, ledger)


def test_an_event_that_was_never_appended_is_found(ledger: Ledger) -> None:
    log = Counter(KEYS[:-1])
    ledger.acknowledged = log.copy()
    assert wrong(log, ledger) == "never appended: writer 1, sequence 4, hash -"


def test_a_successor_with_another_result_is_found(ledger: Ledger) -> None:
    del ledger.acknowledged[KEYS[0]]
    ledger.found[KEYS[0]] += 1
    assert "found, but not the in-flight record: writer 0, sequence 0" in wrong(Counter(KEYS), ledger)


def test_long_lists_are_truncated_and_counted() -> None:
    many = Counter(Key(0, sequence, "x") for sequence in range(1000))
    lines = compare.differences(Counter(), what="it", log=many)
    assert len(lines) == 11
    assert lines[-1].endswith("1,000 in total")


def test_a_ledger_round_trips(ledger: Ledger, tmp_path: Path) -> None:
    ledger.found[KEYS[0]] += 1
    ledger.acknowledged[KEYS[1]] += 1
    ledger.save(tmp_path / "ledger")
    assert Ledger.load(tmp_path / "ledger") == ledger
    ledger.in_flight = None
    ledger.save(tmp_path / "ledger")
    assert Ledger.load(tmp_path / "ledger").in_flight is None


RECORDS = [
    make_record({"path": "/x", "line": 1, "text": f"event {sequence}"}, writer=writer, sequence=sequence)
    for writer in range(WRITERS)
    for sequence in range(5)
]


def write_parquet(path: Path, records: list[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    keys = [key_of(record) for record in records]
    columns = {"writer": [key.writer for key in keys], "writer_sequence": [key.sequence for key in keys]}
    pyarrow.parquet.write_table(pa.table({**columns, "data": records}), path)


def run_judge(place: Path, *, followed: list[bytes], extracted: list[bytes]) -> subprocess.CompletedProcess[str]:
    """Run the demo's comparing process over a log of RECORDS."""
    with Writer(place / "log") as writer:
        writer.append_many(RECORDS)
    Ledger(EVENTS, WRITERS, acknowledged=Counter(map(key_of, RECORDS))).save(place / "ledger")
    (place / "journal").write_text("".join(f"{key_of(record)} 1:256\n" for record in followed))
    write_parquet(place / "parquet", extracted)
    return judge(place)


def judge(place: Path) -> subprocess.CompletedProcess[str]:
    names = ("log", "journal", "parquet", "ledger")
    arguments = [word for name in names for word in (f"--{name}", str(place / name))]
    command = [sys.executable, "-m", "stress.demo.compare", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.spark  # for pyarrow
def test_the_judge_accepts_correct_data(tmp_path: Path) -> None:
    done = run_judge(tmp_path, followed=RECORDS, extracted=RECORDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The three are equal, as multisets of (writer, sequence, hash)." in done.stdout


@pytest.mark.spark  # for pyarrow
@pytest.mark.parametrize("mishap", ["dropped", "duplicated", "changed"])
@pytest.mark.parametrize("where", ["followed", "extracted"])
def test_the_judge_rejects_wrong_data(tmp_path: Path, mishap: str, where: str) -> None:
    other = {
        "dropped": RECORDS[:4] + RECORDS[5:],
        "duplicated": [*RECORDS, RECORDS[4]],
        "changed": [*RECORDS[:4], RECORDS[4].replace(b"event", b"evenT"), *RECORDS[5:]],
    }[mishap]
    done = run_judge(tmp_path, **{"followed": RECORDS, "extracted": RECORDS, where: other})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "It is NOT the same" in done.stdout
    assert "writer 0, sequence 4" in done.stdout
    assert hash_of(RECORDS[4]) in done.stdout


@pytest.mark.spark  # for pyarrow
def test_the_judge_rejects_a_damaged_log(tmp_path: Path) -> None:
    """All records are present and correct; only the end in the header is wrong."""
    run_judge(tmp_path, followed=RECORDS, extracted=RECORDS)
    with (tmp_path / "log" / "00000001.dat").open("r+b") as file:
        file.seek(248)
        file.write(b"\x01")
    done = judge(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "damage: " in done.stdout
