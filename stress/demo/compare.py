"""The judge of the demo, a process of its own, which reads everything from disk again and compares it.

Records are compared as multisets of (writer, sequence, hash), which reveal a lost record, a duplicate, and a changed
byte.
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
    """The director's knowledge of a run.

    events, writers: the planned numbers.
    acknowledged: the records acknowledged to writers.
    found: the records of the killed writer that its successor found in the log.
    in_flight: the killed writer's in-flight record, if any.
    """

    events: int
    writers: int
    acknowledged: Keys = field(default_factory=Counter)
    found: Keys = field(default_factory=Counter)
    in_flight: Key | None = None

    def save(self, path: Path) -> None:
        """Write it for another process."""
        with path.open("w") as file:
            file.write(f"{self.events} {self.writers}\n")
            in_flight = [] if self.in_flight is None else [self.in_flight]
            for word, keys in (
                ("acknowledged", self.acknowledged.elements()),
                ("found", self.found.elements()),
                ("in_flight", in_flight),
            ):
                file.writelines(f"{word} {key}\n" for key in keys)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the output of `save`."""
        first, *lines = path.read_text().splitlines()
        events, writers = map(int, first.split())
        ledger = cls(events, writers)
        for line in lines:
            word, _, text = line.partition(" ")
            key = Key.parse(text)
            if word == "in_flight":
                ledger.in_flight = key
            else:
                {"acknowledged": ledger.acknowledged, "found": ledger.found}[word][key] += 1
        return ledger


def read_log(path: Path) -> Keys:
    """Return the keys of all records in the log."""
    with binlog.Reader(path) as reader:
        return Counter(key_of(entry.data) for entry in reader)


def read_parquet(path: Path) -> Keys:
    """Return the keys of all rows in the Parquet files: writer and sequence by Spark, and the hash of the data."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path, columns=["writer", "writer_sequence", "data"])
    rows = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    return Counter(Key(writer, sequence, hash_of(data)) for writer, sequence, data in rows)


def differences(keys: Keys, *, what: str, log: Keys) -> list[str]:
    """Describe how a multiset differs from the log; empty if it does not."""
    lost = _listed(f"lost: in the log, but not in {what}", (log - keys).elements())
    return lost + _listed(f"too many: in {what}, but not in the log", (keys - log).elements())


def broken_promises(log: Keys, ledger: Ledger) -> list[str]:
    """Describe how the log differs from its acknowledgements; empty if it does not."""
    expected = ledger.acknowledged + ledger.found
    may_be = Counter([ledger.in_flight] if ledger.in_flight else [])
    numbers = Counter((key.writer, key.sequence) for key in log.elements())
    every = (
        (writer, sequence)
        for writer in range(ledger.writers)
        for sequence in range(share(ledger.events, writer=writer, writers=ledger.writers))
    )
    return [
        *_listed("acknowledged, but not in the log", (expected - log).elements()),
        *_listed("in the log, but never acknowledged", (log - expected - may_be).elements()),
        *_listed("appended more than once", (number for number, count in numbers.items() if count > 1)),
        *_listed("never appended", (number for number in every if number not in numbers)),
        *_listed("found, but not the in-flight record", (ledger.found - may_be).elements()),
    ]


def _listed(title: str, keys: Iterable[Key | tuple[int, int]]) -> list[str]:
    every = sorted(keys)
    lines = [f"{title}: writer {key[0]}, sequence {key[1]}, hash {(*key, '-')[2]}" for key in every[:_SHOWN_MAX]]
    return lines if len(every) <= _SHOWN_MAX else [*lines, f"{title}: {len(every):,} in total"]


def judge(log: Keys, followed: Keys, extracted: Keys, ledger: Ledger) -> tuple[list[str], list[str]]:
    """Return the findings and the errors; there are none if the second list is empty."""
    wrong = [
        *differences(followed, what="the follower's records", log=log),
        *differences(extracted, what="the Parquet files", log=log),
        *broken_promises(log, ledger),
    ]
    findings = [
        f"the log, read again from disk by a fresh process  {log.total():>9,} records",
        f"what the follower read, before and after its stop {followed.total():>9,} records",
        f"the Parquet files that Spark wrote                {extracted.total():>9,} records",
        f"acknowledged to the writers                       {ledger.acknowledged.total():>9,} records",
    ]
    return findings, wrong


def conclusion(ledger: Ledger) -> list[str]:
    """Return the conclusion if there are no errors."""
    sentences = [
        "The three are equal, as multisets of (writer, sequence, hash).",
        "Every acknowledged record is in the log exactly once.",
    ]
    in_flight_text = "The killed writer's in-flight record"
    if ledger.in_flight is None:
        sentences.append("The killed writer had no record in flight.")
    elif ledger.found:
        sentences.append(
            f"{in_flight_text} was in the log, unacknowledged; its successor found it and did not repeat it."
        )
    else:
        sentences.append(f"{in_flight_text} was not in the log; its successor noticed that and appended it.")
    return sentences


def main() -> int:
    """Run the role, and return 0 if everything is as promised, otherwise 1."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--journal", type=Path, required=True, help="the follower's records")
    arguments.add_argument("--parquet", type=Path, required=True, help="the Parquet files")
    arguments.add_argument("--ledger", type=Path, required=True, help="the director's ledger")
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
