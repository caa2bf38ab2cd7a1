"""Tokens: the text of a delivery, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.consumers.tokens import Token
from binlog.format.record import COUNT_MAX

UUID = bytes(range(0x10, 0x20))


def test_a_token_is_a_text_that_a_person_can_read() -> None:
    token = Token.of(UUID, 3, 17, 2)
    assert str(token) == f"{token}" == "1011121314151617-3-17-2"
    assert Token.parse(" 1011121314151617-3-17-2\n") == token
    assert token.is_of(UUID)
    assert not token.is_of(UUID[::-1])


@given(st.binary(min_size=16, max_size=16), *[st.integers(0, most) for most in (0xFFFF_FFFF, COUNT_MAX, 0xFFFF_FFFF)])
def test_every_token_is_read_back(uuid: bytes, epoch: int, sequence: int, delivery: int) -> None:
    token = Token.of(uuid, epoch, sequence, delivery)
    assert Token.parse(str(token)) == token


@pytest.mark.parametrize(
    "text",
    ["", "17", "1011121314151617-3-17", "1011121314151617-3-17-2-1", "101112131415161-3-17-2", "1011121314151617-3--2",
     "1011121314151617--3-17-2", "101112131415161G-3-17-2", "1011121314151617-٣-17-2"],
)  # fmt: skip
def test_other_texts_are_refused_with_the_form_of_a_token(text: str) -> None:
    with pytest.raises(ValueError, match="GROUP-EPOCH-SEQUENCE-DELIVERY"):
        Token.parse(text)


def test_numbers_that_no_delivery_has_are_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        Token.parse("1011121314151617-4294967296-17-2")
    with pytest.raises(ValueError, match="too large"):
        Token.parse(f"1011121314151617-0-{COUNT_MAX + 1}-2")
