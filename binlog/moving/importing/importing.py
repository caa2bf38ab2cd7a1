"""import_records: appends the records of a file or a pipe to a log, those of a file once."""

from __future__ import annotations

import enum
import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from binlog import Batch, Ref, Writer
from binlog.errors import AccessError, NotFoundError, StateError
from binlog.format.names import producer_lock_name
from binlog.format.values import member
from binlog.log.directory import LogDirectory
from binlog.moving.importing.input_reader import InputError, InputReader
from binlog.moving.importing.journal_entries import JournalEntry, journal_entries
from binlog.moving.importing.known_files import KnownFiles, described_file
from binlog.moving.importing.text_forms import CsvRows, json_lines
from binlog.storage.failures import own_errors
from binlog.storage.locking.directory_lock import hold_lock_file

# Each batch takes some six syncs.
_BATCH_BYTES = 4 << 20
_BATCH_RECORDS = 1 << 16

_LOCK_NAME = ".import.lock"
_JOURNAL_SUFFIXES = (".journal", ".journal~")


class ImportForm(enum.Enum):
    """The forms that can be imported."""

    JSONL = "jsonl"
    CSV = "csv"
    JOURNALD = "journald"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import.

    record_count: of the records that it appended.  first: the ref of the first one.
    skipped_count: entries of the journal that the log had already.
    skipped_bytes: of a file: the part that was imported earlier.
    left_bytes: of a file: a last line or row that is not complete.
    """

    record_count: int = 0
    first: Ref | None = None
    skipped_count: int = 0
    skipped_bytes: int = 0
    left_bytes: int = 0


def import_records(
    path: str | os.PathLike[str],
    file: str | os.PathLike[str] | int,
    form: ImportForm | str,
    *,
    name: str = "journald",
    lenient: bool = False,
    whole: bool = False,
    on_append: Callable[[Imported], None] | None = None,
) -> Imported:
    """Append the records of a file or a pipe to the log in a directory, which is created if it does not exist.

    file: a path, or a descriptor to read from, as of a pipe.
    form: JSONL: each line is a record, without its newline, and must be JSON.  CSV: each row becomes a JSON object,
        with names from the first row.  JOURNALD: the output of `journalctl -o export` or `-o json`, or a `.journal`
        file, which `journalctl` reads; each entry becomes a JSON object.
    name: for JOURNALD: the stream whose place is kept; streams that `journalctl` filters in other ways need others.
    lenient: JSONL: a line that is not JSON is a record too.  CSV: a row may have fewer or more values than names.
    whole: a last line without newline is complete.  Otherwise it is left for the next import, because the file may be
        written still; that of a pipe is always complete.
    on_append: called after each batch with the result so far.

    A file that grew is imported from its place on, also after it was renamed; known_files.py says when it is the
    same file.  Each record of it, and each entry of the journal, is appended once, even if this process is killed and
    another one imports the file again.  A pipe of JSONL or CSV has no place: all of it is appended each time.
    Records are durable, and readers see them, in batches of some 4 MiB, and whenever a pipe pauses.
    Raises: ValueError for input that is not of its form, after everything before it was appended; BusyError if another
    process imports; StateError if the file is truncated meanwhile; otherwise as a Writer.
    """
    form = member(ImportForm, form, "form")
    with ExitStack() as opened:
        source = opened.enter_context(_opened_input(file, form))
        writer = opened.enter_context(Writer(path, record_bytes_max=64 << 20))
        directory = opened.enter_context(LogDirectory(path))
        access = directory.access()
        if form is ImportForm.JOURNALD:
            producer = f"import:journald:{name}"
            opened.enter_context(
                hold_lock_file(directory, producer_lock_name(producer), f"imports the stream {name!r}", access)
            )
            return _JournalImport(writer, on_append, producer).run(source)
        work = _TextImport(writer, on_append, form, lenient=lenient)
        if not source.is_file:
            return work.run_pipe(source)
        opened.enter_context(hold_lock_file(directory, _LOCK_NAME, "imports a file", access))
        return work.run_file(source, KnownFiles(directory, access), whole=whole)


@dataclass(frozen=True)
class _Input:
    """An open input.  is_file: a regular file, which keeps its bytes."""

    fd: int
    path: str
    is_file: bool


@contextmanager
def _opened_input(file: str | os.PathLike[str] | int, form: ImportForm) -> Iterator[_Input]:
    if isinstance(file, int):
        yield _Input(file, "standard input" if file == 0 else f"descriptor {file}", is_file=False)
        return
    path = os.fspath(file)
    with own_errors(path, "opening the file"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if form is ImportForm.JOURNALD and path.endswith(_JOURNAL_SUFFIXES):
            with _journalctl(path) as output:
                yield _Input(output, path, is_file=False)
        else:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                raise AccessError(f"{path} is a directory", errno=errno.EISDIR, path=path)
            yield _Input(fd, path, is_file=stat.S_ISREG(mode))
    finally:
        os.close(fd)


@contextmanager
def _journalctl(path: str) -> Iterator[int]:
    """Yield the output of journalctl for a file.  Raises: NotFoundError without the command, AccessError."""
    command = shutil.which("journalctl")
    if command is None:
        raise NotFoundError(f"{path}: reading it needs the command journalctl, of systemd")
    arguments = [command, f"--file={os.path.abspath(path)}", "--output=export", "--no-pager"]
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.fileno()
    if process.returncode:
        raise AccessError(f"{path}: journalctl ended with exit code {process.returncode}")


class _Import:
    """An import: the records that were read and not appended yet, and those that were appended."""

    def __init__(self, writer: Writer, on_append: Callable[[Imported], None] | None) -> None:
        self.done = Imported()
        self._writer = writer
        self._on_append = on_append
        self._records: list[bytes] = []
        self._bytes = 0

    def _add(self, record: bytes) -> bool:
        """Add a record; return whether there are enough for a batch."""
        self._records.append(record)
        self._bytes += len(record)
        return self._bytes >= _BATCH_BYTES or len(self._records) >= _BATCH_RECORDS

    def _taken(self) -> list[bytes]:
        """Take the records that were added."""
        records, self._records, self._bytes = self._records, [], 0
        return records

    def _note(self, count: int, first: Ref) -> None:
        done = self.done
        self.done = replace(done, record_count=done.record_count + count, first=done.first or first)
        if self._on_append is not None:
            self._on_append(self.done)

    def _append_once(self, producer: str, sequence: int) -> None:
        """Append the records as a producer's batch."""
        records = self._taken()
        found = self._writer.append_idempotent([Batch.from_records(records)], producer=producer, sequence=sequence)
        if found is None:
            raise StateError(f"another process appended as the producer {producer!r}")
        self._note(len(records), found.ref)


class _TextImport(_Import):
    """An import of JSON lines or CSV.  lenient: as of `import_records`."""

    def __init__(
        self, writer: Writer, on_append: Callable[[Imported], None] | None, form: ImportForm, *, lenient: bool
    ) -> None:
        super().__init__(writer, on_append)
        self._rows = CsvRows() if form is ImportForm.CSV else None
        self._lenient = lenient

    def run_pipe(self, source: _Input) -> Imported:
        """Append everything up to the end of a pipe, and the records so far whenever it pauses."""
        self._append_all(InputReader(source.fd, whole=True, before_wait=self._append_plain), self._append_plain)
        return self.done

    def _append_plain(self) -> None:
        if records := self._taken():
            self._note(len(records), self._writer.append_many(records)[0])

    def run_file(self, source: _Input, known: KnownFiles, *, whole: bool) -> Imported:
        """Append the records of a file that the log does not have yet."""
        file, prefix = known.find(source.fd, described_file(source.path, source.fd), self._writer)
        if self._rows is not None and prefix.offset:
            self._rows.read_names(InputReader(source.fd, whole=whole))
        reader = InputReader(source.fd, prefix, whole=whole)

        def append() -> None:
            nonlocal file
            if not self._records:
                return
            if os.fstat(source.fd).st_size < reader.end:
                raise StateError(f"{source.path} was truncated while it was imported; import it again")
            last, mark = file.marks[-1], reader.mark()
            known.store(replace(file, marks=(last, mark)))
            self._append_once(file.producer, mark.offset)
            file = replace(file, marks=(mark,))

        self._append_all(reader, append)
        return replace(self.done, skipped_bytes=prefix.offset, left_bytes=reader.left_bytes)

    def _append_all(self, reader: InputReader, append: Callable[[], None]) -> None:
        if self._rows is not None and not self._rows.names:
            self._rows.read_names(reader)
        records = json_lines if self._rows is None else self._rows.records
        try:
            for record in records(reader, lenient=self._lenient):
                if self._add(record):
                    append()
        except InputError:
            append()
            raise
        append()


class _JournalImport(_Import):
    """An import of the journal.  producer: the beginning of the names of its producers, one for each counter."""

    def __init__(self, writer: Writer, on_append: Callable[[Imported], None] | None, producer: str) -> None:
        super().__init__(writer, on_append)
        self._producer = producer
        self._counter = ""  # of the records that were added
        self._numbers: dict[str, int] = {}  # of the last entry, by counter
        self._appended: dict[str, int] = {}
        self._skipped_count = 0

    def run(self, source: _Input) -> Imported:
        """Append the entries that the log does not have yet."""
        before_wait = None if source.is_file else self._append
        reader = InputReader(source.fd, whole=not source.is_file, before_wait=before_wait)
        try:
            for entry in journal_entries(reader):
                if self._is_new(entry, reader):
                    if entry.counter != self._counter:
                        self._append()
                        self._counter = entry.counter
                    self._numbers[entry.counter] = entry.number
                    if self._add(entry.record):
                        self._append()
        except InputError:
            self._append()
            raise
        self._append()
        return replace(self.done, skipped_count=self._skipped_count, left_bytes=reader.left_bytes)

    def _is_new(self, entry: JournalEntry, reader: InputReader) -> bool:
        counter = entry.counter
        if counter not in self._appended:
            last = self._writer.last_producer_batch(self._name(counter))
            self._appended[counter] = -1 if last is None else last.sequence
        if entry.number <= self._appended[counter]:
            self._skipped_count += 1
            return False
        if entry.number <= self._numbers.get(counter, -1):
            text = "the entry is not later than the one before it; leave out the option --reverse of journalctl"
            raise InputError(reader.line_number, text)
        return True

    def _append(self) -> None:
        if self._records:
            self._append_once(self._name(self._counter), self._numbers[self._counter])

    def _name(self, counter: str) -> str:
        return f"{self._producer}:{counter}"
