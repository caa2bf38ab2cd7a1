"""Mistakes of the journal."""

from __future__ import annotations

from stress.crash.planted.mistake import COMMIT_WITH_A_SECOND_SYNC, COMMIT_WITHOUT_SYNC, in_function

_FILES, _FILE = "binlog/journal/files/journal_files.py", "binlog/journal/files/journal_files.py"
_APPENDER = "binlog/journal/appender.py"

MISTAKES = (
    in_function(
        "journal-answered-before-sync", "journal-power", "what was appended counts as durable before its sync",
        *COMMIT_WITHOUT_SYNC,
    ),
    in_function(
        "journal-name-not-synced", "journal-power", "a new file's name is not synced before the file is used",
        _FILES, "JournalFiles._make",
        "if not directory.link(unfinished, name):\n"
        '    raise AccessError(f"{path} exists already", errno=errno.EEXIST, path=path)',
        "os.rename(unfinished, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)",
    ),
    in_function(
        "journal-control-not-synced", "journal-power", "a control file has its name before its bytes are synced",
        "binlog/journal/compaction/control_file.py", "write_control",
        "directory.write_new(_UNFINISHED, data)",
        "directory.remove(_UNFINISHED)\n"
        "fd = directory.create(_UNFINISHED)\n"
        "os.pwrite(fd, data, 0)\n"
        "directory.close_file(fd)",
    ),
    in_function(
        "journal-compacted-not-synced", "journal-power", "what a compaction wrote is not synced",
        "binlog/journal/compaction/output_files.py", "_write_beside",
        "file.directory.write_new(name, data)",
        "file.directory.remove(name)\n"
        "fd = file.directory.create(name)\n"
        "os.pwrite(fd, data, 0)\n"
        "file.directory.close_file(fd)",
    ),
    in_function(
        "journal-counts-not-compared", "journal-power", "a commit's counts are not compared with what is there",
        "native/codec/journal_states.c", "compare_counts",
        "each->declared_count != (int64_t)each->kept_count",
        "!each->declared_count",
    ),
    in_function(
        "journal-freed-at-once", "journal-power", "files are freed before it is on the disk that they are dead",
        "binlog/journal/compaction/maintenance.py", "MaintenanceThread._reclaim",
        "self._appender.wait(count)",
        "self._appender.wait(count - self._appender._record_count)  # as if what lies in the last file had been synced",
    ),
    in_function(
        "journal-header-not-renewed", "journal-power", "a freed file's new header is not synced",
        _FILE, "JournalFile.renew",
        "self.sync()",
        "",
    ),
    in_function(
        "journal-file-id-used-twice", "journal-kill", "two files have the same id",
        _FILES, "JournalFiles._header",
        "self.id_max += 1",
        "self.id_max += not self.free",
    ),
    in_function(
        "journal-no-zeros-behind", "journal-kill", "no zeros are written behind the last record",
        _APPENDER, "Appender.append",
        "zeros, skipped = _ZEROS, -at % BLOCK_BYTES",
        "zeros, skipped = 0, -at % BLOCK_BYTES",
    ),
    in_function(
        "journal-deletes-freed-first", "journal-kill", "a file goes that has deletes of another one's records",
        "binlog/journal/ledger.py", "dead_files",
        "if not file.pin_count and file.must_outlive.isdisjoint(remaining):",
        "if not file.pin_count:",
    ),
    in_function(
        "journal-left-not-rolled-back", "journal-kill", "a load does not roll back what nobody ended",
        "binlog/journal/lifecycle.py", "JournalLifecycle._roll_back",
        'self._end_transaction(Kind.ROLLBACK, tx_id, b"", b"")',
        "self._ledger.roll_back(tx_id, self._appender.file)",
    ),
    in_function(
        "journal-moved-before-control", "journal-kill", "files are renamed before a control file says so",
        "binlog/journal/compaction/compactor.py", "Compactor._write_control",
        "write_control(directory, moves)",
        "rename_all(directory, moves)\n"
        "write_control(directory, moves)",
    ),
    in_function(
        "journal-sync-tried-again", "journal-faults", "a sync that failed is made again, and does nothing",
        *COMMIT_WITH_A_SECOND_SYNC,
    ),
    in_function(
        "journal-found-bytes-believed", "journal-faults", "what a failed sync left is not written anew",
        "binlog/journal/loading/loading.py", "Loading._rewrite",
        "file.write(read_at(file.fd, min(_CHUNK_BYTES, end - at), at, file.path), at)",
        "read_at(file.fd, min(_CHUNK_BYTES, end - at), at, file.path)",
    ),
    in_function(
        "journal-full-disk-for-ever", "journal-faults", "nothing is appended once no file could be made",
        "binlog/journal/files/journal_files.py", "is_fatal",
        "return not isinstance(error, BinlogError) or isinstance(error, (PoisonedError, InternalError))",
        "return True",
    ),
)  # fmt: skip
