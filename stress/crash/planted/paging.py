"""Mistakes of the queue, and of pages that are depaged."""

from __future__ import annotations

from stress.crash.planted.mistake import Change, Mistake, in_function

_PAGE, _DEPAGING, _REMOVAL = (
    "binlog/paging/page.py",
    "binlog/paging/depaging.py",
    "binlog/paging/cursor/page_removal.py",
)

MISTAKES = (
    in_function(
        "paging-commit-not-synced", "paging-power", "a transaction is committed before its pages are synced",
        "binlog/paging/page_transaction.py", "PageTransaction._record_commit",
        "for each in self._enlisted:\n    each.sync()",
        "",
    ),
    in_function(
        "paging-name-not-synced", "paging-power", "a page is synced, and its name is not",
        _PAGE, "Page._sync",
        "if not self._name_is_durable:\n    self.folder.sync()\n    self._name_is_durable = True",
        "",
    ),
    in_function(
        "paging-commit-marker-forgotten", "paging-power", "that a page's transactions were committed is not read",
        "binlog/paging/store.py", "PagingStore.start",
        "page.marker_id, page.rolled_back = self._commit_markers.get(page.page_id, (0, None))",
        "page.marker_id = self._commit_markers.get(page.page_id, (0, None))[0]",
    ),
    in_function(
        "paging-last-ack-forgotten", "paging-kill", "the last acknowledgement in a file does not count",
        "binlog/paging/cursor/page_acks.py", "PageAcks._load",
        "for ack in found.acks:",
        "for ack in found.acks[:-1]:",
    ),
    Mistake(
        "paging-acks-removed-first", "paging-kill", "acknowledgements go before the page that they are of",
        (
            Change(_REMOVAL, "PageRemoval._remove_page", "remove_acks(page.folder, page.page_id)", ""),
            Change(
                _REMOVAL, "PageRemoval._remove_page",
                "page.delete()",
                "remove_acks(page.folder, page.page_id)\npage.delete()",
            ),
        ),
    ),
    in_function(
        "paging-sync-tried-again", "paging-faults", "a sync that failed is made again, and does nothing",
        "binlog/paging/addresses.py", "AddressFolder.sync_file",
        "with self.change:\n"
        "    sync(fd, path)",
        "try:\n"
        "    sync(fd, path)\n"
        "except PoisonedError:\n"
        "    sync(fd, path)",
    ),
    in_function(
        "depage-page-removed-first", "depage-power", "a page goes before it is committed that it was depaged",
        _DEPAGING, "Depaging.run",
        "deliver(store.address, messages, store_tx_id)",
        "deliver(store.address, messages, store_tx_id)\n"
        "page.delete()",
    ),
    in_function(
        "depage-failed-commit-counts", "depage-faults", "a page goes whose depaging could not be committed",
        "binlog/paging/transactions.py", "PageTransactions.decrement",
        "self.store.commit(store_tx_id)",
        "try:\n"
        "    self.store.commit(store_tx_id)\n"
        "except BaseException:\n"
        "    pass",
    ),
    in_function(
        "depage-page-not-put-back", "depage-faults", "a page whose depaging failed is forgotten",
        _DEPAGING, "Depaging.run",
        "store.put_back(page)",
        "pass",
    ),
    in_function(
        "depage-last-page-forgotten", "depage-kill", "nobody looks which page was depaged last",
        _DEPAGING, "Depaging.__init__",
        "(record.record_id, reference)",
        "(record.record_id, PageReference(0, reference.address))",
    ),
)  # fmt: skip
