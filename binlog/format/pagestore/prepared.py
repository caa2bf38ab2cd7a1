"""The record of a prepared transaction: a message in a queue with a reserved name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.layout import Field, Layout
from binlog.format.pagestore.index import NAME_BYTES_MAX

PREPARED_QUEUE = "sys$prepared"
XID_PART_BYTES_MAX = 64
_VERSION = 1

PREPARED_HEAD = Layout(
    "prepared_head",
    "The head of a prepared transaction's message; the global id, the branch and the entries follow",
    size=20,
    fields=(
        Field("version", "u8", "a reader refuses a version it does not know", const=_VERSION),
        Field("global_bytes", "u8", "size of the global id, at most 64"),
        Field("branch_bytes", "u8", "size of the branch, at most 64"),
        Field("reserved", "u8", "0", const=0),
        Field("format_id", "i32", "format id of the xid"),
        Field("prepared_ms", "u64", "time of the prepare, milliseconds since 1970 UTC"),
        Field("entry_count", "u32", "number of entries"),
    ),
)
PREPARED_ENTRY = Layout(
    "prepared_entry",
    "An entry: a message that the transaction puts or gets; the queue's name follows, in UTF-8",
    size=11,
    fields=(
        Field("kind", "u8", "1 put: available after the commit; 2 got: removed by the commit"),
        Field("name_bytes", "u16", "size of the queue's name"),
        Field("key", "i64", "key of the message"),
    ),
)
_PUT, _GET = 1, 2


class Xid(NamedTuple):
    """The name of a distributed transaction.  global_id, branch: up to 64 bytes each."""

    format_id: int
    global_id: bytes
    branch: bytes = b""

    def __str__(self) -> str:
        return f"{self.format_id}:{self.global_id.hex()}:{self.branch.hex()}"


def parse_xid(text: str) -> Xid:
    """Parse the text that `str` returns.  Raises: ValueError."""
    try:
        format_id, global_id, branch = text.split(":")
        xid = Xid(int(format_id), bytes.fromhex(global_id), bytes.fromhex(branch))
    except ValueError:
        raise ValueError(f"{text!r} is not an xid, such as 1:0a0b:0c") from None
    check_xid(xid)
    return xid


def check_xid(xid: Xid) -> None:
    """Raise ValueError if an xid is not valid."""
    if not -(1 << 31) <= xid.format_id < 1 << 31 or max(len(xid.global_id), len(xid.branch)) > XID_PART_BYTES_MAX:
        raise ValueError(f"{xid} is not an i32 and two parts of at most {XID_PART_BYTES_MAX} bytes")


class PreparedRecord(NamedTuple):
    """A prepared transaction.  puts, gets: queue and key of each of its messages."""

    xid: Xid
    prepared_ms: int
    puts: tuple[tuple[str, int], ...]
    gets: tuple[tuple[str, int], ...]

    def pack(self) -> bytes:
        """Return the bytes of its message."""
        values = {
            "global_bytes": len(self.xid.global_id),
            "branch_bytes": len(self.xid.branch),
            "format_id": self.xid.format_id,
            "prepared_ms": self.prepared_ms,
            "entry_count": len(self.puts) + len(self.gets),
        }
        entries = [_entry(_PUT, *each) for each in self.puts] + [_entry(_GET, *each) for each in self.gets]
        return b"".join((PREPARED_HEAD.pack(values), self.xid.global_id, self.xid.branch, *entries))


def _entry(kind: int, queue: str, key: int) -> bytes:
    name = queue.encode()
    return PREPARED_ENTRY.pack({"kind": kind, "name_bytes": len(name), "key": key}) + name


def parse_prepared(data: bytes, path: str) -> PreparedRecord:
    """Parse the message of a prepared transaction.  Raises: CorruptError."""
    if len(data) < PREPARED_HEAD.size or data[0] != _VERSION:
        raise CorruptError(path, 0, "prepared", "the message of a prepared transaction has an unknown layout")
    head = PREPARED_HEAD.unpack(data)
    branch_at = PREPARED_HEAD.size + head["global_bytes"]
    end = branch_at + head["branch_bytes"]
    xid = Xid(head["format_id"], data[PREPARED_HEAD.size : branch_at], data[branch_at:end])
    entries = list(_entries(data, end, head["entry_count"], path))
    puts = tuple((queue, key) for kind, queue, key in entries if kind == _PUT)
    gets = tuple((queue, key) for kind, queue, key in entries if kind == _GET)
    return PreparedRecord(xid, head["prepared_ms"], puts, gets)


def _entries(data: bytes, offset: int, count: int, path: str) -> Iterator[tuple[int, str, int]]:
    for _ in range(count):
        start = offset + PREPARED_ENTRY.size
        if start > len(data):
            break
        found = PREPARED_ENTRY.unpack(data, offset)
        offset = start + found["name_bytes"]
        name = data[start:offset]
        if found["kind"] not in (_PUT, _GET) or found["name_bytes"] > NAME_BYTES_MAX or len(name) < found["name_bytes"]:
            break
        try:
            yield found["kind"], name.decode(), found["key"]
        except UnicodeDecodeError:
            break
    else:
        if offset == len(data):
            return
    raise CorruptError(
        path,
        offset,
        "prepared",
        f"the message of a prepared transaction does not have the {count} entries that it claims",
    )
