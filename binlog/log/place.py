"""A place in one file, from which records are read."""

from __future__ import annotations

from dataclasses import dataclass

from binlog.log.file_reader import FileReader


@dataclass(slots=True, eq=False)
class FilePosition:
    """The offset of the next record to read, and its sequence number if that is known.

    end_seen: whether its last record has been read, and no file was found after it.
    """

    file: FileReader
    offset: int
    sequence: int | None
    end_seen: bool = False

    @classmethod
    def first(cls, file: FileReader) -> FilePosition:
        """Where the file's first record lies, or will."""
        header = file.header
        return cls(file, header.first_offset, header.first_sequence if header.ours else None)

    @property
    def has_more(self) -> bool:
        """Whether a record is known to lie here."""
        return self.offset < self.file.known.tail

    def look(self) -> bool:
        """Whether a record lies here, by the header as it is now."""
        known = self.file.known
        return self.offset < known.tail or self.offset < known.look()

    def advance(self, offset: int, sequence: int | None) -> None:
        """Go on to `offset`, behind records that were read here."""
        self.sequence = sequence
        self.offset = offset
