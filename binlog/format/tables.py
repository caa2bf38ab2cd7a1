"""The files made from the layouts: the tables in docs/format.md and the constants in native/layout.h."""

from __future__ import annotations

import re
from pathlib import Path

from binlog.format.archive_file import ARCHIVE_FACTS, ARCHIVE_START, SEEK_ENTRY, SEEK_FOOTER, SKIPPABLE
from binlog.format.commitlog.indexes import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, KEY_INDEX_SLOT, QUEUE_UNIT
from binlog.format.commitlog.message import BLANK, MESSAGE
from binlog.format.commitlog.store_files import POOL_BUFFER, STORE_CHECKPOINT, STORE_SIDECAR
from binlog.format.consumers.group_layouts import GROUP_LAYOUTS
from binlog.format.consumers.message import MESSAGE_LAYOUTS
from binlog.format.index_file import INDEX_ENTRY, INDEX_HEADER
from binlog.format.journal.block import BLOCK_BYTES, JOURNAL_FRAGMENT
from binlog.format.journal.file_header import JBM_HEADER, JOURNAL_END, JOURNAL_HEADER
from binlog.format.journal.record import JOURNAL_COUNT, JOURNAL_DATA, JOURNAL_RECORDS
from binlog.format.layout import Layout
from binlog.format.log_header import COMMIT_SLOT, LOG_HEADER
from binlog.format.pagestore.free_map import FREE_MAP
from binlog.format.pagestore.index import INDEX_PAGE, QUEUE_ENTRY, ROOT_ENTRY, ROOT_ENTRY_END
from binlog.format.pagestore.log import LOG_ACTION, LOG_RECORD, LOG_START
from binlog.format.pagestore.other_files import PAGESTORE_DELIVERIES, PAGESTORE_DELIVERY, SWAP_RECORD
from binlog.format.pagestore.page import MESSAGE_PAGE
from binlog.format.pagestore.page import PAGE_CHECK as PAGESTORE_CHECK
from binlog.format.pagestore.prepared import PREPARED_ENTRY, PREPARED_HEAD
from binlog.format.paging.acks_file import ACK_RECORD, ACKS_HEADER
from binlog.format.paging.deliveries_file import DELIVERIES_HEADER, DELIVERY
from binlog.format.paging.page_file import PAGE_HEADER
from binlog.format.paging.page_record import JBM_PAGE_RECORD, PAGE_CHECK, PAGE_END, PAGE_RECORD
from binlog.format.paging.store_records import COMMIT_MARKER, PAGE_REFERENCE, PAGE_TRANSACTION
from binlog.format.record import RECORD
from binlog.format.seal.state import SEALED_FILE

# _SHARED: the layouts that the C needs as well.  The others are for Python alone.
_KEY_INDEX = (KEY_INDEX_HEADER, KEY_INDEX_SLOT, KEY_INDEX_ENTRY)
_SHARED: tuple[Layout, ...] = (
    LOG_HEADER, COMMIT_SLOT, RECORD, INDEX_HEADER, INDEX_ENTRY, MESSAGE, QUEUE_UNIT, *_KEY_INDEX, *JOURNAL_RECORDS,
    JOURNAL_FRAGMENT, *JOURNAL_DATA, PAGE_RECORD, PAGE_CHECK, PAGE_END, JBM_PAGE_RECORD, ACK_RECORD, DELIVERIES_HEADER,
    DELIVERY, LOG_RECORD, LOG_ACTION, *GROUP_LAYOUTS
)  # fmt: skip
_ARCHIVE = (ARCHIVE_START, SKIPPABLE, ARCHIVE_FACTS, SEEK_ENTRY, SEEK_FOOTER)
_COMMIT_LOG = (BLANK, STORE_CHECKPOINT, STORE_SIDECAR, POOL_BUFFER)
_JOURNAL = (JBM_HEADER, JOURNAL_HEADER, JOURNAL_END, JOURNAL_COUNT)
_PAGING = (PAGE_HEADER, ACKS_HEADER, PAGE_TRANSACTION, PAGE_REFERENCE, COMMIT_MARKER)
_PAGESTORE = (
    MESSAGE_PAGE, PAGESTORE_CHECK, INDEX_PAGE, QUEUE_ENTRY, ROOT_ENTRY, ROOT_ENTRY_END, LOG_START, FREE_MAP,
    PREPARED_HEAD, PREPARED_ENTRY, PAGESTORE_DELIVERIES, PAGESTORE_DELIVERY, SWAP_RECORD
)  # fmt: skip
_CONSUMERS = MESSAGE_LAYOUTS
LAYOUTS: tuple[Layout, ...] = (
    *_SHARED,
    *_ARCHIVE,
    *_COMMIT_LOG,
    *_JOURNAL,
    *_PAGING,
    *_PAGESTORE,
    *_CONSUMERS,
    SEALED_FILE,
)

_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(layout: Layout) -> str:
    """Return a layout as a Markdown table."""
    rows = ["| offset | size | field | type | meaning |", "| --- | --- | --- | --- | --- |"]
    for item in layout.fields:
        value = ""
        if isinstance(item.const, int):
            value = f"; always {item.const}"
        kind = f"{item.kind} LE" if layout.little and item.kind.startswith("u") else item.kind
        rows.append(f"| {layout.offset(item.name)} | {item.size} | {item.name} | {kind} | {item.meaning}{value} |")
    return "\n".join(rows) + "\n"


def constants() -> str:
    """Return the text of native/layout.h."""
    lines = [
        "/* Written by `python -m binlog.format --write` from the tables in binlog/format; not by hand. */",
        "#ifndef BINLOG_LAYOUT_H",
        "#define BINLOG_LAYOUT_H",
    ]
    for layout in _SHARED:
        lines += ["", f"#define {layout.name.upper()}_BYTES {layout.size}"]
        lines += [
            f"#define {layout.name.upper()}_{item.name.upper()} {layout.offset(item.name)}" for item in layout.fields
        ]
    lines += ["", f"#define JOURNAL_BLOCK_BYTES {BLOCK_BYTES}"]
    return "\n".join([*lines, "", "#endif", ""])


def document(text: str) -> str:
    """Return docs/format.md with the tables between its markers replaced.  text: its current text.

    Raises: ValueError if the markers do not match the layouts.
    """
    by_name = {layout.name: layout for layout in LAYOUTS}
    markers = [match[2] for match in _TABLE.finditer(text)]
    if sorted(markers) != sorted(by_name):
        raise ValueError(f"docs/format.md has markers for {sorted(markers)}, the layouts are {sorted(by_name)}")
    return _TABLE.sub(lambda match: match[1] + "\n" + table(by_name[match[2]]) + "\n" + match[3], text)


def generated_files(root: Path) -> dict[Path, str]:
    """Return the text of each generated file, by its path below the project's root."""
    page = root / "docs" / "format.md"
    return {root / "native" / "layout.h": constants(), page: document(page.read_text(encoding="utf-8"))}
