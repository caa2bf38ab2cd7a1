"""The changes: each changes the records or the files of a sealed log, and names the rules that may find it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

from binlog.format.seal.state import SEAL_FOLDER
from binlog.seal import Rule
from stress.tamper.seal_changes import SEAL
from stress.tamper.sealed_log import Files, Life, SealedLog, forge_hashes, make_again, replace_files

# At the end of a closed file, a record that was added is late, and one that was removed is missing.
_CONTENT = frozenset({Rule.CHANGED, Rule.FORK, Rule.CUT, Rule.LATE, Rule.MISSING})


def _place(files: Files, chance: random.Random) -> tuple[list[bytes], int]:
    """Return the records of a file, and the place of one of them."""
    records = chance.choice([each for each in files if each])
    return records, chance.randrange(len(records))


def change_a_byte(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    place = chance.randrange(len(records[at]))
    changed = bytearray(records[at])
    changed[place] ^= chance.randrange(1, 256)
    records[at] = bytes(changed)


def change_a_length(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    records[at] = records[at] + b"x" if chance.random() < 0.5 else records[at][:-1]


def replace_records(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    for place in range(at, min(at + chance.randrange(1, 50), len(records))):
        records[place] = chance.randbytes(len(records[place])) + b"!"


def remove_records(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    del records[at : at + chance.choice((1, 1, 5, 300))]


def insert_a_record(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    records.insert(at, b"inserted")


def repeat_a_record(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    records.insert(at, records[at])


def exchange_records(files: Files, chance: random.Random) -> None:
    records, at = _place(files, chance)
    others, other = _place(files, chance)
    while records[at] == others[other]:
        others, other = _place(files, chance)
    records[at], others[other] = others[other], records[at]


def exchange_files(files: Files, chance: random.Random) -> None:
    first, second = chance.sample(range(3), 2)
    files[first], files[second] = files[second], files[first]


def cut_the_end(files: Files, chance: random.Random) -> None:
    records = files[-1]
    del records[chance.randrange(len(records)) :]


def cut_and_continue(files: Files, chance: random.Random) -> None:
    records = files[-1]
    start = chance.randrange(len(records))
    records[start:] = [b"%d!" % number for number in range(len(records) - start + chance.randrange(5))]


RECORDS: tuple[Callable[[Files, random.Random], None], ...] = (
    change_a_byte, change_a_length, replace_records, remove_records, insert_a_record, repeat_a_record,
    exchange_records, exchange_files, cut_the_end, cut_and_continue,
)  # fmt: skip


def put_back_an_older_copy(log: SealedLog, chance: random.Random) -> frozenset[Rule]:
    shutil.rmtree(log.path)
    shutil.copytree(log.older, log.path)
    return frozenset({Rule.CUT, Rule.NOT_SEALED})


def put_back_an_older_log(log: SealedLog, chance: random.Random) -> frozenset[Rule]:
    """The log's files alone; the seal stays."""
    replace_files(log.path, log.older)
    return frozenset({Rule.CUT})


def remove_a_part_of_the_seal(log: SealedLog, chance: random.Random) -> frozenset[Rule]:
    seal = log.path / SEAL_FOLDER
    name = chance.choice(("beginning", "files", "hashes/0.00000000", "hashes/1.00000000", ""))
    if name:
        (seal / name).unlink()
    else:
        shutil.rmtree(seal)
    return frozenset({Rule.NOT_SEALED, Rule.MISSING, Rule.CUT})


def change_the_seal(log: SealedLog, chance: random.Random) -> frozenset[Rule]:
    seal = log.path / SEAL_FOLDER
    path = seal / chance.choice(("beginning", "files", "hashes/0.00000000", "checkpoint"))
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return frozenset(Rule)


FILES: tuple[Callable[[SealedLog, random.Random], frozenset[Rule]], ...] = (
    put_back_an_older_copy, put_back_an_older_log, remove_a_part_of_the_seal, change_the_seal,
    *SEAL,
)  # fmt: skip


def tamper(log: SealedLog, chance: random.Random) -> tuple[str, frozenset[Rule]]:
    """Make one change at random; return its name, and the rules of which at least one must find it."""
    if log.life is not Life.NOTHING:
        change = chance.choice(SEAL)
        return change.__name__, change(log, chance)
    if chance.random() < 0.4:
        change = chance.choice(FILES)
        return change.__name__, change(log, chance)
    files = [list(records) for records in log.files]
    names = []
    for _ in range(chance.choice((1, 1, 1, 3))):
        by = chance.choice(RECORDS)
        by(files, chance)
        names.append(by.__name__)
        if not all(files):
            break  # the other changes need a record
    if files == log.files:
        return tamper(log, chance)
    make_again(log.path, log.uuid, files)
    if chance.random() < 0.5:
        forge_hashes(log.path, files)
        names.append("forge_hashes")
    return " and ".join(names), _CONTENT
