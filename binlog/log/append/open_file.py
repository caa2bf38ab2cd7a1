"""Finding the open file of a log, making the first one, and moving to the next."""

from __future__ import annotations

import os

from binlog.errors import AccessError, CorruptError, GoneError, NotFoundError
from binlog.format.log_header import LOG_HEADER, Flag, LogHeader
from binlog.format.names import NUMBER_FIRST, log_file_name
from binlog.log.append.writable_file import WritableFile, write_close
from binlog.log.directory import LogDirectory
from binlog.log.files.cutover import Cutover
from binlog.log.files.header import read_header, validated_header
from binlog.log.files.prepared_file import make_file, sweep
from binlog.log.files.sequences import missing_next_error
from binlog.log.options import WriterOptions
from binlog.storage.file_access import access_of_directory
from binlog.storage.files import sync
from binlog.storage.locking.locks import hold, let_go, lock


class OpenFileFinder:
    """Finds the open file of a log for one writer."""

    def __init__(self, directory: LogDirectory, options: WriterOptions, cutover: Cutover) -> None:
        self._directory = directory
        self._options = options
        self._cutover = cutover

    def find(self, *, reopen: bool) -> WritableFile:
        """Return the newest file, after the one before it is known to be closed; make the first file if there is none.

        reopen: as in WritableFile.recover.
        """
        directory = self._directory
        while True:
            directory.check_path()
            numbers = directory.numbers()
            try:
                if not numbers:
                    self._make_first_file()
                    continue
                # Another process may have named the file and not synced the directory yet: if a power loss took the
                # name, it would take the records appended to that file with it.
                directory.sync()
                self._check_newest(numbers[-1])
                if len(numbers) > 1 and directory.is_file(numbers[-2]):
                    # An archive was made from a file that was durably closed.
                    self._finish_cutover(numbers[-2], numbers[-1], reopen=reopen)
                # In this order: the listing may be older than a removal, and a prepared file may be in use by then.
                file = self._open(numbers[-1])
                try:
                    sweep(directory, file.number, directory.names())
                except BaseException:
                    file.close()
                    raise
                return file
            except (NotFoundError, GoneError):
                continue  # retention removed it after the listing

    def after(self, file: WritableFile) -> WritableFile | None:
        """Return the file that a closed one names; None if both were moved away, so that the finder must list again."""
        header = self._directory.believe(read_header(file.fd, file.number, file.path))
        try:
            return self._open(header.next_number)
        except NotFoundError:
            # By now the next file may be an archive, and this one as well.
            if not self._directory.is_file(file.number) or self._directory.exists(header.next_number):
                return None
            raise missing_next_error(file.path, header) from None

    def _check_newest(self, number: int) -> None:
        """Raise CorruptError if the newest file is only an archive: then the file after it is missing."""
        if self._directory.is_file(number) or self._directory.numbers()[-1:] != [number]:
            return  # the usual case, or another process cut over after the listing
        path = self._directory.path_of(number)
        text = f"file {number} is closed and archived, and the one that it leads to is not there"
        raise CorruptError(path, LOG_HEADER.offset("next_number"), "missing-next", text)

    def _open(self, number: int) -> WritableFile:
        options = self._options
        return WritableFile(self._directory, number, prepare_bytes=options.prepare_bytes, strict=options.strict)

    def _make_first_file(self) -> None:
        options = self._options
        # The directory may be new, made here or by a process that died before it was durable.
        self._directory.sync_parent()
        access = access_of_directory(self._directory.fd, options.permissions)
        make_file(self._directory, NUMBER_FIRST, file_bytes=options.file_bytes_first, access=access)

    def _finish_cutover(self, number: int, newest: int, *, reopen: bool) -> None:
        """Finish a cutover from `number` to `newest` in which a process died."""
        if self._is_finished(number, newest):
            return
        file = self._open(number)
        fd = file.fd
        try:
            hold()
            lock(fd, file.path, self._options.lock_timeout)
            header = file.recover(reopen=reopen)
            if not header.closed and newest == number + 1:
                self._cutover.run(file, header)
            elif header.closed and header.next_number == newest:
                write_close(fd, header.next_number, file.path)
                file.cut(header.tail)
            else:
                text = f"file {number} does not lead to the newest file, {newest}"
                raise CorruptError(file.path, LOG_HEADER.offset("next_number"), "missing-next", text)
        finally:
            let_go(fd)
            file.close()

    def _is_finished(self, number: int, newest: int) -> bool:
        """Whether the cutover is complete, which is the usual case, and needs no lock."""
        with self._directory.opened(log_file_name(number)) as fd:
            path = self._directory.log_path(number)
            found = read_header(fd, number, path)
            header = self._directory.believe(validated_header(fd, number, path))
            if header != found._replace(doorbell=header.doorbell):
                return False  # part of it is damaged, or another boot wrote it last
            if not header.closed or header.next_number != newest or header.flags & Flag.POISON:
                return False
            self._sync_close(fd, header, path)
            return os.fstat(fd).st_size <= header.tail

    def _sync_close(self, fd: int, header: LogHeader, path: str) -> None:
        """Make the close durable, because the newest file is reachable only through it.

        Without write permission, sync is all that a process can do.
        """
        try:
            writable = self._directory.open(log_file_name(header.number), writable=True)
        except AccessError:
            sync(fd, path)
            return
        try:
            write_close(writable, header.next_number, path)
        finally:
            self._directory.close_file(writable)
