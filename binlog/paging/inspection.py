"""Inspects the paging in a folder from outside, while its owner may be running.

Nothing is changed and no lock is taken.  Pages that the owner removes meanwhile are not a problem.  Neither are the
bytes after the last message of a page that a crash, or a write in progress, has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, NotFoundError
from binlog.format.paging.acks_file import parse_acks
from binlog.format.paging.names import (
    DELIVERIES_EXTENSION,
    INVALID_ACKS_EXTENSION,
    INVALID_EXTENSION,
    LOCK_FILE,
    PAGE_EXTENSION,
    acks_name,
)
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.problem import Problem, problem_of
from binlog.paging.addresses import AddressFolder, find_folders
from binlog.paging.cursor.page_deliveries import read_deliveries
from binlog.paging.page import Page
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.handle import new_guard

_QUARANTINED = {
    INVALID_EXTENSION: "a damaged page, whose readable messages were delivered",
    INVALID_ACKS_EXTENSION: "unreadable acknowledgements, whose messages were delivered again",
}


class PageStat(NamedTuple):
    """The state of one page.

    is_closed: no messages are added any more.  acked_count: messages that were acknowledged outside of transactions, or
    in one that is in tx_acks.  tx_counts, tx_acks: messages and acknowledgements by transaction.
    deliveries: how often each message was delivered, by its number; messages that were never delivered are omitted.
    """

    page_id: int
    path: str
    file_bytes: int
    message_count: int
    message_bytes: int
    acked_count: int
    is_closed: bool
    tx_counts: dict[int, int]
    tx_acks: dict[int, int]
    deliveries: dict[int, int]


class AddressStat(NamedTuple):
    """The pages of one address."""

    address: str
    path: str
    layout: str
    pages: list[PageStat]


class PagingStat(NamedTuple):
    """The addresses in a folder, and the problems that were found."""

    addresses: list[AddressStat]
    problems: list[Problem]


def stat_paging(path: str | os.PathLike[str]) -> PagingStat:
    """Read all pages of all addresses in a folder, and return their state.

    Raises: NotFoundError and AccessError for the folder.
    """
    root = os.path.abspath(path)
    problems: list[Problem] = []
    addresses = []
    for directory, file in find_folders(Directory(root), problems):
        folder = AddressFolder(directory, file, new_guard(directory.path))
        pages = list(_pages(folder, problems))
        addresses.append(AddressStat(file.address, folder.path, file.layout.value, pages))
    if not addresses and not problems and not os.path.lexists(os.path.join(root, LOCK_FILE)):
        raise NotFoundError(f"{root} is not a paging folder: no folder in it has an address")
    return PagingStat(sorted(addresses), problems)


def check_paging(path: str | os.PathLike[str]) -> list[Problem]:
    """Return every problem of the paging in a folder; change nothing.  Raises: as `stat_paging`."""
    return stat_paging(path).problems


def read_delivery_counts(path: str | os.PathLike[str], address: str) -> dict[tuple[int, int], int]:
    """Return how often each message of an address was delivered, by page id and number, if it was delivered at all.

    Raises: as `read_pages`.
    """
    open_existing: dict[tuple[int, int], int] = {}
    folder = _folder_of(path, address)
    for page_id in folder.ids(DELIVERIES_EXTENSION):
        with suppress(NotFoundError):  # the owner has removed the page
            counts = read_deliveries(Page.open_existing(folder, page_id)).counts
            open_existing.update(((page_id, number), count) for number, count in counts.items())
    return open_existing


def _folder_of(path: str | os.PathLike[str], address: str) -> AddressFolder:
    """Open the folder of an address; it is closed when the object is freed."""
    for directory, file in find_folders(Directory(os.path.abspath(path)), []):
        if file.address == address:
            return AddressFolder(directory, file, new_guard(directory.path))
    raise NotFoundError(f"{os.fspath(path)} has no address {address!r}")


def read_pages(path: str | os.PathLike[str], address: str) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield each message in the pages of an address: page id, number, message, and transaction id.

    Includes messages that were acknowledged and messages of transactions that were never committed.
    Raises: NotFoundError; AccessError.
    """
    folder = _folder_of(path, address)
    for page_id in folder.ids(PAGE_EXTENSION):
        with suppress(NotFoundError):  # the owner has removed the page
            yield from _messages(Page.open_existing(folder, page_id))


def _messages(page: Page) -> Iterator[tuple[int, int, bytes, int]]:
    offset, number = None, 0
    try:
        while chunk := page.read(offset, number):
            ids = chunk.tx_ids or [NO_TRANSACTION] * len(chunk.messages)
            for index, message in enumerate(chunk.messages):
                yield page.page_id, chunk.number + index, message, ids[index]
            offset, number = chunk.end, chunk.number + len(chunk.messages)
    finally:
        page.close_reader()


def _pages(folder: AddressFolder, problems: list[Problem]) -> Iterator[PageStat]:
    for name in sorted(folder.directory.names()):
        for end, text in _QUARANTINED.items():
            if end in name:
                problems.append(Problem(os.path.join(folder.path, name), 0, "quarantine", text))
    for page_id in folder.ids(PAGE_EXTENSION):
        page = None
        try:
            # Read the acknowledgements before the page: otherwise a message could be acknowledged that is not in the
            # page yet.
            acks_data = _read_acks(folder, page_id)
            page = Page.open_existing(folder, page_id)
            yield _page_stat(page, acks_data, problems)
        except NotFoundError:
            continue  # the owner has removed the page
        except BinlogError as error:
            problems.append(problem_of(error, page.path if page else folder.path))


def _page_stat(page: Page, acks_data: bytes, problems: list[Problem]) -> PageStat:
    is_closed = page.message_count is not None
    count = size = 0
    tx_counts: dict[int, int] = {}
    for _, _, message, tx_id in _messages(page):
        count += 1
        size += len(message)
        if tx_id != NO_TRANSACTION:
            tx_counts[tx_id] = tx_counts.get(tx_id, 0) + 1
    if page.problem is not None:
        problems.append(page.problem)
    elif is_closed and (page.message_count, page.message_bytes) != (count, size) and page.message_count:
        text = (
            f"its end claims {page.message_count} messages of {page.message_bytes} bytes; {count} of {size} were found"
        )
        problems.append(Problem(page.path, 0, "page_end", text))
    acked, tx_acks = _acks(page, acks_data, count, problems, is_closed=is_closed)
    file_bytes = OpenFile(page.folder.directory, os.path.basename(page.path), writable=False).size
    deliveries = read_deliveries(page)
    problems += deliveries.problems
    return PageStat(
        page.page_id, page.path, file_bytes, count, size, acked, is_closed, tx_counts, tx_acks, deliveries.counts
    )


def _read_acks(folder: AddressFolder, page_id: int) -> bytes:
    try:
        return folder.directory.read(acks_name(page_id))
    except NotFoundError:
        return b""


def _acks(
    page: Page, data: bytes, message_count: int, problems: list[Problem], *, is_closed: bool
) -> tuple[int, dict[int, int]]:
    """Return how many messages of a page were acknowledged, and how many acknowledgements each transaction has."""
    path = os.path.join(page.folder.path, acks_name(page.page_id))
    open_existing = parse_acks(data, page.page_id, page.identity(), path)
    if page.header is not None:
        problems += open_existing.problems
    marks = bytearray(message_count)
    tx_acks: dict[int, int] = {}
    for ack in open_existing.acks:
        stop = ack.first + ack.message_count
        if stop > message_count:
            if is_closed and page.problem is None:  # otherwise a power cut may have taken the messages
                text = f"messages {ack.first} to {stop - 1} are acknowledged, but the page has {message_count}"
                problems.append(Problem(path, 0, "ack_number", text))
            continue
        if ack.tx_id != NO_TRANSACTION:
            tx_acks[ack.tx_id] = tx_acks.get(ack.tx_id, 0) + 1
        marks[ack.first : stop] = b"\1" * ack.message_count
    return marks.count(1), tx_acks
