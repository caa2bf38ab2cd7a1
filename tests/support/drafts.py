"""Drafts for tests: records in files of their own, beside a log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from binlog import Batch, Draft, Drafted


def draft(folder: Path, name: str, *batches: Sequence[bytes], durable_from: int = 0) -> Drafted:
    folder.mkdir(exist_ok=True)
    with Draft(folder / name, durable_from=durable_from) as made:
        for records in batches:
            made.append(Batch.from_records(list(records)))
        return made.finish()


def drafts(log: Path, *files: Sequence[bytes]) -> list[Drafted]:
    return [draft(log / "aside", f"{os.urandom(4).hex()}", records) for records in files]
