"""The judge of the demo, a process of its own: it reads everything from disk again, and says whether it is the same.

Records are compared as multisets of (writer, sequence, hash), so one that is lost, one that is there twice and one with
a changed byte all show.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import binlog
from stress.demo.events import Key, hash_of, key_of, share
from stress.demo.follower import read_journal

Keys = Counter[Key]

_SHOWN_MAX = 10


@dataclass
class Ledger:
    """What the director knows.

    events, writers: how many there were to be.
    kept: what a writer was told is kept.
    found: what its successor found in the log, of the writer that was killed.
    in_hand: what that writer had in hand, if anything.
    """

    events: int
    writers: int
    kept: Keys = field(default_factory=Counter)
    found: Keys = field(default_factory=Counter)
    in_hand: Key | None = None

    def save(self, path: Path) -> None:
        """Write it for another process."""
        with path.open("w") as file:
            file.write(f"{self.events} {self.writers}\n")
            in_hand = [] if self.in_hand is None else [self.in_hand]
            for word, keys in (("kept", self.kept.elements()), ("found", self.found.elements()), ("hand", in_hand)):
                file.writelines(f"{word} {key}\n" for key in keys)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        first, *lines = path.read_text().splitlines()
        events, writers = map(int, first.split())
        ledger = cls(events, writers)
        for line in lines:
            word, _, text = line.partition(" ")
            key = Key.parse(text)
            if word == "hand":
                ledger.in_hand = key
            else:
                {"kept": ledger.kept, "found": ledger.found}[word][key] += 1
        return ledger


def read_log(path: Path) -> Keys:
    """The keys of all records of the log."""
    with binlog.Reader(path) as reader:
        return Counter(key_of(entry.data) for entry in reader)


def read_parquet(path: Path) -> Keys:
    """The keys of all rows of the Parquet files: writer and sequence as Spark read them, the hash of the data there."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path, columns=["writer", "writer_sequence", "data"])
    rows = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    return Counter(Key(writer, sequence, hash_of(data)) for writer, sequence, data in rows)


def differences(keys: Keys, *, what: str, log: Keys) -> list[str]:
    """How a multiset differs from the log, in words; nothing where it does not."""
    lost = _listed(f"lost: in the log, and not in {what}", (log - keys).elements())
    return lost + _listed(f"too many: in {what}, and not in the log", (keys - log).elements())


def broken_promises(log: Keys, ledger: Ledger) -> list[str]:
    """Where the log is not what its writers were told, in words."""
    expected = ledger.kept + ledger.found
    may_be = Counter([ledger.in_hand] if ledger.in_hand else [])
    numbers = Counter((key.writer, key.sequence) for key in log.elements())
    every = (
        (writer, sequence)
        for writer in range(ledger.writers)
        for sequence in range(share(ledger.events, writer=writer, writers=ledger.writers))
    )
    return [
        *_listed("acknowledged, and not in the log", (expected - log).elements()),
        *_listed("in the log, and never acknowledged", (log - expected - may_be).elements()),
        *_listed("appended more than once", (number for number, count in numbers.items() if count > 1)),
        *_listed("never appended", (number for number in every if number not in numbers)),
        *_listed("found, and not what was in hand", (ledger.found - may_be).elements()),
    ]


def _listed(title: str, keys: Iterable[Key | tuple[int, int]]) -> list[str]:
    every = sorted(keys)
    lines = [f"{title}: writer {key[0]}, sequence {key[1]}, hash {(*key, '-')[2]}" for key in every[:_SHOWN_MAX]]
    return lines if len(every) <= _SHOWN_MAX else [*lines, f"{title}: {len(every):,} in all"]


def judge(log: Keys, followed: Keys, extracted: Keys, ledger: Ledger) -> tuple[list[str], list[str]]:
    """The findings, and what is wrong; nothing is where the second list is empty."""
    wrong = [
        *differences(followed, what="what the follower read", log=log),
        *differences(extracted, what="the Parquet files", log=log),
        *broken_promises(log, ledger),
    ]
    findings = [
        f"the log, read again from disk by a fresh process  {log.total():>9,} records",
        f"what the follower read, before and after its stop {followed.total():>9,} records",
        f"the Parquet files that Spark wrote                {extracted.total():>9,} records",
        f"acknowledged to the writers                       {ledger.kept.total():>9,} records",
    ]
    return findings, wrong


def conclusion(ledger: Ledger) -> list[str]:
    """What it means that nothing is wrong."""
    sentences = [
        "The three are equal, as multisets of (writer, sequence, hash).",
        "Everything that a writer was told was kept is there, once.",
    ]
    hand = "The one record that the killed writer had in hand"
    if ledger.in_hand is None:
        sentences.append("The writer that was killed had no record in hand.")
    elif ledger.found:
        sentences.append(f"{hand} was in the log, unacknowledged; its successor found it, and did not repeat it.")
    else:
        sentences.append(f"{hand} was not in the log; its successor found that out, and appended it.")
    return sentences


def main() -> int:
    """Run the role: 0 where all is as promised, 1 where it is not."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--journal", type=Path, required=True, help="what the follower read")
    arguments.add_argument("--parquet", type=Path, required=True, help="the Parquet files")
    arguments.add_argument("--ledger", type=Path, required=True, help="what the director knows")
    given = arguments.parse_args()
    ledger = Ledger.load(given.ledger)
    problems = [f"damage: {problem}" for problem in binlog.check(given.log)]
    findings, wrong = judge(read_log(given.log), read_journal(given.journal), read_parquet(given.parquet), ledger)
    print("\n".join(findings))
    if problems or wrong:
        print("\n".join(["It is NOT the same:", *problems, *wrong]))
        return 1
    print("\n".join(conclusion(ledger)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
