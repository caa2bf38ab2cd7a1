"""The events of the demo: their source, their records, and the keys that identify them.

A work list is a text file with one event per line, as JSON.  It is written once, so that a successor sees the same
share.  With `writers` writers, writer w makes the events of lines w, w + writers, ... and numbers them 0, 1, ... in
that order: this is its own sequence, which is unrelated to the position in the log.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Without a limit, a few huge files would take as long as thousands of others.
_FILE_BYTES_MAX = 1 << 20

Item = dict[str, Any]


class Key(NamedTuple):
    """The identity of a record, which a change of any byte changes."""

    writer: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.writer} {self.sequence} {self.hash}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Parse the result of `str()`."""
        writer, sequence, digest = text.split()
        return cls(int(writer), int(sequence), digest)


def key_of(record: bytes) -> Key:
    """Return the key of an event's record.  Raises: ValueError if it is not one."""
    try:
        event = json.loads(record)
        return Key(event["writer"], event["writer_sequence"], hash_of(record))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not an event of the demo: {record[:80]!r}") from error


def hash_of(record: bytes) -> str:
    """Return the SHA-256 of a record, in hexadecimal."""
    return hashlib.sha256(record).hexdigest()


def make_record(item: Item, *, writer: int, sequence: int) -> bytes:
    """Make the record of a line of the work list."""
    event = {"writer": writer, "writer_sequence": sequence, **(item if "line" in item else _measured(item))}
    return json.dumps(event, separators=(",", ":")).encode()


def _measured(item: Item) -> Item:
    """Return an item with the current attributes of its file."""
    path: str = item["path"]
    printable = os.fsencode(path).decode(errors="backslashreplace")
    event = {**item, "path": printable}
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return {**event, "error": error.strerror}
    return {**event, "size": status.st_size, "mtime": status.st_mtime, "sha256": digest}


def python_files() -> list[Path]:
    """Return the files of the Python standard library and of the installed packages, except very large ones."""
    roots = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    files: set[Path] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            files.update(Path(folder, name) for name in names)
    return sorted(path for path in files if _is_small_file(path))


def _is_small_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and path.stat().st_size <= _FILE_BYTES_MAX
    except OSError:
        return False


def file_items(files: Iterable[Path]) -> Iterator[Item]:
    """Yield one item per file, endlessly: after the last file, the first one again."""
    listed = list(files)
    if not listed:
        return
    for turn in itertools.count(1):
        for path in listed:
            yield {"path": str(path), "turn": turn}


def line_items(files: Iterable[Path]) -> Iterator[Item]:
    """Yield one item for each line of the user's files: its text, or base64 if it is not UTF-8."""
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield {"path": str(path), "line": number, **_as_json(line.removesuffix(b"\n"))}


def _as_json(line: bytes) -> dict[str, str]:
    try:
        return {"text": line.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(line).decode()}


def write_work(path: Path, items: Iterable[Item], count_max: int | None) -> int:
    """Write the work list, and return its number of events."""
    count = 0
    with path.open("w") as file:
        for item in itertools.islice(items, count_max):
            file.write(json.dumps(item) + "\n")
            count += 1
    return count


def read_work(path: Path, *, writer: int, writers: int, first: int = 0) -> Iterator[tuple[int, Item]]:
    """Yield the share of one writer from its sequence `first` on: each sequence with its item."""
    with path.open() as file:
        lines = itertools.islice(file, writer + first * writers, None, writers)
        for sequence, line in enumerate(lines, start=first):
            yield sequence, json.loads(line)


def share(count: int, *, writer: int, writers: int) -> int:
    """Return how many of `count` events one writer makes."""
    return len(range(writer, count, writers))
