"""Receipts: which files of a log have arrived at a target, and with which bytes.

A receipt is a small file beside the copies, `00000001.shipped`, that is written after all copies of a log file were
verified.  So a log file has arrived if its receipt exists.  It also tells readers that a closed file may be the last
one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from binlog.errors import CorruptError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.log_header import LogHeader
from binlog.format.names import archive_file_number, log_file_number, shipped_file_name, shipped_file_number
from binlog.moving.shipping.target import Checksum, Target


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A log file that has arrived.

    uuid: of the log; None if another program made the file.  tail: the end of its records.
    copies: the checksum of each file that was copied for it, by name: the file or its archive, and its index.
    """

    number: int
    uuid: str | None
    tail: int
    copies: dict[str, Checksum]

    def is_of(self, header: LogHeader) -> bool:
        """Return whether it is of this log file."""
        uuid = header.uuid.hex() if header.is_native else None
        return (self.number, self.uuid, self.tail) == (header.number, uuid, header.tail)

    @property
    def bytes(self) -> int:
        """Of all copies."""
        return sum(content.bytes for content in self.copies.values())


def receipt_of(header: LogHeader, copies: dict[str, Checksum]) -> Receipt:
    """Make the receipt of a log file."""
    uuid = header.uuid.hex() if header.is_native else None
    return Receipt(number=header.number, uuid=uuid, tail=header.tail, copies=copies)


def arrived_numbers(sizes: dict[str, int]) -> set[int]:
    """Return the numbers of the log files that exist there with a receipt.  sizes: the files of the target."""
    receipts = {number for name in sizes if (number := shipped_file_number(name)) is not None}
    return receipts & {number for name in sizes if (number := log_file_number(name) or archive_file_number(name))}


def write_receipt(target: Target, receipt: Receipt) -> None:
    """Write a receipt."""
    copies = {name: {"bytes": content.bytes, "crc32c": content.crc} for name, content in receipt.copies.items()}
    values = {"number": receipt.number, "uuid": receipt.uuid, "tail": receipt.tail, "copies": copies}
    data = pack_text(json.dumps(values, separators=(",", ":")).encode())
    target.place(shipped_file_name(receipt.number), lambda: iter((data,)))


def read_receipt(target: Target, number: int) -> Receipt:
    """Read a receipt.  Raises: NotFoundError, CorruptError, AccessError."""
    name = shipped_file_name(number)
    try:
        values = json.loads(parse_text(target.read(name))[0])
        copies = {
            name: Checksum(int(each["bytes"]), int(each["crc32c"])) for name, each in values.pop("copies").items()
        }
        receipt = Receipt(**values, copies=copies)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        text = f"it is not a receipt ({error}); without it, the file is copied again"
        raise CorruptError(f"{target.url}/{name}", 0, "receipt", text) from error
    if receipt.number != number:
        raise CorruptError(f"{target.url}/{name}", 0, "receipt", f"it is the receipt of file {receipt.number}")
    return receipt
