"""Progress: how far a log was verified, in a file outside of its directory, so that the next run compares the rest."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from binlog.errors import NotFoundError, SealError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, parse_count, parse_hash
from binlog.format.seal.note import encode_base64
from binlog.format.seal.state import STATE_BYTES_MAX
from binlog.storage.directory import Directory


class Progress(NamedTuple):
    """The records that were as sealed.

    origin: of the log.  size, root: of their tree.  next_ref: after the last one.
    """

    origin: str
    size: int
    root: bytes
    next_ref: Ref

    def head(self) -> Checkpoint:
        """Return the size and the root as a checkpoint, with which the log must still agree."""
        return Checkpoint(self.origin, self.size, self.root)


def read_progress(path: str | os.PathLike[str], origin: str) -> Progress | None:
    """Return how far a log was verified; None if the file does not exist.

    Raises: SealError if the file is malformed, or of another log; AccessError.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        with Directory(folder) as directory:
            values = json.loads(parse_text(directory.read(name, STATE_BYTES_MAX))[0])
        ref, size, root = Ref.parse(values["next_ref"]), parse_count(str(values["size"])), parse_hash(values["root"])
        found = Progress(values["origin"], size, root, ref)
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SealError(f"{os.fspath(path)} is not the progress of a verification: {error}") from error
    if found.origin != origin:
        raise SealError(f"{os.fspath(path)} is of {found.origin}, not of {origin}")
    return found


def write_progress(path: str | os.PathLike[str], progress: Progress) -> None:
    """Replace the file, durably.  Raises: AccessError, FullError, PoisonedError."""
    values = {
        "origin": progress.origin,
        "size": progress.size,
        "root": encode_base64(progress.root),
        "next_ref": str(progress.next_ref),
    }
    folder, name = os.path.split(os.path.abspath(path))
    with Directory(folder) as directory:
        directory.write_new(f".{name}.{os.getpid()}", pack_text(json.dumps(values).encode()))
        directory.rename(f".{name}.{os.getpid()}", name)
