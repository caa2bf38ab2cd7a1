"""Taking over from a writer that was killed, in a process of its own.

What is known: the last record that the dead writer was told is kept, and where it lies.  The record that it had in hand
may be in the log or not, and only the log can tell.  So the successor looks there, in what lies after the last known
record, and goes on after whichever it finds; nothing is appended twice.
"""

from __future__ import annotations

from pathlib import Path

import binlog
from binlog import Entry, Reader, Ref, Start, Writer
from stress.demo.events import key_of, read_work
from stress.demo.messages import end_with_director, send
from stress.demo.writer import append_share, parser


def find_in_hand(log: Path, start: Ref | Start, *, writer: int, sequence: int) -> Entry | None:
    """Look in the log for the record that a dead writer had in hand when it died.

    start: at or before that record's place.  sequence: the writer's own, of that record.
    What is found is durable when this returns.
    """
    # The dead writer's lock is free only when nothing of what it did is still under way; and what it had published may
    # not be on stable storage yet, where whoever builds on it wants it.
    with Writer(log) as log_writer:
        log_writer.sync()
    tail = binlog.stat(log).tail
    with Reader(log, start) as reader:
        for entry in reader:
            if tail is not None and entry.ref >= tail:
                break  # younger than the dead writer's last
            if key_of(entry.data)[:2] == (writer, sequence):
                return entry
    return None


def main() -> None:
    """Run the role."""
    arguments = parser(__doc__)
    arguments.add_argument("--sequence", type=int, required=True, help="the first that is not known to be kept")
    arguments.add_argument("--after", type=Ref.parse, help="where the last record lies that is known to be kept")
    given = arguments.parse_args()
    end_with_director()
    first: int = given.sequence
    found = find_in_hand(given.log, given.after or Start.BEGINNING, writer=given.writer, sequence=first)
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
