"""Mistakes of the log, and of what it has in common with all."""

from __future__ import annotations

from stress.crash.planted.mistake import Change, Mistake, in_function

_GROUP, _COMMIT = "native/group.c", "native/commit.c"
_INGEST, _RECORD = "binlog/log/ingest/ingestion.py", "binlog/log/ingest/ingest_record.py"
_TABLE = "binlog/log/recovery/recovery_table.py"

MISTAKES = (
    Mistake("no-data-sync", "power", "fdatasync of a file does nothing"),
    Mistake("no-directory-sync", "power", "fsync of a directory does nothing"),
    Mistake("no-parent-sync", "power", "the directory above a new log's is not synced"),
    Mistake("no-sync-of-new-files", "power", "a file gets its name before its header is synced"),
    Mistake("sync-before-write", "power", "each write comes after the sync that was to cover it"),
    Mistake("tail-before-data", "power", "the tail is written, and then the records"),
    in_function(
        "name-not-synced", "power", "a new file's name is not synced before the file is used",
        "binlog/storage/directory.py", "Directory.link",
        "if durable:\n    self.sync()",
        "",
    ),
    in_function(
        "group-crc-not-checked", "power", "recovery rolls a commit forward without a look at its bytes",
        _TABLE, "decide",
        "adoptable and evidence.crc_holds(pending.start, pending.end, pending.group_crc)",
        "adoptable and pending.start <= pending.end",
    ),
    in_function(
        "pending-discarded", "power", "a commit whose tail was not published is dropped, not rolled forward",
        _TABLE, "decide",
        "return Verdict(8, Action.ROLL_FORWARD, pending.end, slot=pending)",
        "return Verdict(8, Action.KEEP, header.tail)",
    ),
    in_function(
        "slot-not-written", "power", "a group is synced and published, and its commit slot never written",
        _COMMIT, "confirm",
        "if ((result = binlog_write(file->fd, bytes, COMMIT_SLOT_BYTES, slot_offset(slot.counter))) != 0)\n"
        "    return result;",
        "",
    ),
    in_function(
        "drafts-record-not-synced", "power", "an ingest is decided by a record whose bytes are not synced",
        "binlog/log/recovery/file_operations.py", "replace_file",
        "file.sync()",
        "pass",
    ),
    in_function(
        "drafts-hidden-names-not-synced", "power", "an ingest is decided before the names of its files are synced",
        _INGEST, "Ingestion.begin",
        "directory.sync()",
        "",
    ),
    in_function(
        "drafts-record-name-not-synced", "power", "a draft is a file of the log before the record's name is synced",
        "binlog/storage/directory.py", "Directory.rename",
        "self.sync(os.path.dirname(new))",
        "",
    ),
    in_function(
        "drafts-names-not-synced", "power", "a file is closed before the name of the draft after it is synced",
        _INGEST, "IngestedFile.give_name",
        "directory.sync()",
        "",
    ),
    in_function(
        "drafts-header-not-synced", "power", "a draft gets its name before its header is synced",
        _INGEST, "Ingestion._take",
        "sync(fd, path)",
        "",
    ),
    in_function(
        "lock-not-taken-again", "kill", "a deputy leads without the lock that it waited for",
        _GROUP, "lock_as_deputy",
        "result = lock_queued(file, request);",
        "(void)file;\n(void)request;",
    ),
    Mistake(
        "stale-tail", "kill", "a header is trusted from before another writer came and died",
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
    in_function(
        "staged-forgotten", "kill", "what a dead leader had taken is not staged again",
        "native/staging_area.c", "area_requeue",
        "&taken, ENTRY_STAGED",
        "&taken, ENTRY_WITHDRAWN",
    ),
    in_function(
        "staged-twice", "kill", "what a dead leader had committed is staged again",
        "binlog/log/recovery/dead_leader.py", "outcome",
        "return _outcome_of_commit(note, header, evidence)",
        "return Outcome.STAGED_AGAIN",
    ),
    in_function(
        "drafts-placed-twice", "kill", "a draft that has its number gets another one after a death",
        _INGEST, "Ingestion._is_placed",
        "return (existing.uuid, existing.created_ns) == (found.uuid, found.created_ns)",
        "return existing is None",
    ),
    in_function(
        "drafts-rest-forgotten", "kill", "after a death the drafts without a number stay without one",
        _INGEST, "Ingestion.resume",
        "self._place(file, header, name, record)\nreturn None",
        "continue",
    ),
    in_function(
        "sync-tried-again", "faults", "a sync that failed is made again, and then says that all is well",
        _COMMIT, "sync_data",
        "return result == 0 ? 0 : -errno;",
        "return result == 0 || fdatasync(fd) == 0 ? 0 : -errno;",
    ),
    in_function(
        "poison-not-written", "faults", "a failed sync is told to nobody but the one who made it",
        _GROUP, "commit",
        "commit_write_poison(file, header, *step == BINLOG_STEP_PUBLISH_SYNC ? live : &before, -result);\n"
        "if (area)\n"
        "    binlog_area_fail(area, file->number, -result);",
        "(void)before, (void)area;",
    ),
    in_function(
        "sealed-offsets-used-again", "faults", "a file is cut after a failed sync, and gone on with",
        "binlog/log/recovery/recovery.py", "Recovery._sealed",
        "header = replace(header, next_number=header.number + 1)",
        "",
    ),
    Mistake(
        "tail-not-compared", "damage", "a tail is believed without a look at our own copy of it",
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
                "    believed = replace(believed, tail=believed.published_tail)",
                "",
            ),
        ),
    ),
)  # fmt: skip
