"""The layouts of the operations in a group's log, and of its checkpoints."""

from __future__ import annotations

from binlog.format.layout import Field, Layout

MAGIC = 0xB147
VERSION = 1
REASON_BYTES_MAX = 200

GROUP_OPERATION = Layout(
    "group_operation",
    "The head of an operation",
    size=32,
    fields=(
        Field("magic", "u16", "0xB147", const=MAGIC),
        Field("version", "u8", "a reader refuses a version it does not know", const=VERSION),
        Field(
            "flags",
            "u8",
            "1: the first item that the member gets by the operation is also started; 2: a mark (see below)",
        ),
        Field("seat", "u16", "the member's seat; 65535 for none"),
        Field("want", "u16", "how many items the member asks for"),
        Field("generation", "u32", "the seat's generation"),
        Field("number", "u32", "number of the operation; each member counts from 0"),
        Field("group_time_ns", "u64", "group time, which never goes back"),
        Field("epoch", "u32", "the group's epoch, which each reset increments"),
        Field("crc", "u32", "CRC-32C of all other bytes of the record, seeded with the UUID of the group's log"),
    ),
)
GROUP_SECTION = Layout(
    "group_section",
    "The head of a section",
    size=4,
    fields=(
        Field("kind", "u8", "what the section says: see the table of kinds"),
        Field("reserved", "u8", "zero", const=0),
        Field("count", "u16", "number of entries; 0 in `checkpoint`, whose entry extends to the end of the record"),
    ),
)
GROUP_DELIVERY = Layout(
    "group_delivery",
    "An entry of `done`",
    size=12,
    fields=(
        Field("sequence", "u64", "the message's sequence number in the log"),
        Field("delivery", "u32", "number of the delivery, from 1 on; 0 for an item that was never started"),
    ),
)
GROUP_SEQUENCE = Layout(
    "group_sequence",
    "An entry of `start` and of `back`",
    size=8,
    fields=(Field("sequence", "u64", "the message's sequence number in the log"),),
)
GROUP_EXTENSION = Layout(
    "group_extension",
    "An entry of `extend`",
    size=20,
    fields=(
        Field("sequence", "u64", "the message's sequence number in the log"),
        Field("delivery", "u32", "number of the delivery"),
        Field("deadline_ns", "u64", "group time at which the item returns to the group"),
    ),
)
GROUP_FAILURE = Layout(
    "group_failure",
    "An entry of `retry` and of `reject`, followed by the reason",
    size=22,
    fields=(
        Field("sequence", "u64", "the message's sequence number in the log"),
        Field("delivery", "u32", "number of the delivery"),
        Field("due_ns", "u64", "group time before which the item is not delivered again; 0 in `reject`"),
        Field("reason_bytes", "u16", f"size of the reason, which follows in UTF-8; at most {REASON_BYTES_MAX}"),
    ),
)
GROUP_WINDOW = Layout(
    "group_window",
    "The only entry of `window`, followed by its messages if the group asks about them",
    size=32,
    fields=(
        Field("first", "u64", "sequence of the first message"),
        Field("message_count", "u32", "number of durable messages from there on"),
        Field("entry_count", "u32", "number of messages whose facts follow: message_count or 0"),
        Field("end_number", "u32", "number of the file in the ref after the last message"),
        Field("end_offset", "u64", "offset in that ref"),
        Field("last_crc", "u32", "CRC-32C of the last message"),
    ),
)
GROUP_MESSAGE = Layout(
    "group_message",
    "A message of a window",
    size=24,
    fields=(
        Field("key_hash", "u64", "BLAKE2b-64 of its key, or 1 if that is 0; 0 without a key"),
        Field("due_ns", "u64", "group time before which it is not delivered; 0 for none"),
        Field("expiry_ns", "u64", "group time at which it expires; 0 for never"),
    ),
)
GROUP_RANGE = Layout(
    "group_range",
    "An entry of `gone`",
    size=16,
    fields=(
        Field("first", "u64", "sequence of the first message that cannot be read"),
        Field("end", "u64", "sequence after the last one"),
    ),
)
GROUP_SEAT = Layout(
    "group_seat",
    "An entry of `death`",
    size=6,
    fields=(
        Field("seat", "u16", "the dead member's seat"),
        Field("generation", "u32", "its generation"),
    ),
)
GROUP_SETTING = Layout(
    "group_setting",
    "An entry of `settings`",
    size=10,
    fields=(
        Field("setting", "u16", "which one: see the table of settings"),
        Field("value", "u64", "its value"),
    ),
)
GROUP_CLOCK = Layout(
    "group_clock",
    "The only entry of `clock`",
    size=24,
    fields=(
        Field("boot", "bytes:16", "the id of the boot"),
        Field("offset_ns", "i64", "group time minus the time since that boot"),
    ),
)
GROUP_JOIN = Layout(
    "group_join",
    "The entry of `join`, followed by a hint at the process",
    size=10,
    fields=(
        Field("lease_ns", "u64", "how long after its start an item returns to the group; 0 for never"),
        Field("hint_bytes", "u16", "size of the hint, which follows in UTF-8"),
    ),
)
GROUP_RESET = Layout(
    "group_reset",
    "The only entry of `reset`",
    size=9,
    fields=(
        Field("to", "u64", "the sequence from which messages are delivered again"),
        Field("keeps", "u8", "1 if outstanding items before that sequence are kept, otherwise 0"),
    ),
)
GROUP_AGAIN = Layout(
    "group_again",
    "An entry of `again`",
    size=20,
    fields=(
        Field("sequence", "u64", "the message's sequence number in the log"),
        Field(
            "delivery",
            "u32",
            "to deliver a message that is done: its next delivery gets a number above this one; otherwise 0",
        ),
        Field("key_hash", "u64", "of its key; 0 for none"),
    ),
)
_COUNTERS = {
    "done": "messages acknowledged",
    "started": "deliveries started",
    "failed": "deliveries that failed",
    "died": "members that died",
    "expired": "messages that expired",
    "dead": "messages that became dead letters",
    "gone": "messages reported as gone",
    "void": "operations without effect",
}
CHECKPOINT_STATE = Layout(
    "checkpoint_state",
    "The beginning of a state",
    size=157,
    fields=(
        Field("epoch", "u32", "the group's epoch"),
        Field("clock_ns", "u64", "group time of the last operation"),
        Field("has_clock", "u8", "1: the next two fields are valid"),
        Field("boot", "bytes:16", "as in the entry of `clock`"),
        Field("offset_ns", "i64", "as in the entry of `clock`"),
        Field("next", "u64", "the first sequence that was never assigned"),
        Field("known_end", "u64", "the sequence after the last message that a window named"),
        Field("has_witness", "u8", "1: the next three fields are valid"),
        Field("end_number", "u32", "as in the last window"),
        Field("end_offset", "u64", "as in the last window"),
        Field("last_crc", "u32", "as in the last window"),
        Field("flags", "u8", "1 paused, 2 deleted, 4 new items had the last turn, so returned ones are next (rule 7)"),
        Field("letters", "u64", "number of the last item that was to become a dead letter; 0 for none"),
        *(Field(name, "u64", f"number of {things} since the group was created") for name, things in _COUNTERS.items()),
        Field("setting_count", "u16", "number of settings that follow, each as in `settings`"),
        Field("seat_count", "u16", "number of members that follow"),
        Field("generation_count", "u16", "number of seats whose last generations follow, each as in `death`"),
        Field("item_count", "u32", "number of outstanding items that follow"),
        Field("fact_count", "u32", "number of messages not assigned yet, whose facts follow, each as in `window`"),
    ),
)
CHECKPOINT_MEMBER = Layout(
    "checkpoint_member",
    "A member in a checkpoint, followed by the hint",
    size=16,
    fields=(
        Field("seat", "u16", "the member's seat"),
        Field("generation", "u32", "the seat's generation"),
        Field("lease_ns", "u64", "as in the entry of `join`"),
        Field("hint_bytes", "u16", "size of the hint, which follows in UTF-8"),
    ),
)
CHECKPOINT_ITEM = Layout(
    "checkpoint_item",
    "An outstanding item in a checkpoint, followed by the reason",
    size=58,
    fields=(
        Field("sequence", "u64", "the message's sequence number in the log"),
        Field("state", "u8", "0 ready, 1 delayed, 2 blocked by its key, 3 held by a member, 4 started by it"),
        Field("is_suspect", "u8", "1: its member died, perhaps because of it"),
        Field("seat", "u16", "seat of the member that has it; 65535 for none"),
        Field("delivery", "u32", "how often it was started"),
        Field("uncounted", "u32", "how many of these deliveries do not count, because the item was given back"),
        Field("deaths", "u32", "how many members died after they had started it"),
        Field("letter", "u64", "its number among the items that are to become dead letters; 0 for any other item"),
        Field("key_hash", "u64", "BLAKE2b-64 of its key, or 1 if that is 0; 0 without a key"),
        Field("expiry_ns", "u64", "group time at which it expires; 0 for never"),
        Field("due_ns", "u64", "group time at which it becomes due or its lease ends; 0 for none"),
        Field("reason_bytes", "u16", "size of the reason, which follows in UTF-8"),
    ),
)
GROUP_LAYOUTS = (
    GROUP_OPERATION, GROUP_SECTION, GROUP_DELIVERY, GROUP_SEQUENCE, GROUP_EXTENSION, GROUP_FAILURE, GROUP_WINDOW,
    GROUP_MESSAGE, GROUP_RANGE, GROUP_SEAT, GROUP_SETTING, GROUP_CLOCK, GROUP_JOIN, GROUP_RESET, GROUP_AGAIN,
    CHECKPOINT_STATE, CHECKPOINT_MEMBER, CHECKPOINT_ITEM,
)  # fmt: skip
