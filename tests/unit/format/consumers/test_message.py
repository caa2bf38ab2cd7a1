"""The envelope of a message: every message survives packing, and no other bytes pass for an envelope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.consumers.message import MAGIC, Acks, MadeBy, Message

_numbers = st.integers(0, (1 << 64) - 1)
_messages = st.builds(
    Message,
    body=st.binary(max_size=50),
    key=st.none() | st.binary(max_size=20),
    headers=st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=4),
    produced_ns=_numbers,
    due_ns=_numbers,
    expiry_ns=_numbers,
    made_by=st.none() | st.builds(MadeBy, st.binary(min_size=16, max_size=16), _numbers),
    acks=st.none()
    | st.builds(
        Acks,
        st.binary(min_size=16, max_size=16),
        st.integers(0, (1 << 32) - 1),
        st.lists(_numbers, max_size=4).map(tuple),
    ),
)


@given(_messages)
@pytest.mark.slow
def test_a_message_survives(message: Message) -> None:
    assert Message.parse(message.pack()) == message


@given(_messages, st.data())
@pytest.mark.slow
def test_a_flipped_bit_of_the_envelope_makes_it_a_plain_record(message: Message, data: st.DataObject) -> None:
    record = bytearray(message.pack())
    bit = data.draw(st.integers(0, 8 * (len(record) - len(message.body)) - 1))
    record[bit // 8] ^= 1 << bit % 8
    assert Message.parse(bytes(record)) == Message(body=bytes(record))


@given(st.binary(max_size=60).map(lambda rest: MAGIC + rest) | st.binary(max_size=60))
def test_a_plain_record_is_a_body(record: bytes) -> None:
    assert Message.parse(record) == Message(body=record)


def test_a_bare_message_has_24_bytes_more_than_its_body() -> None:
    assert len(Message(body=b"x").pack()) == 25


def test_what_does_not_fit_is_refused() -> None:
    for message in (
        Message(body=b"", key=bytes(70_000)),
        Message(body=b"", headers={"a": bytes(40_000), "b": bytes(40_000)}),
    ):
        with pytest.raises(ValueError, match="limit"):
            message.pack()
