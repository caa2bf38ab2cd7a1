"""Go's own packages for notes and transparency logs accept ours, and ours accept what they made."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import SealError
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import encode_base64, parse_note, parse_verifier_key
from binlog.format.seal.tree import (
    consistency_proof,
    includes,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    root_hash,
)
from binlog.seal.keys import SigningKey, signed_note, verified_keys
from tests.support.go_programs import built
from tests.support.trees import nodes_of

# One worker builds the program, which takes longer than all else.
pytestmark = pytest.mark.xdist_group("go")

PROGRAM = Path(__file__).parent / "go_tlog"
MADE_BY_GO = PROGRAM / "made_by_go.json"


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], str]:
    """Build the program, and return a function that runs it with a command and standard input."""
    program = built(PROGRAM, tmp_path_factory)

    def run(word: str, text: str = "") -> str:
        done = subprocess.run([program, word], input=text, capture_output=True, text=True, check=True)
        return done.stdout

    return run


def _flipped(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one bit of them flipped."""
    place = chance.randrange(8 * len(data))
    return bytes(byte ^ (1 << place % 8) if at == place // 8 else byte for at, byte in enumerate(data))


def _flipped_one(hashes: list[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randrange(len(hashes))
    return [_flipped(each, chance) if at == place else each for at, each in enumerate(hashes)]


@pytest.mark.slow
@pytest.mark.turn(1)
def test_go_accepts_our_notes_and_proofs_and_refuses_each_with_a_flipped_bit(go: Callable[[str, str], str]) -> None:
    chance = random.SystemRandom()
    leaves = [leaf_hash(b"record %d" % number) for number in range(1000)]
    node = nodes_of(leaves)
    key = SigningKey.generate("example.org/audit/payments")
    asked: dict[str, Any] = {"Key": str(key.verifier), "Notes": [], "Inclusions": [], "Consistencies": []}
    for _ in range(200):
        size = chance.randint(2, len(leaves))
        index, old = chance.randrange(size), chance.randint(1, size - 1)
        root, old_root = root_hash(size, node), root_hash(old, node)
        text = Checkpoint(key.verifier.name, size, root).text()
        note = str(signed_note(text, [key]))
        asked["Notes"] += [note, note.replace(text.splitlines()[2], encode_base64(_flipped(root, chance)))]
        proof = inclusion_proof(index, size, node)
        for hashes in (proof, _flipped_one(proof, chance)):
            inclusion = {"Size": size, "Index": index, "Root": root, "Leaf": leaves[index], "Proof": hashes}
            asked["Inclusions"].append(inclusion)
        proof = consistency_proof(old, size, node)
        for hashes in (proof, _flipped_one(proof, chance)):
            consistency = {"Size": size, "Old": old, "Root": root, "OldRoot": old_root, "Proof": hashes}
            asked["Consistencies"].append(consistency)
    answers = go("check", json.dumps(asked, default=encode_base64)).split()
    assert answers == ["yes", "no"] * 600


def _check_made_by_go(made: dict[str, Any]) -> None:
    decode = partial(base64.b64decode, validate=True)
    key = parse_verifier_key(made["key"])
    note = parse_note(made["note"].encode())
    assert verified_keys(note, [key]) == {key}
    origin, size, root, _ = parse_checkpoint(note.text)
    leaves = [leaf_hash(b"record %d" % number) for number in range(size)]
    node = nodes_of(leaves)
    assert (origin, root) == (key.name, root_hash(size, node))
    for index, texts in enumerate(made["inclusions"]):
        proof = [decode(text) for text in texts]
        assert proof == inclusion_proof(index, size, node)
        assert includes(leaves[index], index, size, proof, root)
    for old, (before, *texts) in enumerate(made["consistencies"], 1):
        proof = [decode(text) for text in texts]
        assert is_consistent(old, decode(before), size, root, proof)
        assert proof == consistency_proof(old, size, node)
    with pytest.raises(SealError, match="is not of its key"):
        verified_keys(parse_note(made["note"].replace(f"\n{size}\n", f"\n{size - 1}\n").encode()), [key])


def test_we_accept_what_go_has_made() -> None:
    _check_made_by_go(json.loads(MADE_BY_GO.read_text()))


@pytest.mark.slow
@pytest.mark.turn(1)
def test_we_accept_what_go_makes_now(go: Callable[[str, str], str]) -> None:
    _check_made_by_go(json.loads(go("make", "")))
