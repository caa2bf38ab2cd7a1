"""A writer of the demo, a process of its own: it appends its share of the work list.

It tells `hand` before it appends a record and `kept` when append has returned, so that the director knows at any moment
what is promised, and which one record may be in the log without being promised.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import binlog
from stress.demo.events import Item, hash_of, make_record, read_work
from stress.demo.messages import end_with_director, send


def append_share(log: Path, writer: int, work: Iterable[tuple[int, Item]]) -> None:
    """Append the events of a share of the work list, one by one."""
    with binlog.Writer(log) as log_writer:
        for sequence, item in work:
            record = make_record(item, writer=writer, sequence=sequence)
            digest = hash_of(record)
            send("hand", sequence, digest)
            ref = log_writer.append(record)
            send("kept", sequence, digest, ref)


def parser(role: str | None) -> argparse.ArgumentParser:
    """The arguments of a writer, and of one that takes over."""
    arguments = argparse.ArgumentParser(description=role)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--work", type=Path, required=True, help="the work list")
    arguments.add_argument("--writer", type=int, required=True, help="which writer this is, from 0")
    arguments.add_argument("--writers", type=int, required=True, help="how many there are")
    return arguments


def main() -> None:
    """Run the role."""
    given = parser(__doc__).parse_args()
    end_with_director()
    append_share(given.log, given.writer, read_work(given.work, writer=given.writer, writers=given.writers))


if __name__ == "__main__":
    main()
