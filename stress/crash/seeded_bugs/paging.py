"""Seeded bugs of the queue, and of pages that are depaged."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import Change, SeededBug, bug_in_function

_PAGE, _DEPAGING, _REMOVAL = (
    "binlog/paging/page.py",
    "binlog/paging/depaging.py",
    "binlog/paging/cursor/page_removal.py",
)

BUGS = (
    bug_in_function(
        "paging-commit-not-synced", "paging-power", "a transaction is committed before its pages are synced",
        "binlog/paging/page_transaction.py", "PageTransaction._record_commit",
        "for each in self._enlisted:\n    each.sync()",
        "",
    ),
    bug_in_function(
        "paging-name-not-synced", "paging-power", "a page is synced, but its name is not",
        _PAGE, "Page._sync",
        "if not self._name_is_durable:\n    self.folder.sync()\n    self._name_is_durable = True",
        "",
    ),
    bug_in_function(
        "paging-commit-markers-ignored", "paging-power", "a page's commit markers are not read",
        "binlog/paging/store.py", "PagingStore.start",
        "page.marker_id, page.rolled_back = self._commit_markers.get(page.page_id, (0, None))",
        "page.marker_id = self._commit_markers.get(page.page_id, (0, None))[0]",
    ),
    bug_in_function(
        "paging-last-ack-forgotten", "paging-kill", "the last acknowledgement in a file is ignored",
        "binlog/paging/cursor/page_acks.py", "PageAcks._load",
        "for ack in found.acks:",
        "for ack in found.acks[:-1]:",
    ),
    SeededBug(
        "paging-acks-removed-first", "paging-kill", "acknowledgements are removed before their page",
        (
            Change(_REMOVAL, "PageRemoval._remove_page", "remove_acks(page.folder, page.page_id)", ""),
            Change(
                _REMOVAL, "PageRemoval._remove_page",
                "page.delete()",
                "remove_acks(page.folder, page.page_id)\npage.delete()",
            ),
        ),
    ),
    bug_in_function(
        "paging-sync-retried", "paging-faults", "a failed sync is retried, which does nothing",
        "binlog/paging/addresses.py", "AddressFolder.sync_file",
        "with self.change:\n"
        "    sync(fd, path)",
        "try:\n"
        "    sync(fd, path)\n"
        "except PoisonedError:\n"
        "    sync(fd, path)",
    ),
    bug_in_function(
        "depage-page-removed-first", "depage-power", "a page is removed before its depaging is committed",
        _DEPAGING, "Depaging.run",
        "deliver(store.address, messages, store_tx_id)",
        "deliver(store.address, messages, store_tx_id)\n"
        "page.delete()",
    ),
    bug_in_function(
        "depage-failed-commit-counts", "depage-faults", "a page is removed though its depaging could not be committed",
        "binlog/paging/transactions.py", "PageTransactions.decrement",
        "self.store.commit(store_tx_id)",
        "try:\n"
        "    self.store.commit(store_tx_id)\n"
        "except BaseException:\n"
        "    pass",
    ),
    bug_in_function(
        "depage-page-not-put-back", "depage-faults", "a page whose depaging failed is forgotten",
        _DEPAGING, "Depaging.run",
        "store.put_back(page)",
        "pass",
    ),
    bug_in_function(
        "depage-last-page-forgotten", "depage-kill", "the last depaged page is not read",
        _DEPAGING, "Depaging.__init__",
        "(record.record_id, reference)",
        "(record.record_id, PageReference(0, reference.address))",
    ),
)  # fmt: skip
