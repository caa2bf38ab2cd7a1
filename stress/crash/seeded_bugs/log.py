"""Seeded bugs of the log, and of code that all engines share."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import Change, SeededBug, bug_in_function

_GROUP, _COMMIT = "native/log/group.c", "native/log/commit.c"
_INGEST, _RECORD = "binlog/log/ingest/ingestion.py", "binlog/log/ingest/ingest_record.py"
_TABLE = "binlog/log/recovery/recovery_table.py"

BUGS = (
    SeededBug("no-data-sync", "power", "fdatasync of a file does nothing"),
    SeededBug("no-directory-sync", "power", "fsync of a directory does nothing"),
    SeededBug("no-parent-sync", "power", "the parent directory of a new log is not synced"),
    SeededBug("no-sync-of-new-files", "power", "a file gets its name before its header is synced"),
    SeededBug("sync-before-write", "power", "each write is made after the sync that should cover it"),
    SeededBug("tail-before-data", "power", "the tail is written, and then the records"),
    bug_in_function(
        "name-not-synced", "power", "a new file's name is not synced before the file is used",
        "binlog/storage/directory.py", "Directory.link",
        "if durable:\n    self.sync()",
        "",
    ),
    bug_in_function(
        "group-crc-not-checked", "power", "recovery rolls a commit forward without checking its bytes",
        _TABLE, "decide",
        "adoptable and evidence.crc_holds(pending.start, pending.end, pending.group_crc)",
        "adoptable and pending.start <= pending.end",
    ),
    bug_in_function(
        "pending-discarded", "power", "a commit whose tail was not published is dropped, not rolled forward",
        _TABLE, "decide",
        "return Verdict(8, Action.ROLL_FORWARD, pending.end, slot=pending)",
        "return Verdict(8, Action.KEEP, header.tail)",
    ),
    bug_in_function(
        "slot-not-written", "power", "a group is synced and published without its commit slot",
        _COMMIT, "confirm",
        "if ((result = binlog_write(file->fd, bytes, COMMIT_SLOT_BYTES, slot_offset(slot.counter))) != 0)\n"
        "    return result;",
        "",
    ),
    bug_in_function(
        "ingest-record-not-synced", "power", "an ingest is decided by a record that is not synced",
        "binlog/log/recovery/file_operations.py", "replace_file",
        "file.sync()",
        "pass",
    ),
    bug_in_function(
        "ingest-hidden-names-not-synced", "power", "an ingest is decided before the names of its files are synced",
        _INGEST, "Ingestion.begin",
        "directory.sync()",
        "",
    ),
    bug_in_function(
        "ingest-record-name-not-synced", "power", "an external file joins the log before the record's name is synced",
        "binlog/storage/directory.py", "Directory.rename",
        "self.sync(os.path.dirname(new))",
        "",
    ),
    bug_in_function(
        "ingest-names-not-synced", "power", "a file is closed before the name of the external file after it is synced",
        _INGEST, "IngestedFile.give_name",
        "directory.sync()",
        "",
    ),
    bug_in_function(
        "ingest-header-not-synced", "power", "an external file gets its name before its header is synced",
        _INGEST, "Ingestion._take",
        "sync(fd, path)",
        "",
    ),
    bug_in_function(
        "lock-not-reacquired", "kill", "a deputy leads without the lock that it waited for",
        _GROUP, "lock_as_deputy",
        "result = lock_queued(file, request);",
        "(void)file;\n(void)request;",
    ),
    SeededBug(
        "stale-tail", "kill", "a header read before another writer came and died is trusted",
        (
            Change(
                _GROUP, "check_state",
                "static int check_state(",
                "static uint8_t kept[LOG_HEADER_BYTES];\nstatic const struct binlog_file *kept_of;\n\n"
                "static int check_state(",
            ),
            Change(
                _GROUP, "check_state",
                "int result = commit_read_header(file->fd, header);",
                "int result = 0;\n"
                "if (area && kept_of == file && binlog_area_alone(area->fd))\n"
                "    memcpy(header, kept, LOG_HEADER_BYTES);\n"
                "else\n"
                "    result = commit_read_header(file->fd, header);",
            ),
            Change(
                _GROUP, "lead_locked",
                "*rung = live.doorbell != bell;",
                "if (result == 0) {\n"
                "    memcpy(kept, header, LOG_HEADER_BYTES);\n"
                "    kept_of = file;\n"
                "}\n"
                "*rung = live.doorbell != bell;",
            ),
        ),
    ),
    bug_in_function(
        "staged-forgotten", "kill", "records that a dead leader had taken are not staged again",
        "native/log/staging_area.c", "area_requeue",
        "&taken, ENTRY_STAGED",
        "&taken, ENTRY_WITHDRAWN",
    ),
    bug_in_function(
        "staged-twice", "kill", "records that a dead leader had committed are staged again",
        "binlog/log/recovery/dead_leader.py", "outcome",
        "return _outcome_of_commit(note, header, evidence)",
        "return Outcome.STAGED_AGAIN",
    ),
    bug_in_function(
        "ingest-placed-twice", "kill", "an external file that has a number gets another one after a death",
        _INGEST, "Ingestion._is_placed",
        "return (existing.uuid, existing.created_ns) == (found.uuid, found.created_ns)",
        "return existing is None",
    ),
    bug_in_function(
        "ingest-rest-forgotten", "kill", "after a death the external files without a number stay without one",
        _INGEST, "Ingestion.resume",
        "self._place(file, header, name, record)\nreturn None",
        "continue",
    ),
    bug_in_function(
        "sync-retried", "faults", "a failed sync is retried, and then succeeds",
        _COMMIT, "sync_data",
        "return result == 0 ? 0 : -errno;",
        "return result == 0 || fdatasync(fd) == 0 ? 0 : -errno;",
    ),
    bug_in_function(
        "poison-not-written", "faults", "a failed sync is reported only to the process that made it",
        _GROUP, "commit",
        "commit_write_poison(file, header, *step == BINLOG_STEP_PUBLISH_SYNC ? live : &before, -result);\n"
        "if (area)\n"
        "    binlog_area_fail(area, file->number, -result);",
        "(void)before, (void)area;",
    ),
    bug_in_function(
        "dropped-offsets-reused", "faults", "a file is truncated after a failed sync, and used further",
        "binlog/log/recovery/recovery.py", "Recovery._closed_early",
        "header = header._replace(next_number=header.number + 1)",
        "",
    ),
    SeededBug(
        "tail-not-compared", "damage", "a tail is trusted without comparing our own copy of it",
        (
            Change(
                "binlog/log/files/header.py", "validated_bytes",
                "believed = believe_tail("
                "header, evidence, file_bytes=lambda: content_bytes(content), same_boot=same_boot)",
                "believed = header",
            ),
            Change(
                "binlog/log/files/header.py", "validated_bytes",
                "if header.is_native and not ("
                "same_boot and header.live_good and believed.tail >= header.published_tail):",
                "if header.is_native and not (same_boot and header.live_good):",
            ),
            Change(
                "binlog/log/files/header.py", "validated_bytes",
                "elif is_unproven(believed, evidence):\n"
                "    believed = believed._replace(tail=believed.published_tail)",
                "",
            ),
        ),
    ),
)  # fmt: skip
