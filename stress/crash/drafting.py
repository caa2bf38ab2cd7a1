"""Drafts for the harness: small ones, in a folder inside of the log's directory, as a job's tasks write them."""

from __future__ import annotations

import os
from pathlib import Path

from binlog import Batch, Draft, Drafted
from binlog.storage.files import make_directory

ASIDE = "aside"
"""The folder's name, in the log's directory."""

_NAME_BYTES = 8


def draft_of(folder: Path, batch: Batch) -> Drafted:
    """The records of a batch as a draft, synced, in a folder that is made where it is missing.

    Its name is a new one each time: what a process that died has left there is nobody's.
    """
    make_directory(str(folder))
    with Draft(folder / os.urandom(_NAME_BYTES).hex()) as draft:
        draft.append(batch)
        return draft.finish()
