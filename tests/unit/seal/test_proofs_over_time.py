"""The proof of a record stays the same while retention removes older files, and while files become archives."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlog
from binlog import Reader, Ref, Writer
from binlog.seal import Sealer, SigningKey, begin_seal, check_proof, prove, prune

KEY = SigningKey.generate("example.org/audit")


def _proofs(log: Path, records: dict[Ref, bytes]) -> dict[Ref, str]:
    """Return the proof of each record without its checkpoint, after it was accepted with the record."""
    found = {}
    for ref, data in records.items():
        proof = str(prove(log, ref))
        check_proof(proof, data, vkey=str(KEY.verifier))
        found[ref] = proof.partition("\n\n")[0]
    return found


@pytest.mark.slow
def test_a_proof_is_the_same_after_archiving_and_retention(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log, mode="flush") as writer:
        begin_seal(log, KEY)
        for number in range(900):
            writer.append(b"record %d" % number)
            if number in (299, 599):
                writer.cutover()
        writer.sync()
        with Sealer(log, KEY) as sealer:
            sealer.seal()
        with Reader(log) as reader:
            records = {entry.ref: entry.data for number, entry in enumerate(reader) if number % 50 == 17}
        before = _proofs(log, records)
        kept = {ref: str(prove(log, ref)) for ref in records}
        assert len(set(before.values())) == len(before)

        writer.cutover()
        assert _proofs(log, records) == before
        assert [each.problem for each in binlog.archive(log, keep_last=1)] == [None, None]
        assert _proofs(log, records) == before
        prune(log, KEY, before="2:256")
        left = {ref: data for ref, data in records.items() if ref.number > 1}
        assert _proofs(log, left) == {ref: before[ref] for ref in left}
        binlog.archive(log, keep_last=0)
        prune(log, KEY, before="3:256")
        left = {ref: data for ref, data in records.items() if ref.number > 2}
        assert _proofs(log, left) == {ref: before[ref] for ref in left}
    assert len(left) == 6
    # A record that is gone is still proven by the proof that was made before.
    for ref, proof in kept.items():
        check_proof(proof, records[ref], vkey=str(KEY.verifier))
    with pytest.raises(binlog.GoneError):
        prove(log, min(records))
