"""The decisions of an operator about a sealed log: retention, holds, its end, a copy that becomes a log of its own.

Each is a statement, signed by the log's key, and durable before anything is done.  A sealer may run meanwhile; it
covers the statement with its next checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import binlog
from binlog.errors import AccessError, NotFoundError, SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import Note, parse_verifier_key
from binlog.format.seal.state import HISTORY_FILE, SEAL_FOLDER, SealedFile
from binlog.format.seal.statement import Kind, Statement, holds_of, prune_limit, repairs_of
from binlog.format.seal.tree import leaf_hash
from binlog.log.maintain.fillers import has_filler_text
from binlog.retention import prune as prune_log
from binlog.seal.anchors import Anchor
from binlog.seal.folder import SealFolder
from binlog.seal.keys import Signer, verified_keys
from binlog.seal.note_file import NoteFile
from binlog.seal.proving import leaf_index, prove
from binlog.seal.sealing.sealer import Sealer, begin_seal
from binlog.seal.statements import StatementLog
from binlog.storage.directory import Directory
from binlog.storage.file_access import user_name

_OLD_FOLDER = "before"


class PruneResult(NamedTuple):
    """The result of `prune`.

    statement: the one that allows it; None if no further file may be removed.  pruned: the files that were removed.
    """

    statement: Statement | None
    pruned: list[binlog.Pruned]


def prune(
    path: str | os.PathLike[str],
    key: Signer,
    *,
    keep_bytes: int | str | None = None,
    keep_seconds: float | timedelta | str | None = None,
    before: Ref | str | None = None,
    why: str = "",
    remove: bool = True,
) -> PruneResult:
    """Allow in a statement that the oldest closed files are removed, durably; and remove them.

    keep_bytes, keep_seconds, before: see `binlog.prune`.  remove: False leaves the removal to a later `binlog.prune`,
    such as one by another user.
    Only files are removed whose records are all sealed.
    Raises: SealError if a record is under a hold, or younger than the seal demands; NotFoundError if the log has no
    seal; and as `binlog.prune`.
    """
    found = prune_log(
        path, keep_bytes=keep_bytes, keep_seconds=keep_seconds, before=before, ignore_seal=True, dry_run=True
    )
    statement = None
    if found:
        with SealFolder(path) as folder:
            statement = _allow_prune(folder, key, found[-1].number, why)
    if not remove:
        return PruneResult(statement, [])
    return PruneResult(statement, prune_log(path, keep_bytes=keep_bytes, keep_seconds=keep_seconds, before=before))


def _allow_prune(folder: SealFolder, key: Signer, last: int, why: str) -> Statement | None:
    """Allow to remove all files up to number `last`, as far as they are sealed whole."""
    head = _head(folder, key)
    stay = next((file for file in folder.files() if file.number > last and file.first_leaf < head.size), None)
    if stay is None:
        raise SealError(f"file {last} is not sealed whole yet; wait until the next one has a sealed record")
    statements = StatementLog(folder, key.verifier)
    statements.refresh()
    allowed = prune_limit(statements.known)
    if allowed is not None and stay.first_leaf <= allowed.integer("leaf"):
        return None
    for name, hold in holds_of(statements.known).items():
        if hold.integer("leaf") < stay.first_leaf:
            raise SealError(f"the records from {hold.ref()} on are under the hold {name}")
    _check_age(folder, key, stay)
    ref = Ref(stay.number, _first_offset(folder.log_path, stay.number))
    _check_leaf(folder, ref, stay.first_leaf, statements.known)
    return statements.add(key, Kind.PRUNE, head.size, leaf=stay.first_leaf, ref=str(ref), by=_by(), why=why)


def _check_age(folder: SealFolder, key: Signer, stay: SealedFile) -> None:
    """Raise SealError if a record before a file was sealed later than the seal's `keep_seconds` allow."""
    _, beginning = folder.beginning()
    if not beginning.keep_seconds:
        return
    for note in NoteFile(folder.directory, HISTORY_FILE).notes():
        head = parse_checkpoint(note.text)
        if head.size >= stay.first_leaf and verified_keys(note, [key.verifier]):
            age = time.time() - (head.seconds or 0)
            if age >= beginning.keep_seconds:
                return
            text = f"records before file {stay.number} were sealed {age:.0f} s ago"
            raise SealError(f"{text}; the seal must keep them for {beginning.keep_seconds / 86400:g} days")
    raise SealError(f"the history has no checkpoint of the records before file {stay.number}")


def hold(
    path: str | os.PathLike[str], key: Signer, name: str, ref: Ref | str | None = None, *, why: str = ""
) -> Statement:
    """Forbid retention to remove a record or any later one, until `release`; durably.

    name: of the hold.  ref: of the record; None for the oldest one.
    Raises: SealError if there is a hold with this name, or the record is not sealed; NotFoundError; GoneError.
    """
    ref = Ref.parse(ref) if isinstance(ref, str) else ref
    with SealFolder(path) as folder:
        statements = StatementLog(folder, key.verifier)
        statements.refresh()
        if name in holds_of(statements.known):
            raise SealError(f"there is a hold with the name {name} already")
        if ref is None:
            oldest = binlog.stat(path).files[0]
            ref = Ref(oldest.number, oldest.first_offset)
        size = _head(folder, key).size
        leaf = leaf_index(path, folder, ref)
        if leaf >= size:
            raise SealError(f"the record at {ref} is not sealed yet")
        _check_leaf(folder, ref, leaf, statements.known)
        return statements.add(key, Kind.HOLD, size, name=name, leaf=leaf, ref=str(ref), by=_by(), why=why)


def release(path: str | os.PathLike[str], key: Signer, name: str, *, why: str = "") -> Statement:
    """End a hold, durably.  Raises: NotFoundError if there is no such hold, or no seal; SealError; AccessError."""
    with SealFolder(path) as folder:
        statements = StatementLog(folder, key.verifier)
        statements.refresh()
        if name not in holds_of(statements.known):
            raise NotFoundError(f"there is no hold with the name {name}")
        return statements.add(key, Kind.RELEASE, _head(folder, key).size, name=name, by=_by(), why=why)


def read_statements(path: str | os.PathLike[str], vkey: str) -> Sequence[Statement]:
    """Return the statements about a log.

    vkey: the public key.  Raises: SealError if one is not signed by the key, or is missing; NotFoundError; AccessError.
    """
    with SealFolder(path) as folder:
        statements = StatementLog(folder, parse_verifier_key(vkey))
        statements.refresh()
        return statements.known


def end_log(path: str | os.PathLike[str], key: Signer, *, why: str = "", anchors: Sequence[Anchor] = ()) -> Note:
    """Seal all durable records, state that no other will be added, and return the last checkpoint.

    A record that is added later is a finding of `verify`, and no sealer opens the log any more.  Durable on return.
    Raises: as Sealer.
    """
    with Sealer(path, key, anchors=anchors) as sealer:
        sealer.seal()
        sealer.add_statement(Kind.END, by=_by(), why=why)
        note = sealer.seal()
        sealer.anchor()
        return note


def branch(path: str | os.PathLike[str], key: Signer, new_key: Signer) -> Statement:
    """Begin another seal for a copy of a sealed log that is to be a log of its own, by the name of the new key.

    The new seal covers all records of the copy, and its first statement has the last checkpoint of the old one, which
    is kept in the folder `before` of the new one.
    Raises: as Sealer; SealError if both keys have the same name.
    """
    if key.verifier.name == new_key.verifier.name:
        raise SealError("the new log needs a name of its own")
    with Sealer(path, key) as sealer:
        note = sealer.seal()
    old = f"{SEAL_FOLDER}.{_OLD_FOLDER}"
    with Directory(os.path.abspath(path)) as directory:
        directory.rename(SEAL_FOLDER, old)
        begin_seal(path, new_key)
        directory.rename(old, os.path.join(SEAL_FOLDER, _OLD_FOLDER))
    with SealFolder(path) as folder:
        head = parse_checkpoint(note.text)
        return StatementLog(folder, new_key.verifier).add(
            new_key, Kind.BRANCH, 0, origin=head.origin, records=head.size, checkpoint=str(note), by=_by()
        )


def _by() -> str:
    return user_name(os.geteuid())


def _head(folder: SealFolder, key: Signer) -> Checkpoint:
    """Return the latest checkpoint.  Raises: SealError if there is none that the key signed."""
    note = folder.checkpoint()
    if note is None or not verified_keys(note, [key.verifier]):
        raise SealError(f"{folder.log_path} has no checkpoint that {key.verifier.name} signed")
    return parse_checkpoint(note.text)


def _check_leaf(folder: SealFolder, ref: Ref, leaf: int, statements: Sequence[Statement]) -> None:
    """Raise SealError if the checkpoint does not show that a record is this leaf: the list of files is not signed."""
    proof = prove(folder.log_path, ref)
    with binlog.Reader(folder.log_path, ref, verify=False) as reader:
        record = next(reader).data
    is_filler = has_filler_text(record) and any(first <= leaf < end for first, end in repairs_of(statements))
    if proof.leaf_index != leaf or not (is_filler or proof.shows(leaf_hash(record))):
        raise SealError(f"{folder.log_path} differs from its seal: the record at {ref} is not record {leaf}")


def _first_offset(path: str, number: int) -> int:
    for file in binlog.stat(path).files:
        if file.number == number:
            return file.first_offset
    raise AccessError(f"file {number} of {path} was removed")
