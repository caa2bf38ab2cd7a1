"""Logs of each version of the log's files, kept byte for byte in archives beside tests/unit/log/test_golden.py.

`python -m tests.support.golden_log NUMBER` makes the archive of that number, and refuses one that exists.  Number 1 has
version 1 of the log file and version 2 of the index.  The logs are those of stress/crash/flips/logs.py: with archives;
with a producer batch that is pending; with an ingest that has placed one of two files; with a quarantined range.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from stress.crash.flips.logs import IntactLog, make_intact_logs

FOLDER = Path(__file__).parents[1] / "unit" / "log"
ARCHIVES = sorted(FOLDER.glob("golden-*.tar.xz"))

_LOGS = {
    "archive": "archive 1 of 3",
    "producer": "turn named, 3",
    "ingest": "ingest half, 1",
    "set-aside": "quarantined, 1",
}


class Golden(NamedTuple):
    """What a reader finds in one of the logs, what a writer adds, and the last turn, if it has any."""

    records: list[bytes]
    later: list[bytes]
    sequence: int | None


def unpack(archive: Path, folder: Path) -> dict[str, Golden]:
    """Unpack the logs into `folder`, each in a directory of its name, and return what is in them."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    about = json.loads((folder / "about.json").read_text())
    return {
        name: Golden([text.encode() for text in records], [text.encode() for text in later], sequence)
        for name, (records, later, sequence) in about.items()
    }


def make(archive: Path) -> None:
    """Make an archive.  Raises: FileExistsError."""
    with tempfile.TemporaryDirectory() as scratch:
        intact_logs = {intact.name: intact for intact in make_intact_logs(Path(scratch))}
    about = {name: _about(intact_logs[made]) for name, made in _LOGS.items()}
    with tarfile.open(archive, "x:xz") as tar:
        _add(tar, "about.json", json.dumps(about, indent=1).encode())
        for name, made in _LOGS.items():
            for file, data in intact_logs[made].files.items():
                whole = intact_logs[made].files[data] if isinstance(data, str) else data
                assert isinstance(whole, bytes)
                _add(tar, f"{name}/{file}", whole)


def _about(intact: IntactLog) -> list[object]:
    return [
        [record.decode() for record in intact.records],
        [record.decode() for record in intact.later],
        intact.sequence,
    ]


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o640
    tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    make(FOLDER / f"golden-{int(sys.argv[1])}.tar.xz")
