# The types of the module binlog._codec; native/codec/module.c has its table, and the functions' files document them.
from collections.abc import Iterable
from typing import Any, TypeAlias

_Data: TypeAlias = bytes | bytearray | memoryview

def crc32(data: _Data, crc: int = ..., /) -> int: ...
def scan_records(data: _Data, to_tail: int, record_bytes_max: int, count_max: int, /) -> tuple[bytes, int]: ...
def build_ranges(
    data: _Data, to_end: bool, state: tuple[int, int, int, int, int], /
) -> tuple[bytes, int, int, int]: ...
def verify_ranges(
    entries: _Data, data: bytes | None, size: int, state: tuple[int, int, bool, int, int], /
) -> tuple[int, int, int, int, int, int]: ...
def frame_values(values: Any, bounds: Any, /) -> tuple[bytes, bytes] | None: ...
def unframe_values(data: Any, offsets: Any, /) -> tuple[bytes, bytes] | None: ...
def pack_messages(
    messages: list[Any], store_host: bytes, with_crc: bool, body_bytes_max: int, /
) -> tuple[bytearray, bytes, list[tuple[tuple[str, int], bool, int]]]: ...
def stamp_messages(
    data: bytearray,
    places: bytes,
    first: int,
    count: int,
    queue_offset: int,
    offset: int,
    store_ms: int,
    with_crc: bool,
    /,
) -> None: ...
def walk_messages(
    data: Any, offset: int, check: bool, /
) -> tuple[int, int, list[tuple[bytes, int, int, bytes]], bytearray, int]: ...
def pack_transaction(
    tx_id: int, synced: int, salt: bytes, offset: int, actions: list[tuple[int, int, int, int, bytes | bytearray]], /
) -> bytes: ...
def crc32c(data: bytes | bytearray | memoryview, crc: int = ..., /) -> int: ...
def message_columns(
    data: Any, units: Any, indexes: Any, topic: str, queue_id: int, tag: str | None, wanted: int, /
) -> tuple[int, tuple[Any, ...]] | int: ...
def pack_journal(
    file_id: int,
    salt: bytes,
    at: int,
    kind: int,
    tx_id: int,
    record_id: int,
    user_type: int,
    body: Any,
    counts: bytes,
    /,
) -> bytes: ...
def join_fragments(data: bytearray, at: int, salt: bytes, /) -> bytes | None: ...
def scan_journal_columns(
    data: Any, start: int, file_id: int, salt: bytes, old: bool, count_max: int, record_type: type[Any] | None, /
) -> tuple[
    int,
    tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes],
    list[bytes],
    int,
    list[tuple[int, int]],
    list[int],
    list[Any],
]: ...
def gather_bodies(data: Any, offsets: Any, sizes: Any, first: int, bytes_max: int, /) -> tuple[int, bytes, bytes]: ...
def journal_states(
    files: Iterable[tuple[tuple[int, bytes, bytes, bytes, bytes, list[bytes]], int, list[Any] | None]],
    unreadable_ids: tuple[int, ...],
    headerless_ids: tuple[int, ...],
    /,
) -> tuple[
    list[tuple[bytes, int, bool]],
    list[tuple[int, int, int, int, int]],
    bytes,
    list[tuple[int, int]],
    list[tuple[int, int, bool, list[tuple[int, int, Any]]]],
    tuple[int, int, int] | None,
    int,
    list[Any],
    dict[int, int | list[int]],
]: ...
def scan_page(
    data: Any, offset: int, salt: bytes, skip: int, count_max: int, /
) -> tuple[list[bytes], list[int] | None, int, int, int]: ...
def frame_records(records: list[Any], bytes_max: int, /) -> tuple[bytes, bytes] | None: ...

class GroupState:
    epoch: int
    clock_ns: int
    next: int
    known_end: int
    letters: int
    membership: int
    in_hand: int
    living: int
    item_count: int
    is_paused: bool
    is_deleted: bool
    is_created: bool
    def __init__(self, seed: int, /) -> None: ...
    def apply(
        self, record: _Data, /
    ) -> (
        tuple[
            int,
            int,
            int,
            int,
            bool,
            list[tuple[int, int, bool, int]],
            list[tuple[int, int]],
            list[tuple[int, int]],
            bytes | None,
        ]
        | None
    ): ...
    def apply_many(
        self, data: _Data, offsets: memoryview, index: int, seat: int, generation: int, anonymous: bool, /
    ) -> tuple[int, list[tuple[int, tuple[Any, ...]]], bool]: ...
    def next_checkpoint(self, data: _Data, offsets: memoryview, index: int, /) -> int: ...
    def pack_step(
        self, seat: int, generation: int, number: int, time_ns: int, epoch: int, want: int, done: int, delivery: int,
        start: int, /
    ) -> bytes: ...  # fmt: skip
    def pack(self) -> bytes: ...
    def load(self, data: _Data, /) -> None: ...
    def floor(self) -> int: ...
    def available(self) -> int: ...
    def next_due_ns(self) -> int | None: ...
    def clock(self) -> tuple[bytes, int] | None: ...
    def clock_offset(self, boot: bytes, /) -> int | None: ...
    def started_by(self, seat: int, sequence: int, delivery: int, /) -> int: ...
    def item(self, sequence: int, /) -> tuple[int, int, int, int, int, int, int, int, int, bool, int, str] | None: ...
    def items(self) -> list[tuple[int, int, int, int, int, int, int, int, int, bool, int, str]]: ...
    def members(self) -> list[tuple[int, int, int, str, list[int]]]: ...
    def last_generation(self, seat: int, /) -> int: ...
    def counters(self) -> tuple[int, ...]: ...
    def settings(self) -> tuple[int, ...]: ...
    def witness(self) -> tuple[tuple[int, int], int] | None: ...
