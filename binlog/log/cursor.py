"""A position in a log that moves forward: through a file, over its end to the next, and back for late records.

Late records: a jPOS writer looks at a file's status before it takes the lock, and so may append to a file just closed.
Where other programs write, a cursor keeps the file it left, and looks there again until the next one is closed too.
Late records come out of order, under their own refs.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass

from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER
from binlog.format.names import NUMBER_FIRST
from binlog.format.ref import Ref
from binlog.log.batch import Batch
from binlog.log.directory import LogDirectory
from binlog.log.file_reader import FileReader
from binlog.storage.doorbell import Doorbell

# How long a waiting reader trusts the bell alone.  Writers that are not ours ring none, and one of ours may die between
# the tail and the bell.
_LOOK_SECONDS = 5.0
# The same where other programs are known to write, or where there is no file yet to wait on.
_LOOK_SECONDS_MIXED = 0.05


# A batch's offsets have 32 bits, and one record may be 2 GiB long.
_RECORDS_MOST = 1 << 30
_BYTES_MOST = 1 << 30


class Start(enum.Enum):
    """Where a reader begins when not at a ref."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(slots=True)
class Place:
    """A place in one file: the offset of the next record to read, and its sequence number where that is known."""

    file: FileReader
    offset: int
    sequence: int | None

    @property
    def has_more(self) -> bool:
        """Whether a record is known to lie here."""
        return self.offset < self.file.header.tail

    def look(self) -> bool:
        """Whether a record lies here, by the header as it is now."""
        return self.has_more or self.offset < self.file.refresh().tail


class Cursor:
    """See the module.  It owns the directory and the files it opens."""

    def __init__(self, directory: LogDirectory, start: Ref | Start, *, follow: bool, record_bytes_max: int) -> None:
        self.directory = directory
        self._start = start
        self._follow = follow
        self._record_bytes_max = record_bytes_max
        self._place: Place | None = None
        self._late: Place | None = None
        self._late_look = 0.0
        self._read_from: Place | None = None
        if not self._open_start() and start is Start.END:
            # The end of a log with no files yet is its beginning: what comes is after it.
            self._start = Start.BEGINNING

    def read(self, records_max: int, bytes_max: int) -> Batch | None:
        """The next records of one file, or None where there are none now.  See Reader.read_batch for what is raised."""
        place = self._ready_place()
        if place is None:
            return None
        records_max, bytes_max = min(records_max, _RECORDS_MOST), min(bytes_max, _BYTES_MOST)
        batch = place.file.read(place.offset, place.sequence, records_max=records_max, bytes_max=bytes_max)
        self._read_from = place
        self._put_back(batch, len(batch))
        return batch

    def put_back(self, batch: Batch, used: int) -> None:
        """Go back in the batch last read, to after its first `used` records."""
        if self._read_from in (self._place, self._late):
            self._put_back(batch, used)

    @property
    def in_order(self) -> bool:
        """Whether the batch last read was not one of late records."""
        return self._read_from is self._place

    def ready(self) -> bool:
        """Whether `read` would return records, or raise."""
        return self._ready_place() is not None

    @property
    def finished(self) -> bool:
        """Whether no record can come any more."""
        place = self._place
        return not self._follow and place is not None and place.file.header.closed and not place.has_more

    @property
    def position(self) -> Ref:
        """Where the next record in order will be read."""
        place = self._place
        if place is None:
            return self._start if isinstance(self._start, Ref) else Ref(NUMBER_FIRST, FIRST_OFFSET)
        if not place.look() and place.file.header.closed:
            number = place.file.header.next_number
            try:
                return Ref(number, self.directory.read_header(number).first_offset)
            except NotFoundError:
                pass  # the rule: it stays at the closed file's tail for as long as there is no next file
        return Ref(place.file.number, place.offset)

    @property
    def look_seconds(self) -> float:
        """How long to wait at most before looking again without having been woken."""
        places = (self._place, self._late)
        quiet = self._place is not None and not any(place and place.file.header.mixed for place in places)
        return _LOOK_SECONDS if quiet else _LOOK_SECONDS_MIXED

    def doorbell_and_seen(self) -> tuple[Doorbell, int] | None:
        """What to wait on, right after `ready` said no; None where there is no file yet."""
        return None if self._place is None else self._place.file.doorbell_and_seen()

    def close(self) -> None:
        """Give everything back."""
        for place in (self._place, self._late):
            if place is not None:
                place.file.close()
        self.directory.close()

    def _put_back(self, batch: Batch, used: int) -> None:
        place = self._read_from
        assert place is not None
        place.offset = batch.offset + batch.offsets[used]
        place.sequence = None if batch.first_sequence is None else batch.first_sequence + used

    def _ready_place(self) -> Place | None:
        while True:
            place = self._place
            if place is None:
                if not self._open_start():
                    return None
                continue
            # A closed file is looked at once more after it was seen closed: its tail may have moved just before.
            if place.look() or (place.file.header.closed and place.look()):
                return place
            late = self._late
            if late is not None and self._look_at_late(late):
                return late
            if not self._follow or not place.file.header.closed:
                return None
            self._move_on(place)

    def _look_at_late(self, late: Place) -> bool:
        now = time.monotonic()
        if not late.has_more and not late.file.header.mixed and now - self._late_look < _LOOK_SECONDS:
            return False
        self._late_look = now
        return late.look()

    def _move_on(self, place: Place) -> None:
        header = place.file.header
        try:
            file = self._open(header.next_number)
        except NotFoundError:
            if not self.directory.exists(place.file.number):
                text = f"file {header.next_number} and those before it were removed while they were being read"
                raise GoneError(f"{place.file.path}: {text}") from None
            text = f"file {header.number} is closed and leads to file {header.next_number}, which is not there"
            raise CorruptError(place.file.path, LOG_HEADER.offset("next_number"), "missing-next", text) from None
        if file.header.ours and header.ours and file.header.uuid != header.uuid:
            file.close()
            text = f"the file belongs to another log than {place.file.path}"
            raise CorruptError(file.path, LOG_HEADER.offset("uuid"), "uuid", text)
        if self._late is not None:
            self._late.file.close()
        self._late, self._place = place, _first_place(file)

    def _open(self, number: int) -> FileReader:
        return FileReader(self.directory, number, record_bytes_max=self._record_bytes_max)

    def _open_start(self) -> bool:
        """Open the first file to read, if there is one yet."""
        while self._place is None:
            numbers = self.directory.numbers()
            if not numbers:
                return False
            try:
                self._place = self._starting_place(numbers)
            except NotFoundError:
                continue  # removed since the listing
        return True

    def _starting_place(self, numbers: list[int]) -> Place:
        if isinstance(self._start, Ref):
            return self._place_of(self._start, numbers)
        if self._start is Start.END:
            file = self._open(numbers[-1])
            return Place(file, file.header.tail, file.sequence_at(file.header.tail) if file.header.settled else None)
        return _first_place(self._open(numbers[0]))

    def _place_of(self, ref: Ref, numbers: list[int]) -> Place:
        if ref.number not in numbers:
            if ref.number < numbers[0]:
                raise GoneError(f"{ref}: the log now starts with file {numbers[0]}")
            raise ValueError(f"{ref}: there is no such file; the newest is {numbers[-1]}")
        file = self._open(ref.number)
        try:
            return Place(file, ref.offset, file.sequence_at(ref.offset))
        except BaseException:
            file.close()
            raise


def _first_place(file: FileReader) -> Place:
    header = file.header
    return Place(file, header.first_offset, header.first_sequence if header.ours else None)
