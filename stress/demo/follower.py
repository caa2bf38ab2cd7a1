"""The follower of the demo, a process of its own: it reads records as they are appended.

Its journal has a line for each record: the key, and the ref of the next record.  So the records read and the position
are stored together, and any signal may stop the process at any moment: an incomplete line is removed, and its record is
read again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path

from binlog import Entry, Reader, Ref, Start
from stress.demo.events import Key, key_of
from stress.demo.messages import end_with_director, send

_TELL_EVERY = 500


class Journal:
    """The records that a follower has read.  start: the position to resume at."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")
        self._file.seek(0)
        whole, end, _ = self._file.read().rpartition(b"\n")
        self._file.truncate(len(whole) + len(end))
        lines = whole.splitlines()
        self.count = len(lines)
        self.start: Ref | Start = Ref.parse(lines[-1].split()[-1].decode()) if lines else Start.BEGINNING

    def add(self, key: Key, next_ref: Ref) -> None:
        """Add a record."""
        self._file.write(f"{key} {next_ref}\n".encode())
        self.count += 1

    def store(self) -> None:
        """Flush everything added, so that it survives this process."""
        self._file.flush()


def read_journal(path: Path) -> Counter[Key]:
    """Return the keys of all records in a journal."""
    return Counter(Key.parse(line.rpartition(" ")[0]) for line in path.read_text().splitlines())


def follow(log: Path, journal: Journal, sample_every: int) -> None:
    """Read forever, and send the director the position and some samples."""
    with Reader(log, journal.start) as reader:
        send("from", reader.next_ref, journal.count)
        while True:
            for entry in reader:
                journal.add(key_of(entry.data), reader.next_ref)
                if journal.count % sample_every == 0:
                    send("sample", describe(entry))
                if journal.count % _TELL_EVERY == 0:
                    _report(journal, reader)
            _report(journal, reader)
            reader.wait()


def _report(journal: Journal, reader: Reader) -> None:
    # In this order: everything reported to the director is stored, so it may stop this process at once.
    journal.store()
    send("at", reader.next_ref, journal.count)


def describe(entry: Entry) -> str:
    """Format a record on one line for people."""
    event = json.loads(entry.data)
    name = os.path.join(*Path(event["path"]).parts[-3:])
    if "line" in event:
        text = event.get("text", "(not text)")
        about = f"{name}:{event['line']}  {text[:60]}"
    else:
        about = f"{name}  {event['size']:,} bytes" if "size" in event else f"{name}  {event['error']}"
    shown = "".join(character if character.isprintable() else "?" for character in about)
    return f"{entry.ref!s:>12}  writer {event['writer']} #{event['writer_sequence']:<5} {shown}"


def main() -> None:
    """Run the role."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--journal", type=Path, required=True, help="the file for the records read")
    arguments.add_argument("--sample-every", type=int, default=1000, help="show one of this many records")
    given = arguments.parse_args()
    end_with_director()
    follow(given.log, Journal(given.journal), given.sample_every)


if __name__ == "__main__":
    main()
