"""Seeded bugs of the page store."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import (
    COMMIT_WITH_A_SECOND_SYNC,
    COMMIT_WITHOUT_SYNC,
    Change,
    SeededBug,
    bug_in_function,
)

_STORE, _CACHE, _LOG = (
    "binlog/pagestore/store.py",
    "binlog/pagestore/pages/cache.py",
    "binlog/pagestore/transaction_log.py",
)

BUGS = (
    SeededBug(
        "pagestore-header-first", "pagestore-power", "the log is restarted before the pages are written",
        (
            Change(_STORE, "PageStore._checkpoint", "self._cache.flush()", ""),
            Change(
                _STORE, "PageStore._checkpoint",
                "self._cache.generation = start.generation",
                "self._cache.flush()\nself._cache.generation = start.generation",
            ),
        ),
    ),
    bug_in_function(
        "pagestore-pages-not-synced", "pagestore-power", "the pages are not synced at a checkpoint",
        _CACHE, "Cache.flush",
        "self.file.sync()",
        "",
    ),
    bug_in_function(
        "pagestore-pins-ignored", "pagestore-power", "pages are written before their records",
        _CACHE, "Cache._victims",
        "if page.is_dirty and page.pinned_until > durable:\n    continue",
        "",
    ),
    bug_in_function(
        "pagestore-acknowledged-before-sync", "pagestore-power", "the log is never synced by commits",
        *COMMIT_WITHOUT_SYNC,
    ),
    bug_in_function(
        "pagestore-backup-name-not-synced", "pagestore-power", "an unfinished backup may be taken for an empty folder",
        "binlog/pagestore/backup.py", "Backup.__init__",
        "self._directory.sync()",
        "pass",
    ),
    bug_in_function(
        "pagestore-map-in-place", "pagestore-kill", "the next map is written over the present one",
        "binlog/format/pagestore/other_files.py", "map_name",
        "MAP_FILES[generation % len(MAP_FILES)]",
        "MAP_FILES[0]",
    ),
    bug_in_function(
        "pagestore-freed-forgotten", "pagestore-kill", "pages that the log frees stay in use",
        "binlog/pagestore/recovery.py", "Redo.update_free_pages",
        "free.release(number)",
        "pass",
    ),
    bug_in_function(
        "pagestore-sync-retried", "pagestore-faults", "a failed sync is retried, which does nothing",
        *COMMIT_WITH_A_SECOND_SYNC,
    ),
    bug_in_function(
        "pagestore-unsynced-bytes-trusted", "pagestore-faults", "pages are redone from a log that is not synced",
        "binlog/pagestore/recovery.py", "StoreFiles.__init__",
        "write_at(self.log_fd, memoryview(data)[: records.end], 0, path)",
        "",
    ),
    bug_in_function(
        "pagestore-full-disk-is-fatal", "pagestore-faults", "nothing works after a checkpoint had no space",
        _LOG, "TransactionLog._begin_generation",
        "self._due = self.end - self._base + self._log_bytes // 2",
        "self._due = self.end - self._base + self._log_bytes // 2\nself.fail(error)",
    ),
)  # fmt: skip
