"""Recovers the pages that an earlier process left, and removes those that are no longer needed."""

from __future__ import annotations

from collections.abc import Collection

from binlog.format.paging.names import ACKS_EXTENSION, DELIVERIES_EXTENSION, PAGE_EXTENSION, acks_name, page_name
from binlog.format.paging.page_file import PageLayout
from binlog.paging.addresses import AddressFolder
from binlog.paging.cursor.page_acks import is_newer_page, remove_acks
from binlog.paging.cursor.page_deliveries import remove_deliveries
from binlog.paging.page import Page


def recover_pages(
    folder: AddressFolder, processed: int, processed_identity: bytes, complete: Collection[int]
) -> list[Page]:
    """Return the pages that have messages, oldest first, after making them durable.

    processed: pages up to this one were depaged.  In the layout of JBoss Messaging this holds only for the page with
    this identity, because JBoss Messaging may have created others with the same numbers since.  complete: pages whose
    messages were all acknowledged.
    Raises: AccessError; FullError; PoisonedError.
    """
    has_failed = folder.has_failed
    pages = []
    for page_id in folder.ids(PAGE_EXTENSION):
        page = Page.open_existing(folder, page_id)
        is_empty = page.message_count == 0 and page.problem is None
        is_complete = page_id in complete and not is_newer_page(page)
        is_processed = page_id <= processed
        if is_processed and folder.layout is PageLayout.JBM:
            is_processed = page_id == processed and page.identity() == processed_identity
        if is_processed or is_complete or is_empty:
            page.delete()
        else:
            pages.append(page)
            if has_failed:
                folder.rewrite(page_name(page_id))
            else:
                page.sync_found()
    present = {page.page_id for page in pages}
    folder.sync()  # acknowledgements are removed only after their page
    for page_id in folder.ids(ACKS_EXTENSION):
        if page_id not in present:
            remove_acks(folder, page_id)
        elif has_failed:
            folder.rewrite(acks_name(page_id))
    for page_id in folder.ids(DELIVERIES_EXTENSION):
        if page_id not in present:
            remove_deliveries(folder, page_id)
    if has_failed:
        folder.clear_failure()
    return pages
