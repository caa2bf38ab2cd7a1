"""External files for tests: records next to a log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from binlog import Batch, ExternalFile, ExternalFileWriter


def external_file(folder: Path, name: str, *batches: Sequence[bytes], durable_from: int = 0) -> ExternalFile:
    folder.mkdir(exist_ok=True)
    with ExternalFileWriter(folder / name, durable_from=durable_from) as made:
        for records in batches:
            made.append(Batch.from_records(list(records)))
        return made.finish()


def external_files(log: Path, *files: Sequence[bytes]) -> list[ExternalFile]:
    return [external_file(log / "aside", f"{os.urandom(4).hex()}", records) for records in files]
