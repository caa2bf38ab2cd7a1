"""A person who has the key and all files makes another history of what a witness has signed: it does not pass."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import SealError
from binlog.format.seal.checkpoint import Submission, parse_checkpoint
from binlog.format.seal.tree import consistency_proof
from binlog.seal import Rule, Sealer, SigningKey, Witness, begin_seal, make_witness, verify
from binlog.seal.anchors import WitnessAnchor
from binlog.seal.folder import SealFolder
from binlog.seal.witness import WitnessAnswer
from stress.tamper.sealed_log import make_again

KEY = SigningKey.generate("example.org/audit")
RECORDS = [b"record %d" % number for number in range(700)]
_STEP = 70


class _NearWitness(WitnessAnchor):
    """A witness in this process."""

    def __init__(self, witness: Witness) -> None:
        super().__init__("witness")
        self._witness = witness

    def _submit(self, data: bytes) -> WitnessAnswer:
        return self._witness.answer(data)


def _make(folder: Path, witness: Witness) -> None:
    """Make a log of which the witness signs ten checkpoints; keep a copy of the directory as it was at each."""
    log = folder / "log"
    Writer(log).close()
    begin_seal(log, KEY)
    for start in range(0, len(RECORDS), _STEP):
        _continue(log, RECORDS[start : start + _STEP], witness)
        shutil.copytree(log, folder / str(start + _STEP))


def _continue(log: Path, records: list[bytes], witness: Witness) -> None:
    with Writer(log, mode="flush") as writer:
        if records:
            writer.append_many(records)
        writer.sync()
    with Sealer(log, KEY, anchors=[_NearWitness(witness)]) as sealer:
        sealer.seal()
        sealer.anchor()


def _forge(folder: Path, identity: uuid.UUID, witness: Witness, chance: random.Random) -> int:
    """Make another history in `forged`, and try to get a signature for it; return up to where it is the same."""
    log = folder / "forged"
    is_new = chance.random() < 0.5
    moment = 0 if is_new else chance.randrange(1, len(RECORDS) // _STEP) * _STEP
    cut = chance.randrange(moment, len(RECORDS))
    # Fewer records than the witness has signed, as many, or more.
    others = [b"forged %d" % number for number in range(chance.choice((0, 1, len(RECORDS) - cut, len(RECORDS))))]
    records = [*RECORDS[moment:cut], *others]
    if is_new:
        make_again(log, identity, [records])
        begin_seal(log, KEY)
        records = []
    else:
        shutil.copytree(folder / str(moment), log)
    with pytest.raises(SealError, match=r"has signed \d+ records|another root|contradicts this one"):
        _continue(log, records, witness)
    return cut


@pytest.mark.parametrize("cuts", [100, pytest.param(1000, marks=pytest.mark.install)])
def test_no_other_history_of_what_a_witness_signed_passes(
    in_memory: Path, figure: Callable[[str], None], cuts: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    make_witness(in_memory / "witness", "example.org/witness")
    rules: dict[Rule, int] = {}
    with Witness(in_memory / "witness") as witness:
        witness.trust(str(KEY.verifier))
        _make(in_memory, witness)
        identity = uuid.UUID(str(binlog.stat(in_memory / "log").files[0].uuid))
        latest = witness.latest(KEY.verifier.name)
        assert latest is not None
        with SealFolder(in_memory / "log") as folder:
            proof = tuple(consistency_proof(len(RECORDS) - _STEP, len(RECORDS), folder.hashes(len(RECORDS)).node))
        for _ in range(cuts):
            cut = _forge(in_memory, identity, witness, chance)
            forged = in_memory / "forged"
            findings = verify(forged, str(KEY.verifier), checkpoints=[latest]).findings
            found = {finding.rule for finding in findings}
            assert found & {Rule.FORK, Rule.CUT, Rule.CHANGED}, f"seed {seed}, cut at {cut}"
            rules |= {rule: rules.get(rule, 0) + 1 for rule in found}
            with SealFolder(forged) as folder:
                note = folder.checkpoint()
            assert note is not None
            # Nor does the proof that the true log has grown help it.
            for old in (0, len(RECORDS) - _STEP, len(RECORDS)):
                answer = witness.answer(str(Submission(old, proof, note)).encode())
                assert answer.status in (400, 409, 422), f"seed {seed}, cut at {cut}"
            assert witness.latest(KEY.verifier.name) == latest
            shutil.rmtree(forged)
        assert verify(in_memory / "log", str(KEY.verifier), checkpoints=[latest]).findings == []
    assert parse_checkpoint(latest.text).size == len(RECORDS)
    counts = ", ".join(f"{count} {rule}" for rule, count in sorted(rules.items()))
    figure(f"{cuts} other histories of what a witness signed, none signed; verify: {counts}")
