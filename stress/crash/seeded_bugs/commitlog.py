"""Seeded bugs of the commit log."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import (
    COMMIT_WITH_A_SECOND_SYNC,
    COMMIT_WITHOUT_SYNC,
    Change,
    SeededBug,
    bug_in_function,
)

_MAPPED = "binlog/commitlog/files/mapped_file.py"

BUGS = (
    bug_in_function(
        "commitlog-acknowledged-before-flush", "commitlog-power", "with sync flush an append returns before the flush",
        *COMMIT_WITHOUT_SYNC,
    ),
    bug_in_function(
        "commitlog-marker-removed-first", "commitlog-power", "the crash marker is removed before everything is flushed",
        "binlog/commitlog/store.py", "MessageStore._end",
        "run_all(",
        'os.unlink(os.path.join(self.path, "abort"))\nrun_all(',
    ),
    bug_in_function(
        "commitlog-name-not-synced", "commitlog-power", "a new file's name is not synced",
        _MAPPED, "MappedFile._create",
        "self._files.directory.sync(os.path.dirname(self._name))",
        "",
    ),
    SeededBug(
        "commitlog-incomplete-crc-accepted", "commitlog-power", "a message without a part of its CRC is accepted",
        (
            Change(
                "binlog/format/commitlog/message.py", "_without_crc",
                "if _CRC_LEFT.fullmatch(found) and 0 in found:",
                "if not _CRC_LEFT:",
            ),
            Change("native/codec/commitlog/message_parse.c", "crcs_match", "return kept == CRC_NONE;", "return 1;"),
        ),
    ),
    bug_in_function(
        "commitlog-buffers-forgotten", "commitlog-kill", "recovery ignores the buffers of a dead process",
        "binlog/commitlog/recovery/recovery.py", "recover",
        "log.recover_buffer(buffer, buffer.offset or 0)",
        "pass",
    ),
    bug_in_function(
        "commitlog-end-not-erased", "commitlog-kill", "recovery does not erase the bytes after the end",
        _MAPPED, "MappedFile.move",
        "if self._ahead_bytes is None:\n"
        "    erase(fd, position, self.file_bytes, self.path)\n"
        "else:\n"
        "    erase_data(fd, position, self.file_bytes, self.path)",
        "",
    ),
    bug_in_function(
        "commitlog-offset-not-compared", "commitlog-kill", "a message's own offset is not compared",
        "native/codec/commitlog/message_parse.c", "parse_message",
        "get_u64(data + MESSAGE_OFFSET) != offset)",
        "(get_u64(data + MESSAGE_OFFSET) != offset && 0))",
    ),
    bug_in_function(
        "commitlog-unsynced-bytes-trusted", "commitlog-faults", "bytes of a failed sync are not written again",
        _MAPPED, "MappedFile.rewrite",
        "write_again(fd, stop, self.path)",
        "pass",
    ),
    bug_in_function(
        "commitlog-sync-retried", "commitlog-faults", "a failed sync is retried, which does nothing",
        *COMMIT_WITH_A_SECOND_SYNC,
    ),
)  # fmt: skip
