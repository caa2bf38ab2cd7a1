"""Logs in version 1 of the log file and version 2 of the index, kept byte for byte in an archive.

`python -m tests.support.golden_log` makes it.  When the format gets a new version, make another one beside it, and keep
this one.  The logs are those of stress/crash/flips/logs.py: with archives; with a producer batch that is
named and not recorded; with an ingest that has placed one of two files; with a quarantined range.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from stress.crash.flips.logs import IntactLog, make_intact_logs

ARCHIVE = Path(__file__).parents[1] / "unit" / "log" / "golden-1.tar.xz"

_LOGS = {
    "archive": "archive 1 of 3",
    "producer": "turn named, 3",
    "ingest": "ingest half, 1",
    "set-aside": "set aside, 1",
}


class Golden(NamedTuple):
    """What a reader finds in one of the logs, what a writer adds, and the last turn, if it has any."""

    records: list[bytes]
    later: list[bytes]
    sequence: int | None


def unpack(folder: Path) -> dict[str, Golden]:
    """The logs, each in a directory of its name, and what is in them."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    about = json.loads((folder / "about.json").read_text())
    return {
        name: Golden([text.encode() for text in records], [text.encode() for text in later], sequence)
        for name, (records, later, sequence) in about.items()
    }


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as scratch:
        intact_logs = {intact.name: intact for intact in make_intact_logs(Path(scratch))}
    about = {name: _about(intact_logs[made]) for name, made in _LOGS.items()}
    with tarfile.open(ARCHIVE, "w:xz") as tar:
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
    main()
