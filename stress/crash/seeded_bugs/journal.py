"""Seeded bugs of the journal."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import COMMIT_WITH_A_SECOND_SYNC, COMMIT_WITHOUT_SYNC, bug_in_function

_FILES, _FILE = "binlog/journal/files/journal_files.py", "binlog/journal/files/journal_files.py"
_APPENDER = "binlog/journal/appender.py"

BUGS = (
    bug_in_function(
        "journal-acknowledged-before-sync", "journal-power", "an append counts as durable before its sync",
        *COMMIT_WITHOUT_SYNC,
    ),
    bug_in_function(
        "journal-name-not-synced", "journal-power", "a new file's name is not synced before the file is used",
        _FILES, "JournalFiles._make",
        "if not directory.link(unfinished, name):\n"
        '    raise AccessError(f"{path} exists already", errno=errno.EEXIST, path=path)',
        "os.rename(unfinished, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)",
    ),
    bug_in_function(
        "journal-control-not-synced", "journal-power", "a control file is named before its bytes are synced",
        "binlog/journal/compaction/control_file.py", "write_control",
        "directory.write_new(_UNFINISHED, data)",
        "directory.remove(_UNFINISHED)\n"
        "fd = directory.create(_UNFINISHED)\n"
        "os.pwrite(fd, data, 0)\n"
        "directory.close_file(fd)",
    ),
    bug_in_function(
        "journal-compacted-not-synced", "journal-power", "a compaction's output is not synced",
        "binlog/journal/compaction/output_files.py", "_write_beside",
        "file.directory.write_new(name, data)",
        "file.directory.remove(name)\n"
        "fd = file.directory.create(name)\n"
        "os.pwrite(fd, data, 0)\n"
        "file.directory.close_file(fd)",
    ),
    bug_in_function(
        "journal-counts-not-compared", "journal-power", "a commit's record counts are not checked",
        "native/codec/journal/journal_states.c", "compare_counts",
        "each->declared_count != (int64_t)each->kept_count",
        "!each->declared_count",
    ),
    bug_in_function(
        "journal-freed-at-once", "journal-power", "files are freed before the deletes that killed them are durable",
        "binlog/journal/compaction/maintenance.py", "MaintenanceThread._reclaim",
        "self._appender.wait(count)",
        "self._appender.wait(count - self._appender._record_count)  # as if the last file had been synced",
    ),
    bug_in_function(
        "journal-header-not-renewed", "journal-power", "a freed file's new header is not synced",
        _FILE, "JournalFile.renew",
        "self.sync()",
        "",
    ),
    bug_in_function(
        "journal-freed-header-trusted", "journal-power", "a load trusts the header of a file that a dead process freed",
        "binlog/journal/compaction/control_file.py", "roll_forward",
        "_make_header_durable(directory, name)",
        "continue",
    ),
    bug_in_function(
        "journal-file-id-used-twice", "journal-kill", "two files have the same id",
        _FILES, "JournalFiles._header",
        "self.id_max += 1",
        "self.id_max += not self.free",
    ),
    bug_in_function(
        "journal-no-zeros-after", "journal-kill", "no zeros are written after the last record",
        _APPENDER, "Appender.append",
        "zeros, skipped = _ZEROS, -at % BLOCK_BYTES",
        "zeros, skipped = 0, -at % BLOCK_BYTES",
    ),
    bug_in_function(
        "journal-deletes-freed-first", "journal-kill", "a file that holds deletes of another one's records is freed",
        "binlog/journal/ledger.py", "dead_files",
        "if not file.pin_count and file.must_outlive.isdisjoint(remaining):",
        "if not file.pin_count:",
    ),
    bug_in_function(
        "journal-unfinished-not-rolled-back", "journal-kill", "a load does not roll back unfinished transactions",
        "binlog/journal/lifecycle.py", "JournalLifecycle._roll_back",
        'self._end_transaction(Kind.ROLLBACK, tx_id, b"", b"")',
        "self._ledger.roll_back(tx_id, self._appender.file)",
    ),
    bug_in_function(
        "journal-moved-before-control", "journal-kill", "files are renamed before the control file is written",
        "binlog/journal/compaction/compactor.py", "Compactor._write_control",
        "write_control(directory, moves)",
        "rename_all(directory, moves)\n"
        "write_control(directory, moves)",
    ),
    bug_in_function(
        "journal-sync-retried", "journal-faults", "a failed sync is retried, which does nothing",
        *COMMIT_WITH_A_SECOND_SYNC,
    ),
    bug_in_function(
        "journal-unsynced-bytes-trusted", "journal-faults", "bytes of a failed sync are not written again",
        "binlog/journal/loading/loading.py", "Loading._resume_after_records",
        "write_again(file.fd, end, file.path)",
        "pass",
    ),
    bug_in_function(
        "journal-full-disk-is-fatal", "journal-faults", "nothing is appended after a file could not be made",
        "binlog/journal/files/journal_files.py", "is_fatal",
        "return not isinstance(error, BinlogError) or isinstance(error, (PoisonedError, InternalError))",
        "return True",
    ),
)  # fmt: skip
