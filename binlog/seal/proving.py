"""Proofs: that a record is in a sealed log, for people who have the public key and not the log."""

from __future__ import annotations

import os

import binlog
from binlog.errors import NotFoundError, SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, InclusionProof, parse_checkpoint, parse_proof
from binlog.format.seal.note import parse_verifier_key
from binlog.format.seal.policy import Policy, parse_policy
from binlog.format.seal.tree import consistency_proof, inclusion_proof, leaf_hash
from binlog.seal.folder import SealFolder
from binlog.seal.keys import verified_keys


def prove(path: str | os.PathLike[str], ref: Ref | str, *, cosigned: bool = False) -> InclusionProof:
    """Return the proof that a record is in the log, according to its latest checkpoint.  `str()` gives the file's text.

    cosigned: use the latest checkpoint that witnesses have signed too.
    Reads the sealed hashes; and the record's log file up to the record, if another program also writes to the file.
    Raises: NotFoundError if the log has no seal; GoneError if the record was removed; ValueError if no record starts at
    the ref; SealError if the latest checkpoint does not cover it yet, or hashes are missing; AccessError.
    """
    ref = Ref.parse(ref) if isinstance(ref, str) else ref
    with SealFolder(path) as folder:
        note = folder.checkpoint(cosigned=cosigned)
        if note is None:
            raise SealError(f"{os.fspath(path)} has no checkpoint yet")
        head = parse_checkpoint(note.text)
        leaf = leaf_index(path, folder, ref)
        if leaf >= head.size:
            raise SealError(
                f"the latest checkpoint covers {head.size} records, and {ref} is record {leaf}; wait a second"
            )
        return InclusionProof(leaf, tuple(inclusion_proof(leaf, head.size, folder.hashes(head.size).node)), note)


def leaf_index(path: str | os.PathLike[str], folder: SealFolder, ref: Ref) -> int:
    """Return the leaf of a record.  Raises: as `prove`."""
    files = {file.number: file.first_leaf for file in folder.files()}
    first = files.get(ref.number)
    if first is None:
        raise SealError(f"file {ref.number} has no sealed records yet")
    with binlog.Reader(path, ref, verify=False) as reader:
        batch = reader.read_batch(records_max=1)
    if len(batch) == 0 or batch.refs()[0] != ref:
        raise ValueError(f"no record starts at {ref}")
    # A loss before the file's first record may be counted by `first` already.
    losses = [loss for loss in folder.losses() if Ref(ref.number, 0) < loss.ref <= ref and first <= loss.first]
    leaf = first + sum(loss.end - loss.first for loss in losses) + _records_before(path, ref, batch)
    if leaf >= min((first for number, first in files.items() if number > ref.number), default=leaf + 1):
        raise SealError(f"{ref} was added after the next file was begun; a statement has its hash, and no proof does")
    return leaf


def _records_before(path: str | os.PathLike[str], ref: Ref, batch: binlog.Batch) -> int:
    """Return the number of records before one in its file.  batch: the record's."""
    stat = next((file for file in binlog.stat(path).files if file.number == ref.number), None)
    if stat is None:
        raise NotFoundError(f"file {ref.number} was removed")
    if not stat.has_foreign_writers and None not in (batch.first_sequence, stat.first_sequence):
        return (batch.first_sequence or 0) - (stat.first_sequence or 0)
    count = 0
    with binlog.Reader(path, Ref(ref.number, stat.first_offset), follow=False, verify=False) as reader:
        while batch := reader.read_batch():
            count += len(part := batch.before(ref.offset))
            if len(part) < len(batch):
                break
    return count


def prove_consistency(path: str | os.PathLike[str], old: int) -> tuple[list[bytes], Checkpoint]:
    """Return the proof that the log's first `old` records are those of an older checkpoint, and the latest checkpoint.

    Raises: NotFoundError; SealError if there is no checkpoint, or hashes are missing; ValueError if `old` is too large;
    AccessError.
    """
    with SealFolder(path) as folder:
        note = folder.checkpoint()
        if note is None:
            raise SealError(f"{os.fspath(path)} has no checkpoint yet")
        head = parse_checkpoint(note.text)
        return consistency_proof(old, head.size, folder.hashes(head.size).node), head


def check_proof(
    proof: str | bytes, record: bytes, *, vkey: str | None = None, policy: Policy | str | bytes | None = None
) -> Checkpoint:
    """Check a proof, without the log, and return its checkpoint.

    record: its bytes.  vkey: of the log; or a policy, which names logs and witnesses, or its text.
    Raises: SealError if the proof does not show that the record is in the log; ValueError unless there is either
    vkey or policy.
    """
    if (vkey is None) == (policy is None):
        raise ValueError("check_proof needs either vkey or policy")
    found = parse_proof(proof.encode() if isinstance(proof, str) else proof)
    if policy is None:
        policy = Policy([parse_verifier_key(vkey or "")])
    elif not isinstance(policy, Policy):
        policy = parse_policy(policy.encode() if isinstance(policy, str) else policy)
    head = parse_checkpoint(found.checkpoint.text)
    signed = verified_keys(found.checkpoint, [*policy.logs, *policy.witnesses.values()])
    if not any(key in signed and key.name == head.origin for key in policy.logs):
        raise SealError(f"no trusted log has signed the checkpoint of {head.origin}")
    if not policy.is_met(signed):
        raise SealError(f"the quorum {policy.quorum!r} has not signed the checkpoint")
    if not found.shows(leaf_hash(record)):
        raise SealError(f"the proof does not show that this is record {found.leaf_index}")
    return head
