from __future__ import annotations

import pytest

from binlog.format.commitlog.message_parts import Host, message_id, parse_message_id


@pytest.mark.parametrize(
    ("host", "offset", "text"),
    [
        ("127.0.0.1:10911", 1024, "7F00000100002A9F0000000000000400"),
        ("10.1.2.3:0", 0, "0A010203000000000000000000000000"),
        ("[::1]:10911", 2**62, "0000000000000000000000000000000100002A9F4000000000000000"),
    ],
)
def test_an_id_contains_host_and_offset(host: str, offset: int, text: str) -> None:
    assert message_id(Host.parse(host), offset) == text
    assert parse_message_id(text) == (Host.parse(host), offset)
    assert parse_message_id(text.lower()) == (Host.parse(host), offset)


@pytest.mark.parametrize("text", ["", "7F00000100002A9F00000000000004", "0" * 33, "0" * 56 + "00", "G" * 32, "٠" * 32])
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a message id"):
        parse_message_id(text)
