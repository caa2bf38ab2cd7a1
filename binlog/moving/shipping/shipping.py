"""ship: copies the closed files of a log to a directory or an object store, and may then remove them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import binlog
from binlog import Pruned, Ref
from binlog.errors import BusyError, CorruptError, GoneError, NotFoundError, StateError
from binlog.format.log_header import HEADER_BYTES, LogHeader
from binlog.format.names import archive_file_number, index_file_name, index_file_number, log_file_name, log_file_number
from binlog.log.directory import LogDirectory, OpenedFile
from binlog.log.files.closed_files import closed_files, is_written, list_files
from binlog.log.index.index import opened_index
from binlog.log.index.index_check import DamagedRange, IndexCheck
from binlog.moving.shipping.receipts import Receipt, arrived_numbers, read_receipt, receipt_of, write_receipt
from binlog.moving.shipping.target import PIECE_BYTES, Checksum, checksum_of, read_pieces, target_of
from binlog.storage.files import read_at
from binlog.storage.locking.locks import is_locked

_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.2
_LOCK_POLL_SECONDS = 0.001


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """The result of a run.

    files: the receipts of the log files that were copied.  pruned: the files that were removed.
    last_number: of the newest log file that has arrived without a gap before it; None if there is none.
    kept_number: of the first file that was not removed because its copy, or the file, has changed since it arrived; the
        files after it are kept too.  None if there is none.
    """

    files: tuple[Receipt, ...]
    pruned: tuple[Pruned, ...]
    last_number: int | None
    kept_number: int | None = None


def ship(path: str | os.PathLike[str], url: str | os.PathLike[str], *, prune_shipped: bool = False) -> Shipped:
    """Copy the closed files of the log in a directory, with their indexes, to a target that has not all of them yet.

    url: the path of a directory, or a URL that PyArrow or fsspec supports, such as s3://bucket/log.
    prune_shipped: then remove files that have arrived, as `prune` does: oldest first, none that a consumer group needs.
        Before that, each is compared with its copy, byte for byte.

    An archive is copied as it is.  A file is copied only if its records match its index; the copy is read back and
    compared, and only then gets its name and its receipt, `00000001.shipped`.  So a run that is killed leaves no
    incomplete file under a file's name, and the next one continues.  The target is then a log without an open file.
    It can be read, also by followers, and checked in place; to append to it, `repair` it first.
    Takes no lock, so writers are not delayed; needs permission to write to the log only for `prune_shipped`.
    Raises: NotFoundError if there is no log; CorruptError for a damaged file or a copy that differs, with the files
    before it shipped; StateError if the target holds another log; BusyError if a file is locked for ten seconds;
    AccessError, FullError; ValueError and ImportError for a URL that is not supported.
    """
    return _Shipping(path, url, prune_shipped=prune_shipped).run()


def follow(
    path: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    prune_shipped: bool = False,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Iterator[Shipped]:
    """Ship all closed files, and then each file after its cutover; yield the result of each run.

    is_wanted: called some times a second; ends the iteration if it returns False.
    Blocks and raises: as `ship`, and waits for cutovers.
    """
    shipping = _Shipping(path, url, prune_shipped=prune_shipped)
    while is_wanted():
        newest = shipping.newest_number()
        yield shipping.run()
        while is_wanted() and shipping.newest_number() == newest:
            time.sleep(_POLL_SECONDS)


class _Shipping:
    """The runs of a process.  It remembers the files that have arrived, so the target is listed only once."""

    def __init__(self, path: str | os.PathLike[str], url: str | os.PathLike[str], *, prune_shipped: bool) -> None:
        self._path = os.fspath(path)
        self._target = target_of(url)
        self._prune_shipped = prune_shipped
        self._arrived: set[int] | None = None
        self._copied: set[int] = set()

    def newest_number(self) -> int:
        """Return the number of the newest file."""
        with LogDirectory(self._path) as directory:
            return directory.log_numbers()[-1]

    def run(self) -> Shipped:
        """Copy the files that are missing; then prune."""
        receipts = []
        with LogDirectory(self._path) as directory:
            directory.log_numbers()
            if self._arrived is None:
                sizes = self._target.sizes()
                self._arrived = arrived_numbers(sizes)
                self._check_target(directory, sizes)
            last = None
            for header in _shippable(directory):
                if header.number not in self._arrived:
                    try:
                        receipts.append(self._copy(directory, header))
                    except NotFoundError:
                        if directory.exists(header.number):
                            raise
                        continue  # pruned meanwhile
                last = header.number
        pruned, kept = self._prune() if self._prune_shipped else ([], None)
        return Shipped(files=tuple(receipts), pruned=tuple(pruned), last_number=last, kept_number=kept)

    def _check_target(self, directory: LogDirectory, sizes: dict[str, int]) -> None:
        """Raise StateError if the newest files of the target are not those of this log."""
        arrived = self._arrived or set()
        numbers = {number for name in sizes if (number := log_file_number(name) or archive_file_number(name))}
        unfinished = numbers - arrived
        if len(unfinished) > 1:  # a run that was killed leaves one
            text = f"has log files that were not shipped, among them {log_file_name(max(unfinished))}"
            raise StateError(f"{self._target.url} {text}; ship to a directory of its own")
        for number in unfinished:
            if not self._is_copy(directory, number, sizes):
                text = f"has another file {log_file_name(number)}, without a receipt; remove it, or ship elsewhere"
                raise StateError(f"{self._target.url} {text}")
        own = directory.read_header(directory.log_numbers()[-1])
        present = arrived & set(directory.numbers())
        for number in {max(some) for some in (arrived, present) if some}:
            with suppress(NotFoundError):
                receipt = read_receipt(self._target, number)
                if number in present:
                    is_own = receipt.is_of(directory.read_header(number))
                else:
                    is_own = not own.is_native or receipt.uuid in (None, own.uuid.hex())
                if not is_own:
                    raise StateError(f"{self._target.url} has a file {number} of another log, or of a copy of this one")

    def _is_copy(self, directory: LogDirectory, number: int, sizes: dict[str, int]) -> bool:
        """Return whether the target's file is a complete copy of that of the log, which has no receipt yet."""
        names = {name for name in sizes if number in (log_file_number(name), archive_file_number(name))}
        with suppress(NotFoundError), directory.log_file(number) as file:
            header = directory.read_header(number)
            copies = {name: self._target.checksum(name) for name in names}
            return _has_checksum(file, header, receipt_of(header, copies))
        return False

    def _copy(self, directory: LogDirectory, header: LogHeader) -> Receipt:
        """Copy a file, with its index, and write its receipt."""
        number = header.number
        with directory.log_file(number) as file:
            header = _closed_header(directory, file, number)
            _check_records(directory, file, header)
            copies: dict[str, Checksum] = {}
            index_name = index_file_name(number)
            # It may have no index, or be pruned meanwhile.
            with suppress(NotFoundError), directory.opened(index_name) as fd:
                copies[index_name] = self._place(index_name, fd, directory.file_path(index_name))
            name = os.path.basename(file.path)
            head = read_at(file.fd, HEADER_BYTES, 0, file.path)
            copies[name] = self._place(name, file.fd, file.path)
            if read_at(file.fd, HEADER_BYTES, 0, file.path) != head:
                raise BusyError(f"{file.path} changed while it was copied; ship it again")
        receipt = receipt_of(header, copies)
        write_receipt(self._target, receipt)
        assert self._arrived is not None
        self._arrived.add(number)
        self._copied.add(number)
        return receipt

    def _place(self, name: str, fd: int, path: str) -> Checksum:
        """Copy a file, unless the target has it from a run that was killed before it wrote the receipt."""
        with suppress(NotFoundError):
            found = self._target.checksum(name)
            if found == checksum_of(read_pieces(fd, path)):
                return found
            # An index may have been completed since.
            if index_file_number(name) is None:
                raise StateError(
                    f"{self._target.url} has another file {name}, without a receipt; remove it, or ship elsewhere"
                )
        return self._target.place(name, lambda: read_pieces(fd, path))

    def _prune(self) -> tuple[Sequence[Pruned], int | None]:
        """Remove the oldest files, up to one that has not arrived; return its number too if it or its copy changed."""
        sizes = self._target.sizes()
        arrived = arrived_numbers(sizes)
        keep_from = changed = None
        with LogDirectory(self._path) as directory:
            for header in _shippable(directory):
                if header.number not in arrived:
                    break
                if not self._has_arrived(directory, header, sizes):
                    changed = header.number if directory.exists(header.number) else None
                    break
                keep_from = header.number + 1
        return ([] if keep_from is None else binlog.prune(self._path, before=Ref(keep_from, 0))), changed

    def _has_arrived(self, directory: LogDirectory, header: LogHeader, sizes: dict[str, int]) -> bool:
        """Return whether the target has a file with the bytes that the log has now, as its receipt says."""
        try:
            receipt = read_receipt(self._target, header.number)
            if any(sizes.get(name) != content.bytes for name, content in receipt.copies.items()):
                return False
            # Copied by this process, and read back then.
            if header.number in self._copied:
                return receipt.is_of(header)
            with directory.log_file(header.number) as file:
                is_same = receipt.is_of(header) and _has_checksum(file, header, receipt)
            return is_same and all(self._target.checksum(name) == each for name, each in receipt.copies.items())
        except NotFoundError:
            return False


def _has_checksum(file: OpenedFile, header: LogHeader, receipt: Receipt) -> bool:
    """Return whether a log file has the bytes of its receipt; it may have been archived since."""
    name = os.path.basename(file.path)
    expected = receipt.copies.get(name)
    if expected is not None:
        return checksum_of(read_pieces(file.fd, file.path)) == expected
    raw = receipt.copies.get(name.removesuffix(".zst"))
    if raw is None:
        return False
    starts = range(0, header.tail, PIECE_BYTES)
    return raw == checksum_of(read_at(file.content, min(PIECE_BYTES, header.tail - at), at, file.path) for at in starts)


def _shippable(directory: LogDirectory) -> Iterator[LogHeader]:
    """Yield the headers of the closed files that no program changes any more, oldest first."""
    files = list(list_files(directory))
    has_foreign_writers = any(file.header.has_foreign_writers for file in files)
    for closed in closed_files(files, has_foreign_writers=has_foreign_writers, now_ns=time.time_ns()):
        header = closed.file.header
        if has_foreign_writers and not closed.file.archived and is_written(directory, header.number):
            return
        yield header


def _closed_header(directory: LogDirectory, file: OpenedFile, number: int) -> LogHeader:
    """Return the header of a closed file, after the writer that closes it has finished.

    Raises: BusyError, GoneError.
    """
    if file.archive is None:
        deadline = time.monotonic() + _LOCK_SECONDS
        while is_locked(file.fd):
            if time.monotonic() >= deadline:
                raise BusyError(f"{file.path} is locked by another program")
            time.sleep(_LOCK_POLL_SECONDS)
    header = directory.read_header(number)
    if not header.closed:
        raise GoneError(f"{file.path} has changed since it was listed")
    return header


def _check_records(directory: LogDirectory, file: OpenedFile, header: LogHeader) -> None:
    """Raise CorruptError if a record is not the one that was written, as far as is known."""
    lost = iter(()) if file.archive is None else file.archive.lost_frames()
    for each in lost:
        raise each
    with opened_index(directory, header.number) as index:
        if index is None:
            return
        for found in IndexCheck(index, file.content, header, file.path).run():
            if isinstance(found, DamagedRange):
                text = f"the bytes up to {found.end} are not those that were written; `binlog repair` replaces them"
                raise CorruptError(file.path, found.start, "index-crc", text)
