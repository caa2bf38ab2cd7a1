from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import CorruptError, VersionError
from binlog.format.paging.acks_file import (
    ACK_RECORD,
    ACKS_HEADER,
    SECTOR_BYTES,
    Ack,
    pack_ack,
    pack_acks_header,
    parse_acks,
)
from binlog.format.paging.names import (
    ACKS_EXTENSION,
    AddressFile,
    acks_name,
    check_address,
    invalid_name,
    is_folder_name,
    new_folder_name,
    page_name,
    page_number,
    parse_address_file,
)
from binlog.format.paging.page_file import PAGE_HEADER, PageHeader, PageLayout, parse_page_header
from binlog.format.paging.page_record import (
    PageEnd,
    PageMessage,
    ScanStop,
    pack_page_end,
    pack_page_message,
    parse_page_end,
    parse_page_record,
    record_bytes,
    scan,
)
from binlog.format.paging.store_records import (
    PageReference,
    pack_page_transaction,
    parse_page_reference,
    parse_page_transaction,
)

SALT = b"saltsalt"
NATIVE = PageHeader(7, SALT)
JBM = PageHeader(7)
# A page as JBoss Messaging writes it: two messages; the second belongs to transaction 9.
JBM_PAGE = bytes.fromhex("7b 0000000d ffffffffffffffff 68656c6c6f 7d7b 00000009 0000000000000009 21 7d")

_HEADERS = st.sampled_from([NATIVE, JBM])
_MESSAGES = st.lists(st.builds(PageMessage, st.binary(max_size=60), st.integers(-(2**63), 2**63 - 1)), max_size=8)


def _pack_page(header: PageHeader, messages: list[PageMessage]) -> tuple[bytes, list[int]]:
    """Return the bytes of a page, and the offsets of its messages."""
    data, offsets = header.pack(), []
    for message in messages:
        offsets.append(len(data))
        data += pack_page_message(message, header, len(data))
        assert len(data) - offsets[-1] == record_bytes(header, len(message.message))
    return data, offsets


def _parse_in_python(data: bytes, header: PageHeader) -> tuple[list[PageMessage], int, str]:
    """Parse a page with the Python parser; return the messages, their end, and the reason to stop."""
    messages: list[PageMessage] = []
    at = header.size
    while True:
        try:
            found, end = parse_page_record(data, at, header, "a page")
        except CorruptError as error:
            return messages, at, error.rule
        if isinstance(found, PageEnd):
            return messages, at, "end"
        messages.append(found)
        at = end


def _parse_in_c(data: bytes, header: PageHeader) -> tuple[list[PageMessage], int, ScanStop]:
    found = scan(data[header.size :], header.size, header.salt)
    ids = found.tx_ids or [-1] * len(found.messages)
    return list(map(PageMessage, found.messages, ids)), header.size + found.consumed, ScanStop(found.stop)


def test_pages_match_jboss_messaging_bytes() -> None:
    messages = [PageMessage(b"hello"), PageMessage(b"!", 9)]
    assert _pack_page(JBM, messages)[0] == JBM_PAGE
    assert _parse_in_python(JBM_PAGE, JBM) == (messages, len(JBM_PAGE), "torn")
    assert _parse_in_c(JBM_PAGE, JBM) == (messages, len(JBM_PAGE), ScanStop.SHORT)


@given(_HEADERS, _MESSAGES)
def test_messages_round_trip_in_c_and_python(header: PageHeader, messages: list[PageMessage]) -> None:
    data, _ = _pack_page(header, messages)
    assert _parse_in_python(data, header) == (messages, len(data), "torn")
    assert _parse_in_c(data, header) == (messages, len(data), ScanStop.SHORT)
    if header.salt:
        end = PageEnd(len(messages), sum(len(message.message) for message in messages))
        whole = data + pack_page_end(end, header, len(data))
        assert parse_page_end(whole[len(data) :], header, len(data)) == end
        assert _parse_in_python(whole, header) == (messages, len(data), "end")
        assert _parse_in_c(whole, header) == (messages, len(data), ScanStop.END)


@given(_HEADERS, _MESSAGES, st.data())
def test_c_and_python_stop_at_the_same_damage(
    header: PageHeader, messages: list[PageMessage], data: st.DataObject
) -> None:
    page = bytearray(_pack_page(header, messages)[0])
    if len(page) > header.size:
        at = data.draw(st.integers(header.size, len(page) - 1))
        page[at] ^= data.draw(st.integers(1, 255))
    page = page[: data.draw(st.integers(header.size, len(page)))]
    found, end, why = _parse_in_python(bytes(page), header)
    assert _parse_in_c(bytes(page), header)[:2] == (found, end)
    assert (why == "torn") == (_parse_in_c(bytes(page), header)[2] == ScanStop.SHORT)
    if header.salt:
        assert found == messages[: len(found)]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8), st.data())
def test_every_flipped_bit_of_a_page_is_detected(messages: list[bytes], data: st.DataObject) -> None:
    page, offsets = _pack_page(NATIVE, list(map(PageMessage, messages)))
    at = data.draw(st.integers(NATIVE.size, len(page) - 1))
    damaged = bytearray(page)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    whole = sum(1 for offset in offsets[1:] if offset <= at)
    found, _, stop = _parse_in_c(bytes(damaged), NATIVE)
    assert [message for message, _ in found] == messages[:whole]
    assert stop == ScanStop.INVALID


def test_a_message_of_another_page_or_offset_is_invalid() -> None:
    record = pack_page_message(PageMessage(b"message"), NATIVE, NATIVE.size)
    for page in (NATIVE.pack() + b"\0" + record, PageHeader(7, b"another!").pack() + record):
        header = parse_page_header(page, 7, "a page", PageLayout.NATIVE)
        assert header is not None
        assert _parse_in_c(page, header)[0] == []


def test_scan_skips_and_limits_messages() -> None:
    messages = [b"%d" % number for number in range(10)]
    page, offsets = _pack_page(NATIVE, list(map(PageMessage, messages)))
    found = scan(page[NATIVE.size :], NATIVE.size, SALT, skip=3, count_max=4)
    assert (found.messages, found.stop, found.skipped) == (messages[3:7], ScanStop.ENOUGH, 3)
    assert NATIVE.size + found.consumed == offsets[7]
    assert scan(page[NATIVE.size :], NATIVE.size, SALT, skip=20).skipped == 10


@given(st.lists(st.builds(Ack, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(-1, 2**63 - 1))))
def test_acknowledgements_round_trip(acks: list[Ack]) -> None:
    data = pack_acks_header(7, SALT)
    for ack in acks:
        data += pack_ack(ack, SALT, len(data))
    assert parse_acks(data, 7, SALT, "acks") == (acks, len(data), [])
    for page_id, salt in ((8, SALT), (7, b"another!")):
        found = parse_acks(data, page_id, salt, "acks")
        assert (found.acks, found.end, [problem.rule for problem in found.problems]) == ([], 0, ["acks_header"])
    if acks:
        assert parse_acks(data[:-1], 7, SALT, "acks") == (acks[:-1], len(data) - ACK_RECORD.size, [])


def _acks_of(count: int) -> tuple[list[Ack], bytes]:
    acks = [Ack(number, 1) for number in range(count)]
    data = pack_acks_header(7, SALT)
    for ack in acks:
        data += pack_ack(ack, SALT, len(data))
    return acks, data


def test_acknowledgements_after_damaged_ones_count() -> None:
    acks, data = _acks_of(100)
    for number in (0, 20, 99):
        at = ACKS_HEADER.size + number * ACK_RECORD.size
        for offset in range(ACK_RECORD.size):
            damaged = bytearray(data)
            damaged[at + offset] ^= 0x10
            found = parse_acks(bytes(damaged), 7, SALT, "acks")
            assert found.acks == [ack for ack in acks if ack.first != number]
            assert found.end == len(data)
            assert [(problem.offset, problem.end) for problem in found.problems] == [(at, at + ACK_RECORD.size)]
    two = data[: ACKS_HEADER.size] + b"x" * 48 + data[ACKS_HEADER.size + 48 :]
    assert [(problem.offset, problem.end) for problem in parse_acks(two, 7, SALT, "acks").problems] == [(32, 80)]
    zeros = data[: ACKS_HEADER.size] + bytes(48) + data[ACKS_HEADER.size + 48 :]
    assert [problem.offset for problem in parse_acks(zeros, 7, SALT, "acks").problems] == [32]


def test_sectors_lost_in_a_power_cut_are_not_damage() -> None:
    acks, data = _acks_of(100)
    for first in range(SECTOR_BYTES, len(data), SECTOR_BYTES):
        record_at = ACKS_HEADER.size + (first - 2 * ACK_RECORD.size) // ACK_RECORD.size * ACK_RECORD.size
        for taken_from in (first, record_at):  # nothing of the sector, or its earlier contents
            taken = data[:taken_from] + bytes(len(data[taken_from : first + SECTOR_BYTES]))
            taken += data[len(taken) :]
            found = parse_acks(taken, 7, SALT, "acks")
            assert found.problems == []
            assert 50 < len(found.acks) < len(acks)
            assert set(found.acks) < set(acks)


def test_headers_round_trip_or_are_refused() -> None:
    page = NATIVE.pack()
    assert parse_page_header(page, 7, "a page", PageLayout.NATIVE) == NATIVE
    assert parse_page_header(b"anything", 7, "a page", PageLayout.JBM) == JBM
    for begun in (b"", page[:5], page[:39], bytes(40), bytes(4096)):
        assert parse_page_header(begun, 7, "a page", PageLayout.NATIVE) is None
    for offset in range(PAGE_HEADER.size):
        damaged = bytearray(page)
        damaged[offset] ^= 1
        with pytest.raises(CorruptError):
            parse_page_header(bytes(damaged), 7, "a page", PageLayout.NATIVE)
    with pytest.raises(CorruptError):
        parse_page_header(page, 8, "a page", PageLayout.NATIVE)


def test_file_names_match_jboss_messaging() -> None:
    assert (page_name(1), acks_name(12), invalid_name(3)) == (
        "000000001.page",
        "000000012.acks",
        "000000003.invalidPage",
    )
    assert page_number("000000042.page") == 42
    assert page_number("000000042.acks", ACKS_EXTENSION) == 42
    for name in ("42.page", "000000000.page", "000000042.page.1", "000000042.acks", "address.txt", "٠٠٠٠٠٠٠٤٢.page"):
        assert page_number(name) is None
    assert is_folder_name(new_folder_name())
    assert not is_folder_name("journal")
    assert not is_folder_name(new_folder_name() + ".new")


def test_an_address_file_has_the_layout() -> None:
    for file in (AddressFile("jms.queue.orders", PageLayout.NATIVE), AddressFile("Bestellungen für Ä", PageLayout.JBM)):
        assert parse_address_file(file.pack(), "a file") == file
    assert AddressFile("a", PageLayout.NATIVE).pack() == b"a\nbinlog-paging 1 c1d04330\n"
    assert parse_address_file(b"jms.queue.x", "a file") == AddressFile("jms.queue.x", PageLayout.JBM)
    assert parse_address_file(b"\n", "a file") is None
    for damaged in (b"b\nbinlog-paging 1 c1d04330\n", b"a\nbinlog-pagin 1 c1d04330\n", b"\xff\xfe\n"):
        with pytest.raises(CorruptError):
            parse_address_file(damaged, "a file")
    with pytest.raises(VersionError):
        parse_address_file(b"a\nbinlog-paging 2 c1d04330\n", "a file")


@pytest.mark.parametrize("address", ["", "a\nb", "a\0b", "x" * 1025, "\ud800"])
def test_an_address_that_no_file_can_hold_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="an address is"):
        check_address(address)


def test_store_records_round_trip() -> None:
    assert parse_page_transaction(pack_page_transaction(5, 3), 1) == (5, 3)
    assert parse_page_reference(PageReference(9, "orders ä").pack(), 1) == PageReference(9, "orders ä")
    for body in (b"", pack_page_transaction(5, 0), pack_page_transaction(5, -1), pack_page_transaction(5, 1) + b"x"):
        with pytest.raises(CorruptError):
            parse_page_transaction(body, 1)
    for body in (b"", b"1234567", bytes(8) + b"\xff"):
        with pytest.raises(CorruptError):
            parse_page_reference(body, 1)
