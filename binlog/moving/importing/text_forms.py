"""Records of text files: JSON lines, and rows of CSV as JSON objects."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

from binlog.moving.importing.input_reader import InputError, InputReader

_BYTE_ORDER_MARK = "\ufeff".encode()


def json_lines(source: InputReader, *, lenient: bool) -> Iterator[bytes]:
    """Yield each line as it is, without its newline; blank lines and a byte order mark are left out.

    lenient: a line that is not JSON is a record too.  Raises: InputError.
    """
    while line := source.line():
        record = line.rstrip(b"\r\n")
        if source.line_number == 1:
            record = record.removeprefix(_BYTE_ORDER_MARK)
        if not record.strip():
            source.accept()
            continue
        if not lenient:
            _check_json(record, source.line_number)
        source.accept()
        yield record


def _check_json(record: bytes, line_number: int) -> None:
    try:
        # Only whether it is JSON matters, and a float is made of any number of digits.
        json.loads(record.decode(), parse_int=float, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise InputError(line_number, "not JSON: it is not UTF-8") from error
    except RecursionError as error:
        raise InputError(line_number, "not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise InputError(line_number, f"not JSON: {error}") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


class CsvRows:
    """Makes a JSON object of each row of CSV; the first row has the names.

    The text is UTF-8, perhaps with a byte order mark; values are separated by commas, and quoted with double quotes.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def read_names(self, source: InputReader) -> None:
        """Read the first row.  source: at the beginning of the input.  Raises: InputError."""
        for row in self._rows(source):
            names = [name.removeprefix("\ufeff") for name in row]
            if len(set(names)) < len(names):
                raise InputError(source.line_number, "two columns have the same name")
            self.names = names
            source.accept()
            return

    def records(self, source: InputReader, *, lenient: bool) -> Iterator[bytes]:
        """Yield an object for each row; blank lines are left out.

        lenient: a row may have fewer or more values than there are names; the others get the names "7", "8" and so on.
        Raises: InputError.
        """
        names = self.names
        encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        for row in self._rows(source):
            if len(row) != len(names):
                if not lenient:
                    text = f"the row has {len(row)} values, and the first row has {len(names)} names"
                    raise InputError(source.line_number, text)
                more = [str(number) for number in range(len(names) + 1, len(row) + 1)]
                names_of_row = [*names, *more]
            else:
                names_of_row = names
            record = encode(dict(zip(names_of_row, row, strict=False))).encode()
            source.accept(record)
            yield record

    def _rows(self, source: InputReader) -> Iterator[list[str]]:
        """Yield the rows up to one that is not complete, because the file is still written."""
        lines = _Lines(source)
        # strict: a quote that is not closed is an error, and not a value of many lines.
        rows = csv.reader(lines, strict=True)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                if lines.ended and not source.whole:
                    return
                raise InputError(source.line_number, f"not CSV: {error}") from error
            if row is None:
                return
            if row:
                yield row
            source.accept()


class _Lines:
    """The lines of an input as text, for `csv.reader`, which takes just the lines of one row for each row."""

    def __init__(self, source: InputReader) -> None:
        self._source = source
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._source.line()
        if not line:
            self.ended = True
            raise StopIteration
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise InputError(self._source.line_number, "not CSV: it is not UTF-8") from error


csv.field_size_limit(64 << 20)
