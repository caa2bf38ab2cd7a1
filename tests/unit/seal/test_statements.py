"""Statements tell of the events of a sealed log; each is signed, and none can be left out."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from binlog import Writer
from binlog.errors import SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import NOTE_SEPARATOR, parse_notes
from binlog.format.seal.statement import Kind, parse_statement
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, branch, end_log, read_statements, verify
from binlog.seal.sealing.seal_clock import SealClock
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three records, with a seal."""
    with Writer(tmp_path) as writer:
        writer.append_many([b"one", b"two", b"three"])
    begin_seal(tmp_path, KEY)
    return tmp_path


def _kinds(log: Path) -> list[Kind]:
    return [each.kind for each in read_statements(log, VKEY)]


def _rules(log: Path, **options: object) -> list[Rule]:
    return [finding.rule for finding in verify(log, VKEY, **options).findings]  # type: ignore[arg-type]


def _run(log: Path, seconds: float = 0.05) -> None:
    """Run a sealer until it has signed its first checkpoint."""
    stop = threading.Event()
    with Sealer(log, KEY) as sealer:
        thread = threading.Thread(target=sealer.run, args=(stop, seconds))
        thread.start()
        until((log / "seal" / "checkpoint").exists)
        stop.set()
        thread.join()


def test_a_sealer_tells_of_its_start_and_its_stop(log: Path) -> None:
    _run(log)
    _run(log)
    assert _kinds(log) == [Kind.START, Kind.STOP] * 2
    head = parse_checkpoint((log / "seal" / "checkpoint").read_text().split("\n\n")[0] + "\n")
    assert head.statements[0] == 4
    assert head.seconds is not None
    assert abs(head.seconds - time.time()) < 60
    assert _rules(log) == []


def test_a_statement_that_was_left_out_is_missing(log: Path) -> None:
    _run(log)
    path = log / "seal" / "statements"
    path.write_bytes(NOTE_SEPARATOR + str(next(parse_notes(path.read_bytes()))).encode())
    assert _rules(log) == [Rule.MISSING]
    with pytest.raises(SealError, match="counts 2 statements"):
        Sealer(log, KEY)
    path.unlink()
    assert _rules(log) == [Rule.MISSING]


def test_a_statement_that_was_changed_or_moved_is_not_accepted(log: Path) -> None:
    _run(log)
    path = log / "seal" / "statements"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"every":0.05}', b'{"every":0.06}'))
    assert _rules(log) == [Rule.KEY, Rule.MISSING]
    first, second = parse_notes(whole)
    path.write_bytes(NOTE_SEPARATOR.join([b"", str(second).encode(), str(first).encode()]))
    assert _rules(log) == [Rule.KEY, Rule.MISSING]
    path.write_bytes(whole + b"\n\n\nhalf of a statement that a power cut tore")
    assert _rules(log) == []
    _run(log)
    assert _kinds(log) == [Kind.START, Kind.STOP] * 2


def test_an_ended_log_is_not_sealed_on(log: Path) -> None:
    note = end_log(log, KEY, why="the year is over")
    assert parse_checkpoint(note.text).size == 3
    [statement] = read_statements(log, VKEY)
    assert (statement.kind, statement.values["why"]) == (Kind.END, "the year is over")
    assert _rules(log, max_age=0) == []
    with pytest.raises(SealError, match="the log has ended"):
        Sealer(log, KEY)
    with Writer(log) as writer:
        writer.append(b"four")
    assert _rules(log) == [Rule.UNSEALED]


def test_a_copy_becomes_a_log_of_its_own(log: Path) -> None:
    with Sealer(log, KEY) as sealer:
        old = sealer.seal()
    new_key = SigningKey.generate("example.org/copy")
    with pytest.raises(SealError, match="a name of its own"):
        branch(log, KEY, SigningKey.generate("example.org/audit"))
    statement = branch(log, KEY, new_key)
    assert (statement.kind, statement.values["origin"], statement.values["records"]) == (
        Kind.BRANCH,
        "example.org/audit",
        3,
    )
    assert statement.values["checkpoint"] == str(old)
    with Writer(log) as writer:
        writer.append(b"only in the copy")
    with Sealer(log, new_key) as sealer:
        assert parse_checkpoint(sealer.seal().text).size == 4
    assert verify(log, str(new_key.verifier)).findings == []
    assert Rule.KEY in _rules(log)
    with pytest.raises(SealError, match="not signed by"):
        verify(log, str(new_key.verifier), checkpoints=[old])


def test_the_size_is_signed_again_after_a_while(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sealer(log, KEY) as sealer:
        first = sealer.seal()
        assert sealer.seal() is first
        monkeypatch.setattr("binlog.seal.sealing.sealer.HEARTBEAT_SECONDS", 0)
        again = sealer.seal()
    assert again is not first
    assert parse_checkpoint(again.text).root == parse_checkpoint(first.text).root


def test_time_without_a_sealer_is_told(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    monkeypatch.setattr("binlog.seal.sealing.sealer.GAP_SECONDS", -1)
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    [statement] = read_statements(log, VKEY)
    assert statement.kind is Kind.GAP
    assert statement.integer("begin") <= statement.integer("end")
    assert _rules(log) == []


def test_an_old_checkpoint_is_stale_and_an_old_record_unsealed(log: Path) -> None:
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert _rules(log, max_age="1h") == []
    with Writer(log) as writer:
        writer.append(b"four")
    assert _rules(log, max_age="1h") == []
    assert _rules(log, max_age=0) == [Rule.STALE, Rule.UNSEALED]


def test_signed_times_do_not_go_back() -> None:
    later = int(time.time()) + 3600
    clock = SealClock(later)
    assert clock.age() < 60
    assert clock.sign() == later
    clock = SealClock(0)
    assert clock.age() > 1e9
    assert abs(clock.sign() - time.time()) < 60
    assert clock.age() < 60
    assert clock.step() is None


@pytest.mark.parametrize(
    "change",
    [
        ("statement v1", "statement v2"),
        ("\nstart\n", "\nstarted\n"),
        ('"every":0.05', '"ever":0.05'),
        ('{"every":0.05}', '{"every":[1]}'),
        ('{"every":0.05}', "[1]"),
        ('{"every":0.05}', "[" * 5000),
        ("example.org/audit", "example.org audit"),
    ],
)
def test_a_malformed_statement_is_refused(log: Path, change: tuple[str, str]) -> None:
    _run(log)
    text = next(parse_notes((log / "seal" / "statements").read_bytes())).text
    assert parse_statement(text).text() == text
    if change[1] == '"ever":0.05':
        return  # a further value means nothing
    with pytest.raises(SealError):
        parse_statement(text.replace(*change))
