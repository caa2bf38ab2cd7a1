"""Reading a log file's header while others rewrite it, and whether its tail can be believed."""

from __future__ import annotations

from dataclasses import replace

from binlog.errors import CorruptError, VersionError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, LogHeader, parse_log_header
from binlog.format.ref import COUNT_MAX, OFFSET_MAX
from binlog.log.evidence import FileEvidence
from binlog.log.recovery_table import Action, decide, recovered
from binlog.log.witnesses import believe_tail, is_unproven
from binlog.storage.boot import is_this_boot
from binlog.storage.content import Content
from binlog.storage.files import content_bytes, read_at

_TAIL = LOG_HEADER.offset("tail")
_COUNT = LOG_HEADER.offset("record_count")
_BELL = LOG_HEADER.offset("doorbell")


def read_header(content: Content, number: int, path: str) -> LogHeader:
    """The header as one read gives it, which is right under the lock; see `settled_header` for elsewhere."""
    return parse_log_header(read_at(content, HEADER_BYTES, 0, path), path=path, number=number)


def settled_header(content: Content, number: int, path: str) -> LogHeader:
    """A checked header, read without the lock; see `settled_bytes`."""
    return settled_bytes(content, number, path)[0]


def settled_bytes(content: Content, number: int, path: str, known: LogHeader | None = None) -> tuple[LogHeader, bytes]:
    """A checked header, read without the lock, and its bytes.

    known: one that was checked before; where nothing has changed since, one read is all.
    A read that meets a write may see half of it.  So one read is believed where our live block vouches for its tail;
    anything else, damage too, only once two reads in a row give the same bytes.
    """
    before = b""
    while True:
        data = read_at(content, HEADER_BYTES, 0, path)
        again = data == before
        before = data
        try:
            header = parse_log_header(data, path=path, number=number)
        except (CorruptError, VersionError):
            if again:
                raise
            continue
        if known is not None and header == replace(known, doorbell=header.doorbell):
            return header, data
        if header.settled or again:
            break
    evidence = FileEvidence(content, path)
    same_boot = is_this_boot(header.boot_id)
    believed = believe_tail(header, evidence, file_bytes=lambda: content_bytes(content), same_boot=same_boot)
    check_header(believed, path)
    if header.ours and not (same_boot and header.live_good and believed.tail >= header.own_tail):
        believed = _recovered(believed, evidence, path, same_boot=same_boot)
    elif is_unproven(believed, evidence):
        believed = replace(believed, tail=believed.own_tail)
    # What is on the disk says something else: no later look may find it unchanged, and believe it.
    return believed, data if believed.tail == header.tail else _bell_alone(data)


def check_header(header: LogHeader, path: str) -> None:
    """Raise CorruptError where the header's tail or its count cannot be right, whatever happened to the file."""
    if not header.first_offset <= header.tail <= OFFSET_MAX:
        raise CorruptError(path, _TAIL, "tail", f"the tail {header.tail} is not a place for a record")
    # Where the live block's CRC does not hold, recovery may still find the count in a commit slot.
    if header.live_good and header.first_sequence + header.record_count > COUNT_MAX:
        raise CorruptError(path, _COUNT, "record-count", f"{header.record_count} records cannot be")


def check_size(tail: int, content: Content, path: str) -> None:
    """Raise CorruptError where the file ends before its tail.  A reader finds out when it comes there."""
    file_bytes = content_bytes(content)
    if tail > file_bytes:
        raise CorruptError(path, file_bytes, "truncated", f"the tail is {tail}, the file has {file_bytes} bytes")


def _bell_alone(data: bytes) -> bytes:
    return bytes(_BELL) + data[_BELL : _BELL + 4] + bytes(len(data) - _BELL - 4)


def _recovered(header: LogHeader, evidence: FileEvidence, path: str, *, same_boot: bool) -> LogHeader:
    """The header as recovery would leave it, in memory alone.

    Either another boot wrote it last, so that what the page cache held is gone, and no writer has been here since; or
    the live block or the tail is damaged, for a read that met a write was repeated.
    """
    verdict = decide(header, evidence, same_boot=same_boot, vouched=False)
    if verdict.action is Action.REFUSE:
        raise CorruptError(path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
    return recovered(header, verdict)
