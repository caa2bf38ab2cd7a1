"""Mistakes of the commit log."""

from __future__ import annotations

from stress.crash.planted.mistake import COMMIT_WITH_A_SECOND_SYNC, COMMIT_WITHOUT_SYNC, Change, Mistake, in_function

_MAPPED = "binlog/commitlog/files/mapped_file.py"

MISTAKES = (
    in_function(
        "store-answered-before-flush", "store-power", "with sync flush an append returns before the flush",
        *COMMIT_WITHOUT_SYNC,
    ),
    in_function(
        "store-marker-removed-first", "store-power", "the marker of a crash goes before all is flushed",
        "binlog/commitlog/store.py", "MessageStore._end",
        "with contextlib.ExitStack() as stopping:",
        'os.unlink(os.path.join(self.path, "abort"))\nwith contextlib.ExitStack() as stopping:',
    ),
    in_function(
        "store-name-not-synced", "store-power", "a new file's name is not synced",
        _MAPPED, "MappedFile._create",
        "self._files.directory.sync(os.path.dirname(self._name))",
        "",
    ),
    Mistake(
        "store-part-of-crc-believed", "store-power", "a message that lacks a part of its CRC counts as one",
        (
            Change(
                "binlog/format/commitlog/message.py", "_without_crc",
                "if _CRC_LEFT.fullmatch(found) and 0 in found:",
                "if not _CRC_LEFT:",
            ),
            Change("native/codec/message_parse.c", "crcs_match", "return kept == CRC_NONE;", "return 1;"),
        ),
    ),
    in_function(
        "store-buffers-forgotten", "store-kill", "nobody looks for what a dead process had in its buffers",
        "binlog/commitlog/recovery/recovery.py", "recover",
        "log.recover_buffer(buffer, buffer.offset or 0)",
        "pass",
    ),
    in_function(
        "store-end-not-erased", "store-kill", "what lies behind the end stays when a store is recovered",
        _MAPPED, "MappedFile.move",
        "if self._ahead_bytes is None:\n"
        "    erase(fd, position, self.file_bytes, self.path)\n"
        "else:\n"
        "    erase_data(fd, position, self.file_bytes, self.path)",
        "",
    ),
    in_function(
        "store-offset-not-compared", "store-kill", "a message counts wherever it says that it lies",
        "native/codec/message_parse.c", "parse_message",
        "get_u64(data + MESSAGE_OFFSET) != offset)",
        "(get_u64(data + MESSAGE_OFFSET) != offset && 0))",
    ),
    in_function(
        "store-found-bytes-believed", "store-faults", "what a failed sync left is not written anew",
        _MAPPED, "MappedFile.rewrite",
        "write_at(fd, data, at, self.path)",
        "del data",
    ),
    in_function(
        "store-sync-tried-again", "store-faults", "a sync that failed is made again, and does nothing",
        *COMMIT_WITH_A_SECOND_SYNC,
    ),
)  # fmt: skip
