"""A position in a log that moves forward: through a file, and over its end to the next."""

from __future__ import annotations

import time
from functools import partial

from binlog.errors import AccessError, CorruptError, GoneError, NotFoundError
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER, LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.batch import Found
from binlog.log.directory import LogDirectory
from binlog.log.files.cutover import gap_error, missing_next_error
from binlog.log.files.sequences import missing_between
from binlog.log.read.file_reader import FileReader
from binlog.log.read.position import FilePosition, LateRecords
from binlog.log.read.start import Sequence, Since, Start, StartPosition, place_of_sequence, place_since
from binlog.storage.waiting.bell_watcher import green_sleep
from binlog.storage.waiting.doorbell import Doorbell, Wait

# How long a waiting reader trusts the bell alone.  Writers that are not ours ring none, and one of ours may die before
# it wakes those who wait.
_LOOK_SECONDS = 5.0
# The same where other programs are known to write, or where there is no file yet to wait on.
_LOOK_SECONDS_MIXED = 0.05


# How often a reader at the end of an open file checks that the file and the directory are still there, and whether
# another file follows.  In a log that was copied at two moments one may.
_THERE_SECONDS = 1.0


class Cursor:
    """See the module.  It owns the directory and the files it opens."""

    def __init__(
        self, directory: LogDirectory, start: StartPosition, *, follow: bool, record_bytes_max: int, verify: bool
    ) -> None:
        self.directory = directory
        self._start = start
        self.follow = follow
        self._record_bytes_max = record_bytes_max
        self._verify = verify
        self._place: FilePosition | None = None
        self._late = LateRecords()
        self._read_from: FilePosition | None = None
        self._looked = time.monotonic()
        self._is_intact = False  # whether the last `ready` saw that the place's descriptor is our own
        if not self._open_start() and not isinstance(start, Ref):
            # The end of a log with no files yet is its beginning: what comes is after it, and after now.
            if isinstance(start, Sequence) and start.number:
                raise ValueError(f"sequence {start.number}: the log has no records so far")
            self._start = Start.BEGINNING

    def read(self, records_max: int, bytes_max: int, buffer: bytes | None = None) -> Found | None:
        """The next records of one file, or None where there are none now; `advance` then goes on behind them.

        buffer: bytes that nobody else has: they may be written over, and be the data.
        See Reader.read_batch for what is raised.
        """
        try:
            place = self._place
            if place is None or place.offset >= place.file.known.tail:
                looked = False
                if place is not None and not place.file.known.closed:
                    found = place.file.read_new(place.offset, place.sequence, records_max, bytes_max)
                    if not isinstance(found, bool):
                        self._read_from = place
                        return found
                    looked = not found
                place = self._find_ready(looked=looked)
                if place is None:
                    return None
            self._read_from = place
            return place.file.read(place.offset, place.sequence, records_max, bytes_max, buffer)
        except (CorruptError, AccessError):
            if not self._open_lost():  # what was read is of another file
                raise
        return self.read(records_max, bytes_max)

    def advance(self, offset: int, sequence: int | None) -> None:
        """Go on to `offset`, behind some of the records last read."""
        if self._read_from is not None:
            self._read_from.advance(offset, sequence)

    @property
    def in_order(self) -> bool:
        """Whether what was read last are not late records."""
        return self._read_from is self._place

    def ready(self) -> bool:
        """Whether `read` would return records, or raise."""
        self._is_intact = False
        try:
            return self._find_ready() is not None
        except (CorruptError, AccessError):
            if not self._open_lost():
                raise
        return self._find_ready() is not None

    @property
    def finished(self) -> bool:
        """Whether no record can come any more."""
        place = self._place
        return not self.follow and place is not None and place.file.known.closed and not place.has_more

    @property
    def position(self) -> Ref:
        """Where the next record in order will be read."""
        self._open_lost()
        place = self._place
        if place is None:
            return self._start if isinstance(self._start, Ref) else Ref(NUMBER_FIRST, FIRST_OFFSET)
        if not place.look() and place.file.known.closed:
            number = place.file.known.next_number
            try:
                return Ref(number, self.directory.read_header(number).first_offset)
            except NotFoundError:
                pass  # the rule: it stays at the closed file's tail for as long as there is no next file
        return Ref(place.file.number, place.offset)

    @property
    def look_seconds(self) -> float:
        """How long to wait at most before looking again without having been woken."""
        place = self._place
        quiet = place is not None and not place.file.known.mixed and not self._late.mixed
        return _LOOK_SECONDS if quiet else _LOOK_SECONDS_MIXED

    def waiting(self, timeout: float) -> tuple[Wait, int, int | None]:
        """Return a callable that waits for records, with their file number and first sequence number.

        Call it right after `ready` said no.  It waits for `timeout` seconds at most, and may return early.  If it
        returns no records, pass what it returned to `waited`.
        """
        place = self._place
        if place is None:
            return partial(_sleep, timeout), 0, None  # there is no file yet to wait on
        self._read_from = place
        # A program that closed all descriptors may have given the number to a copy of this log, which has its header.
        if not self._is_intact and not place.file.intact:
            self._open_lost()
            return _nothing, 0, None
        return place.file.waiting(timeout, place.offset), place.file.number, place.sequence

    def waited(self, result: int | None) -> None:
        """Take what a wait returned in place of records."""
        if self._place is not None:
            self._place.file.waited(result)

    def doorbell_and_seen(self) -> tuple[Doorbell, int] | None:
        """What to wait on, right after `ready` said no; None where there is no file yet."""
        return None if self._place is None else self._place.file.doorbell_and_seen()

    def wake(self) -> None:
        """End a `wait` that another thread is in, or is about to begin: so it may take more than one call."""
        place = self._place
        if place is not None:
            place.file.wake()

    def close(self) -> None:
        """Give everything back."""
        if self._place is not None:
            self._place.file.close()
        self._late.close()
        self.directory.close()

    def _find_ready(self, *, looked: bool = False) -> FilePosition | None:
        """Return the place of the next record, if there is one.  looked: the header just read has no more."""
        while True:
            place = self._place
            if place is None:
                if not self._open_start():
                    return None
                continue
            # A closed file is looked at once more after it was seen closed: its tail may have moved just before.
            if not looked and (place.look() or (place.file.known.closed and place.look())):
                return place
            looked = False
            late = self._late.look()
            if late is not None:
                return late
            if not place.file.known.closed:
                if self._has_gone_on(place):
                    continue
                return None
            if not self.follow:
                return None
            self._move_on(place, place.file.known.next_number)

    def _open_lost(self) -> bool:
        """Open again what was closed behind our back, as a daemon closes all descriptors; whether it was.

        Raises: GoneError.
        """
        place, lost = self._place, not self.directory.intact
        if lost:
            self.directory.check_there()
        if place is None or place.file.intact:
            return lost
        self.directory.check_there()
        try:
            file = self._open(place.file.number)
        except NotFoundError:
            raise GoneError(f"{place.file.path}: the file was removed while its descriptor was closed") from None
        self._late.close()
        self._late = LateRecords()
        self._place = FilePosition(file, place.offset, place.sequence)
        self._read_from = None
        return True

    def _has_gone_on(self, place: FilePosition) -> bool:
        """Whether the log continues after a file that its own header calls open.

        Looks once, then each second, and each time if the header names the next file.
        Raises: GoneError; CorruptError if records between it and the next file are missing.
        """
        now = time.monotonic()
        due = now - self._looked >= _THERE_SECONDS
        if place.end_seen and not due and not place.file.known.next_number:
            return False
        place.end_seen = False  # if something is raised below, the next call looks again and raises it again
        if self._is_past(place) or (due and self._has_more_after_all(place)):
            return True
        place.end_seen = self.follow  # without it, a file that follows was not looked at
        if due:
            self._looked = now
        return False

    def _has_more_after_all(self, place: FilePosition) -> bool:
        """Raise GoneError if an open file has lost its name: what is appended from now on goes elsewhere.

        True if there is more to read after all.
        """
        self._is_intact = place.file.intact
        if not self._is_intact:
            return self._open_lost()  # its descriptor leads to another file, of a copy of this log perhaps
        if place.file.check_named():
            return False
        if place.look() or place.file.known.closed:
            return True  # others closed it and went on meanwhile, and it was pruned or archived
        text = "the open file was moved away or removed, or another one has its name"
        raise GoneError(f"{place.file.path}: {text}; what is appended now is not in it")

    def _is_past(self, place: FilePosition) -> bool:
        """Whether there is more to read although the file's status says that it is open: the next one is in use.

        Raises: CorruptError if records between the two are missing.
        """
        known = place.file.known
        if known.next_number:
            return self.directory.exists(known.next_number) and known.reconsider()
        number = place.file.number + 1
        if not self.directory.is_file(number):
            return False
        following = self.directory.read_header(number)
        if following.unused:
            return False
        # Read again: a cutover closes this file before the next one is in use.
        if known.reconsider():
            return True
        self._check_gap(place.file, following)
        header = known.header
        if not (self.follow and header.is_native and following.is_native and header.uuid == following.uuid):
            return False
        # A copy from just before the cutover: it lacks the close, and no record.
        self._move_on(place, number)
        return True

    def _check_gap(self, file: FileReader, following: LogHeader) -> None:
        """Raise CorruptError if records between a file and the next one are missing."""
        if missing := missing_between(self.directory, file.header, file.content, following):
            raise gap_error(file.path, file.number, missing)

    def _move_on(self, place: FilePosition, number: int) -> None:
        header = place.file.header
        try:
            file = self._open(number)
        except NotFoundError:
            self.directory.check_there()
            if not self.directory.exists(place.file.number):
                text = f"file {number} and those before it were removed while they were being read"
                raise GoneError(f"{place.file.path}: {text}") from None
            raise missing_next_error(place.file.path, header) from None
        try:
            if file.header.is_native and header.is_native and file.header.uuid != header.uuid:
                text = f"the file belongs to another log than {place.file.path}"
                raise CorruptError(file.path, LOG_HEADER.offset("uuid"), "uuid", text)
            self._check_gap(place.file, file.header)
        except BaseException:
            file.close()
            raise
        self._place = FilePosition.first(file)
        if place.file.archived:
            place.file.close()  # nobody adds to it, and it keeps a frame in memory
        else:
            place.file.rest()
            self._late.add(place)

    def _open(self, number: int) -> FileReader:
        return FileReader(self.directory, number, record_bytes_max=self._record_bytes_max, verify=self._verify)

    def _open_start(self) -> bool:
        """Open the first file to read, if there is one yet."""
        while self._place is None:
            numbers = self.directory.numbers()
            if not numbers:
                self.directory.check_there()
                return False
            try:
                self._place = self._starting_place(numbers)
            except NotFoundError:
                continue  # removed since the listing
        return True

    def _starting_place(self, numbers: list[int]) -> FilePosition:
        if isinstance(self._start, Ref):
            return self._place_of(self._start, numbers)
        if isinstance(self._start, Sequence):
            return place_of_sequence(self._start, self._in_use(numbers), self._open)
        if isinstance(self._start, Since):
            return place_since(self._start, self._in_use(numbers), self._open)
        if self._start is Start.END:
            file = self._open_newest(numbers)
            return FilePosition(
                file, file.header.tail, file.sequence_at(file.header.tail) if file.header.is_consistent else None
            )
        return FilePosition.first(self._open(numbers[0]))

    def _in_use(self, numbers: list[int]) -> list[int]:
        newest = self._open_newest(numbers)
        newest.close()
        return [number for number in numbers if number <= newest.number]

    def _open_newest(self, numbers: list[int]) -> FileReader:
        """The file that records are appended to."""
        if len(numbers) > 1:
            # While a file is open, the one after it was only named by a cutover under way, or by one that died.
            file = self._open(numbers[-2])
            if not file.header.closed and self.directory.read_header(numbers[-1]).unused:
                return file
            file.close()
        return self._open(numbers[-1])

    def _place_of(self, ref: Ref, numbers: list[int]) -> FilePosition:
        if ref.number not in numbers:
            if ref.number < numbers[0]:
                raise GoneError(f"{ref}: the log now starts with file {numbers[0]}")
            raise ValueError(f"{ref}: there is no such file; the newest is {numbers[-1]}")
        file = self._open(ref.number)
        try:
            return FilePosition(file, ref.offset, file.sequence_at(ref.offset))
        except BaseException:
            file.close()
            raise


def _sleep(seconds: float) -> None:
    (green_sleep() or time.sleep)(seconds)


def _nothing() -> None:
    """In place of a wait: look again."""
