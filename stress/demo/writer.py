"""A writer of the demo, a process of its own: it appends its share of the work list.

It sends `appending` before it appends a record and `acknowledged` after the append has returned, so that the director
always knows the acknowledged records, and the one in-flight record, which may be in the log unacknowledged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import binlog
from stress.demo.events import Item, hash_of, make_record, read_work
from stress.demo.messages import end_with_director, send


def append_share(log: Path, writer: int, work: Iterable[tuple[int, Item]]) -> None:
    """Append the events of a share of the work list one by one."""
    with binlog.Writer(log) as log_writer:
        for sequence, item in work:
            record = make_record(item, writer=writer, sequence=sequence)
            digest = hash_of(record)
            send("appending", sequence, digest)
            ref = log_writer.append(record)
            send("acknowledged", sequence, digest, ref)


def parser(role: str | None) -> argparse.ArgumentParser:
    """Return the argument parser of a writer or a successor."""
    arguments = argparse.ArgumentParser(description=role)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--work", type=Path, required=True, help="the work list")
    arguments.add_argument("--writer", type=int, required=True, help="the number of this writer, from 0")
    arguments.add_argument("--writers", type=int, required=True, help="the number of writers")
    return arguments


def main() -> None:
    """Run the role."""
    given = parser(__doc__).parse_args()
    end_with_director()
    append_share(given.log, given.writer, read_work(given.work, writer=given.writer, writers=given.writers))


if __name__ == "__main__":
    main()
