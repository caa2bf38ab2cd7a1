"""Messages: each is a chain of pages."""

from __future__ import annotations

from collections.abc import Iterator

from binlog.errors import CorruptError
from binlog.format.pagestore.page import (
    NONE,
    MessagePage,
    end_of_whole_message,
    message_bytes,
    parse_message_page,
    whole_message,
)
from binlog.pagestore.pages.cache import Cache
from binlog.pagestore.pages.changes import Changes


def write_message(changes: Changes, body: bytes) -> int:
    """Write a message to new pages, and return the first one.  Raises: FullError; AccessError."""
    room = message_bytes(changes.cache.file.page_bytes)
    if len(body) <= room:
        number = changes.take()
        changes.create(number, MessagePage(NONE, NONE, body).pack())
        return number
    parts = [body[at : at + room] for at in range(0, len(body), room)]
    numbers = [changes.take() for _ in parts]
    chain = [NONE, *numbers, NONE]
    for index, part in enumerate(parts):
        changes.create(numbers[index], MessagePage(chain[index], chain[index + 2], part).pack())
    return numbers[0]


def read_message(cache: Cache, first_page: int) -> bytes:
    """Return the message that starts at a page.  Raises: CorruptError; AccessError."""
    body = whole_message(cache.get(first_page).content)
    return b"".join(page.part for _, page in _chain(cache, first_page)) if body is None else body


def free_message(changes: Changes, first_page: int) -> None:
    """Free the pages of a message; if one is damaged, only those that certainly belong to it.

    Raises: CorruptError if one is free already; AccessError.
    """
    number, previous = first_page, NONE
    while number != NONE:
        try:
            content = changes.get(number).content
        except CorruptError:
            following = _page_after_damaged(changes.cache, number)
        else:
            try:
                if previous == NONE and end_of_whole_message(content) is not None:
                    following = NONE
                else:
                    following = parse_message_page(content, previous, changes.cache.file.at(number)).next
            except CorruptError:
                return  # the page is valid, and belongs to another message
        changes.free(number)
        number, previous = following, number


def _page_after_damaged(cache: Cache, number: int) -> int:
    """Return the page after a damaged one, if that page names the damaged one as its predecessor."""
    following = cache.file.read_next(number)
    if following < 0:
        return NONE
    try:
        parse_message_page(cache.content(following), number, cache.file.at(following))
    except CorruptError:
        return NONE
    return following


def _chain(cache: Cache, first_page: int) -> Iterator[tuple[int, MessagePage]]:
    number, previous = first_page, NONE
    while number != NONE:  # each page names its predecessor, so the chain has no cycle
        page = parse_message_page(cache.get(number).content, previous, cache.file.at(number))
        yield number, page
        number, previous = page.next, number
