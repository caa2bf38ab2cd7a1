from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c_in_python
from binlog.format.log_header import (
    LOG_HEADER,
    Flag,
    LogHeader,
    new_log_header,
    parse_log_header,
    parse_slot,
)

_NUMBERS = st.integers(0, 2**64 - 1)
_UUID = bytes(range(16))


def _header() -> LogHeader:
    return new_log_header(number=3, uuid=_UUID, first_sequence=9, created_ns=1_000, boot_id=bytes(16))


def test_a_new_header_is_these_bytes() -> None:
    data = _header().pack()
    assert data[:24].hex() == "000000fc0001000000000000000001000000000300000000"
    assert data[24:64].hex() == "42494e4c4f470001" + _UUID.hex() + "0000000000000009" + "00000000000003e8"
    assert data[64:88].hex() == "000000000000010000000000000000000000000000000100"
    assert data[192:256] == bytes(64)


@given(
    tail=_NUMBERS,
    record_count=_NUMBERS,
    first_sequence=_NUMBERS,
    number=st.integers(1, 2**32 - 1),
    uuid=st.binary(min_size=16, max_size=16),
    flags=st.sampled_from([0, Flag.FOREIGN_WRITERS, Flag.POISON | Flag.STRICT]),
    doorbell=st.integers(0, 2**32 - 1),
)
def test_a_header_reads_back_as_it_was_written(
    tail: int, record_count: int, first_sequence: int, number: int, uuid: bytes, flags: int, doorbell: int
) -> None:
    header = new_log_header(
        number=number, uuid=uuid, first_sequence=first_sequence, created_ns=5, boot_id=uuid, flags=flags
    )
    header = header._replace(tail=tail, published_tail=tail, record_count=record_count, doorbell=doorbell)
    again = parse_log_header(header.pack(), path="x", number=number)
    assert again == header
    assert again.is_consistent


def test_what_a_commit_publishes_is_a_part_of_the_header() -> None:
    header = _header()
    assert header.published() == header.pack()[8:128]


def test_a_slot_of_another_file_does_not_pass() -> None:
    slot = _header().slot_0
    assert parse_slot(slot, uuid=_UUID, number=3) is not None
    assert parse_slot(slot, uuid=_UUID, number=4) is None
    assert parse_slot(slot, uuid=bytes(16), number=3) is None


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_visible() -> None:
    for at in range(248):
        for bit in range(8):
            _flip(at, bit)


def _flip(at: int, bit: int) -> None:
    """Each byte is covered by a CRC or has one valid value, except those that any writer may change."""
    good = _header()
    data = bytearray(good.pack())
    data[at] ^= 1 << bit
    name = next(item.name for item in reversed(LOG_HEADER.fields) if LOG_HEADER.offset(item.name) <= at)
    try:
        header = parse_log_header(bytes(data), path="x", number=3)
    except (CorruptError, VersionError):
        assert name not in ("tail", "next_number", "doorbell")
        return
    if name in ("tail", "next_number", "doorbell", "status"):
        assert getattr(header, name) != getattr(good, name)
    elif name.startswith("slot"):
        assert parse_slot(getattr(header, name), uuid=_UUID, number=3) is None
    else:
        assert not header.live_good


def test_another_programs_header_is_recognized_by_its_zeros() -> None:
    data = _header().pack()[:24] + bytes(232)
    header = parse_log_header(data, path="x", number=3)
    assert (header.is_native, header.first_offset, header.has_foreign_writers, header.is_consistent) == (
        False,
        248,
        True,
        False,
    )
    with pytest.raises(ValueError, match="another program"):
        header.pack()


@given(st.binary(max_size=300))
def test_other_bytes_raise_an_error_of_ours(data: bytes) -> None:
    with pytest.raises((CorruptError, VersionError)):
        parse_log_header(data, path="x", number=1)


def test_a_later_version_is_reported() -> None:
    data = bytearray(_header().pack())
    data[4:6] = b"\0\2"
    with pytest.raises(VersionError) as caught:
        parse_log_header(bytes(data), path="x")
    assert (caught.value.found, caught.value.known) == (2, (1,))


def test_crc_of_the_standards_examples() -> None:
    # RFC 3720, appendix B.4
    assert crc32c_in_python(bytes(32)) == 0x8A9136AA
    assert crc32c_in_python(b"\xff" * 32) == 0x62A8AB43
    assert crc32c_in_python(bytes(range(32))) == 0x46DD794E
