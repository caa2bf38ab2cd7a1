"""Changes that leave the records alone: of statements, of the history, of times; and removals against statements."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import binlog
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES
from binlog.format.names import index_file_name
from binlog.format.seal.note import NOTE_SEPARATOR, Note, parse_notes
from binlog.format.seal.state import HISTORY_FILE, SEAL_FOLDER, STATEMENTS_FILE
from binlog.format.seal.statement import NO_STATEMENT, Kind, Statement, Value, parse_statement
from binlog.seal import Rule, SigningKey
from binlog.seal.keys import signed_note
from stress.tamper.sealed_log import Life, SealedLog, replace_files
from stress.tamper.times import HOUR, date_index

Rules = frozenset[Rule]
_STATEMENTS = frozenset({Rule.KEY, Rule.MISSING})


def remove_a_file_too_many(log: SealedLog, chance: random.Random) -> Rules:
    """The oldest file that is left; of a log under a hold, one that a statement allows to remove, and the hold not."""
    number = binlog.stat(log.path).files[0].number
    for path in log.path.glob(f"{number:08d}.*"):
        path.unlink()
    return frozenset({Rule.MISSING})


def _notes(path: Path) -> list[Note]:
    return list(parse_notes(path.read_bytes()))


def _write_notes(path: Path, notes: list[Note]) -> None:
    path.write_bytes(b"".join(NOTE_SEPARATOR + str(note).encode() + NOTE_SEPARATOR[1:] for note in notes))


def remove_statements(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / STATEMENTS_FILE
    notes = _notes(path)
    first = chance.randrange(len(notes))
    del notes[first : first + chance.choice((1, 2, len(notes)))]
    _write_notes(path, notes)
    return _STATEMENTS


def remove_all_statements(log: SealedLog, chance: random.Random) -> Rules:
    (log.path / SEAL_FOLDER / STATEMENTS_FILE).unlink()
    return _STATEMENTS


def change_a_statement(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / STATEMENTS_FILE
    data, notes = path.read_bytes(), _notes(path)
    while _notes(path) == notes:  # the empty lines between notes are not signed, and mean nothing
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
    return _STATEMENTS


def exchange_statements(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / STATEMENTS_FILE
    notes = _notes(path)
    first, second = chance.sample(range(len(notes)), 2)
    notes[first], notes[second] = notes[second], notes[first]
    _write_notes(path, notes)
    return _STATEMENTS


def add_a_statement_that_the_key_did_not_sign(log: SealedLog, chance: random.Random) -> Rules:
    """It covers up what was done: the end is lost, or a record repaired, or the first files were allowed to go."""
    path = log.path / SEAL_FOLDER / STATEMENTS_FILE
    notes = _notes(path)
    known = [parse_statement(note.text) for note in notes]
    kind, values = chance.choice(list(_cover_ups(log)))
    previous = known[-1].hash() if known else NO_STATEMENT
    size = known[-1].size
    made = Statement(log.key.verifier.name, len(known), previous, size, known[-1].seconds, kind, values)
    other = SigningKey.generate(log.key.verifier.name)
    signed = signed_note(made.text(), [other] if chance.random() < 0.5 else [])
    if not signed.signatures:  # those of another statement
        signed = Note(made.text(), notes[-1].signatures)
    _write_notes(path, [*notes, signed])
    if kind is Kind.LOSS:
        replace_files(log.path, log.older)
    elif kind is Kind.PRUNE:
        remove_a_file_too_many(log, chance)
    return frozenset({Rule.KEY})


def _cover_ups(log: SealedLog) -> Iterator[tuple[Kind, dict[str, Value]]]:
    first, second, _ = (len(records) for records in log.files)
    yield Kind.REPAIR, {"leaf": first, "end": first + 1}
    yield Kind.PRUNE, {"leaf": first + second, "ref": "3:256"}
    if log.life is Life.NOTHING:
        tail = binlog.stat(log.older).files[-1].tail
        kept = first + second + len(log.files[2]) // 2
        yield Kind.LOSS, {"leaf": kept, "end": sum(map(len, log.files)), "ref": f"3:{tail}"}


def remove_the_history(log: SealedLog, chance: random.Random) -> Rules:
    (log.path / SEAL_FOLDER / HISTORY_FILE).unlink()
    return frozenset({Rule.MISSING})


def cut_the_history(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / HISTORY_FILE
    notes = _notes(path)
    _write_notes(path, notes[: chance.randrange(len(notes))])
    return frozenset({Rule.MISSING})


def exchange_checkpoints_of_the_history(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / HISTORY_FILE
    notes = _notes(path)
    place = chance.randrange(len(notes) - 1)
    notes[place : place + 2] = reversed(notes[place : place + 2])
    _write_notes(path, notes)
    return frozenset({Rule.DAMAGED})


def add_a_checkpoint_to_the_history(log: SealedLog, chance: random.Random) -> Rules:
    path = log.path / SEAL_FOLDER / HISTORY_FILE
    notes = _notes(path)
    place = chance.randrange(len(notes))
    notes.insert(place, signed_note(notes[place].text, [SigningKey.generate(log.key.verifier.name)]))
    _write_notes(path, notes)
    return frozenset({Rule.KEY})


def change_times(log: SealedLog, chance: random.Random) -> Rules:
    """Of one entry of an index, or of all; by more than an hour, and less than `check` notices.

    Times do not decrease within an index, so one entry is the first or the last.  The log file's own time stays: if it
    is later too, the index may have been built again then, and times up to then are no finding.
    """
    numbers = [file.number for file in binlog.stat(log.path).files if file.number > 1]
    number = numbers[0] if log.life is Life.LOST else chance.choice(numbers)
    count = ((log.path / index_file_name(number)).stat().st_size - HEADER_BYTES) // ENTRY_BYTES
    forwards = chance.random() < 0.5
    some = range(count) if chance.random() < 0.5 else (count - 1,) if forwards else (0,)
    hours = chance.uniform(1.1, 1.9) * (1 if forwards else -1)
    date_index(log.path, number, lambda place, entries: entries[place][1] + hours * HOUR * (place in some))
    return frozenset({Rule.INDEX_TIME})


SEAL: tuple[Callable[[SealedLog, random.Random], Rules], ...] = (
    remove_a_file_too_many, remove_statements, remove_all_statements, change_a_statement, exchange_statements,
    add_a_statement_that_the_key_did_not_sign, remove_the_history, cut_the_history,
    exchange_checkpoints_of_the_history, add_a_checkpoint_to_the_history, change_times,
)  # fmt: skip
