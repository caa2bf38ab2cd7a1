"""How the journals are kept that are to break: in files so small that some ten records fill one, but for `blocks`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.journal.file_header import JournalLayout
from binlog.journal.options import JournalOptions

_SMALL = JournalOptions(file_bytes=2048, buffer_bytes=1024, flush_seconds=0.002, compact_files_min=0, pool_files=4)

OPTIONS: dict[str, JournalOptions] = {
    "native": _SMALL,
    "blocks": replace(_SMALL, file_bytes=3 * BLOCK_BYTES, buffer_bytes=1 << 16),
    "tiny": replace(_SMALL, file_bytes=1024, buffer_bytes=600, pool_files=3),
    "jbm": replace(_SMALL, file_bytes=2560, layout=JournalLayout.JBM),
}
"""By name; no two have files as long as each other's."""

NATIVE = ("native", "blocks", "tiny")


def kept_as(path: Path) -> JournalOptions:
    """How the journal in a folder is kept, as its files tell; any way where it has none."""
    by_size = {options.file_bytes: options for options in OPTIONS.values()}
    found = (by_size.get(file.stat().st_size) for file in sorted(path.glob("journal-*.jnl")))
    return next((options for options in found if options is not None), OPTIONS["native"])
