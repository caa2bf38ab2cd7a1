"""Take over from a killed writer, in a process of its own.

The last record acknowledged to the dead writer and its ref are known.  Its in-flight record may or may not be in the
log.  So the successor searches the records after the last known one, and continues after the in-flight record if it
finds it; nothing is appended twice.
"""

from __future__ import annotations

from pathlib import Path

import binlog
from binlog import Entry, Reader, Ref, Start, Writer
from stress.demo.events import key_of, read_work
from stress.demo.messages import end_with_director, send
from stress.demo.writer import append_share, parser


def find_in_flight(log: Path, start: Ref | Start, *, writer: int, sequence: int) -> Entry | None:
    """Find the in-flight record of a dead writer in the log, or return None.

    start: at or before that record.  sequence: the writer's own, of that record.
    The record is durable when this returns.
    """
    # The dead writer's lock is free only when its last operation is over.  Its published records may not be synced yet,
    # but the successor builds on them.
    with Writer(log) as log_writer:
        log_writer.sync()
    tail = binlog.stat(log).tail
    with Reader(log, start) as reader:
        for entry in reader:
            if tail is not None and entry.ref >= tail:
                break  # newer than the dead writer's last record
            if key_of(entry.data)[:2] == (writer, sequence):
                return entry
    return None


def main() -> None:
    """Run the role."""
    arguments = parser(__doc__)
    arguments.add_argument("--sequence", type=int, required=True, help="the first that may not be acknowledged")
    arguments.add_argument("--after", type=Ref.parse, help="the ref of the last acknowledged record")
    given = arguments.parse_args()
    end_with_director()
    first: int = given.sequence
    found = find_in_flight(given.log, given.after or Start.BEGINNING, writer=given.writer, sequence=first)
    if found is None:
        send("absent", first)
    else:
        send("found", first, key_of(found.data).hash, found.ref)
        first += 1
    append_share(
        given.log, given.writer, read_work(given.work, writer=given.writer, writers=given.writers, first=first)
    )


if __name__ == "__main__":
    main()
