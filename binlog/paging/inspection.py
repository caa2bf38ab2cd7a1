"""Looking at the paging of a folder from outside: nothing is changed, and nobody is kept waiting.

It may be looked at while its process goes on.  Pages that go meanwhile are no problem, and neither is what a crash, or
a write that goes on, leaves behind the last message of a page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, NotFoundError
from binlog.format.paging.acks_file import parse_acks
from binlog.format.paging.names import DELIVERIES_END, INVALID_ACKS_END, INVALID_END, LOCK_FILE, PAGE_END, acks_name
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.problem import Problem, problem_of
from binlog.paging.addresses import AddressFolder, find_folders
from binlog.paging.cursor.page_deliveries import read_deliveries
from binlog.paging.page import Page
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.handle import new_guard

_QUARANTINED = {
    INVALID_END: "a page with damage, of which all that could be read was used",
    INVALID_ACKS_END: "acknowledgements that could not be read, so that their messages came again",
}


class PageStat(NamedTuple):
    """What a page has.

    ended: nothing is added to it any more.  acked_count: messages that were acknowledged outside of transactions, or
    in one that is in tx_acks.  tx_counts, tx_acks: messages and acknowledgements by their transactions.
    deliveries: how often messages were given that were, by their numbers.
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
    """What an address has in pages."""

    address: str
    path: str
    layout: str
    pages: list[PageStat]


class PagingStat(NamedTuple):
    """What there is in a folder of paging, and what is wrong with it."""

    addresses: list[AddressStat]
    problems: list[Problem]


def stat_paging(path: str | os.PathLike[str]) -> PagingStat:
    """All addresses with their pages, each of which is read.  Raises: NotFoundError and AccessError for the folder."""
    root = os.path.abspath(path)
    problems: list[Problem] = []
    addresses = []
    for directory, file in find_folders(Directory(root), problems):
        folder = AddressFolder(directory, file, new_guard(directory.path))
        pages = list(_pages(folder, problems))
        addresses.append(AddressStat(file.address, folder.path, file.layout.value, pages))
    if not addresses and not problems and not os.path.lexists(os.path.join(root, LOCK_FILE)):
        raise NotFoundError(f"{root} is no folder with paging: no folder in it has an address")
    return PagingStat(sorted(addresses), problems)


def check_paging(path: str | os.PathLike[str]) -> list[Problem]:
    """All that is wrong with the paging in a folder; nothing is repaired.  Raises: as `stat_paging`."""
    return stat_paging(path).problems


def read_delivery_counts(path: str | os.PathLike[str], address: str) -> dict[tuple[int, int], int]:
    """How often messages of an address were given that were, by their pages' ids and their numbers.

    Raises: as `read_pages`.
    """
    open_existing: dict[tuple[int, int], int] = {}
    folder = _folder_of(path, address)
    for page_id in folder.ids(DELIVERIES_END):
        with suppress(NotFoundError):  # it went meanwhile
            counts = read_deliveries(Page.open_existing(folder, page_id)).counts
            open_existing.update(((page_id, number), count) for number, count in counts.items())
    return open_existing


def _folder_of(path: str | os.PathLike[str], address: str) -> AddressFolder:
    """It is closed once nobody has it."""
    for directory, file in find_folders(Directory(os.path.abspath(path)), []):
        if file.address == address:
            return AddressFolder(directory, file, new_guard(directory.path))
    raise NotFoundError(f"{os.fspath(path)} has no address {address!r}")


def read_pages(path: str | os.PathLike[str], address: str) -> Iterator[tuple[int, int, bytes, int]]:
    """Each message in the pages of an address: its page's id, its number, itself, and its transaction's id.

    Also those that were acknowledged, or that nobody committed.  Raises: NotFoundError; AccessError.
    """
    folder = _folder_of(path, address)
    for page_id in folder.ids(PAGE_END):
        with suppress(NotFoundError):  # it went meanwhile
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
                problems.append(Problem(os.path.join(folder.path, name), 0, "set_aside", text))
    for page_id in folder.ids(PAGE_END):
        page = None
        try:
            # Before the page, so that what is added and acknowledged meanwhile is not acknowledged alone.
            acks_data = _read_acks(folder, page_id)
            page = Page.open_existing(folder, page_id)
            yield _page_stat(page, acks_data, problems)
        except NotFoundError:
            continue  # it went meanwhile
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
        text = f"it says that it has {page.message_count} messages of {page.message_bytes} bytes, not {count} of {size}"
        problems.append(Problem(page.path, 0, "page_end", text))
    acked, tx_acks = _acks(page, acks_data, count, problems, is_closed=is_closed)
    file_bytes = OpenFile(page.folder.directory, os.path.basename(page.path), writable=False).size
    given = read_deliveries(page)
    problems += given.problems
    return PageStat(
        page.page_id, page.path, file_bytes, count, size, acked, is_closed, tx_counts, tx_acks, given.counts
    )


def _read_acks(folder: AddressFolder, page_id: int) -> bytes:
    try:
        return folder.directory.read(acks_name(page_id))
    except NotFoundError:
        return b""


def _acks(
    page: Page, data: bytes, message_count: int, problems: list[Problem], *, is_closed: bool
) -> tuple[int, dict[int, int]]:
    """How many messages of a page were acknowledged, and by which transactions how often."""
    path = os.path.join(page.folder.path, acks_name(page.page_id))
    open_existing = parse_acks(data, page.page_id, page.identity(), path)
    if page.header is not None:
        problems += open_existing.problems
    marks = bytearray(message_count)
    tx_acks: dict[int, int] = {}
    for ack in open_existing.acks:
        stop = ack.first + ack.message_count
        if stop > message_count:
            if is_closed and page.problem is None:  # else a power cut may have taken the messages
                text = f"messages {ack.first} to {stop - 1} were acknowledged, and the page has {message_count}"
                problems.append(Problem(path, 0, "ack_number", text))
            continue
        if ack.tx_id != NO_TRANSACTION:
            tx_acks[ack.tx_id] = tx_acks.get(ack.tx_id, 0) + 1
        marks[ack.first : stop] = b"\1" * ack.message_count
    return marks.count(1), tx_acks
