"""A witness signs a log's checkpoints, but none that contradicts one that it signed before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.errors import AccessError, SealError
from binlog.format.seal.checkpoint import Checkpoint, Submission, parse_checkpoint
from binlog.format.seal.note import Note, parse_signatures, signed_time
from binlog.format.seal.tree import consistency_proof, leaf_hash, root_hash
from binlog.seal import SigningKey, Witness, make_witness
from binlog.seal.keys import signed_note, verified_keys
from tests.support.trees import nodes_of

KEY = SigningKey.generate("example.org/audit")
LEAVES = [leaf_hash(b"%d" % number) for number in range(300)]
OTHERS = [leaf_hash(b"other %d" % number) for number in range(300)]
NODE, OTHER_NODE = nodes_of(LEAVES), nodes_of(OTHERS)


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    make_witness(tmp_path / "witness", "example.org/witness")
    with Witness(tmp_path / "witness") as opened:
        opened.trust(str(KEY.verifier))
        yield opened


def _note(size: int, node: object = NODE, key: SigningKey = KEY) -> Note:
    return signed_note(Checkpoint(key.verifier.name, size, root_hash(size, node)).text(), [key])  # type: ignore[arg-type]


def _ask(witness: Witness, old: int, size: int, note: Note | None = None) -> tuple[int, str]:
    hashes = tuple(consistency_proof(old, size, NODE)) if 0 < old <= size else ()
    return witness.answer(str(Submission(old, hashes, note or _note(size))).encode())


def test_it_signs_a_log_that_grows(witness: Witness) -> None:
    for old, size in ((0, 1), (1, 100), (100, 100), (100, 300)):
        status, lines = _ask(witness, old, size)
        assert status == 200
        note = Note(_note(size).text, parse_signatures(lines))
        assert verified_keys(note, [witness.verifier]) == {witness.verifier}
        assert signed_time(note.signatures[0].value) > 1_700_000_000
        latest = witness.latest("example.org/audit")
        assert latest is not None
        assert parse_checkpoint(latest.text).size == size


def test_it_refuses_a_smaller_or_another_log(witness: Witness) -> None:
    assert _ask(witness, 0, 100)[0] == 200
    assert _ask(witness, 0, 200) == (409, "100\n")
    assert _ask(witness, 50, 200) == (409, "100\n")
    assert _ask(witness, 0, 50) == (409, "100\n")
    assert _ask(witness, 100, 50)[0] == 400
    assert _ask(witness, 100, 200, _note(200, OTHER_NODE))[0] == 422
    assert _ask(witness, 100, 100, _note(100, OTHER_NODE)) == (409, "100\n")
    assert _ask(witness, 100, 200)[0] == 200


def test_it_signs_only_for_logs_that_it_knows(witness: Witness) -> None:
    assert _ask(witness, 0, 5, _note(5, key=SigningKey.generate("example.org/else")))[0] == 404
    assert _ask(witness, 0, 5, _note(5, key=SigningKey.generate("example.org/audit")))[0] == 403
    forged = Note(_note(6).text, _note(5).signatures)
    assert _ask(witness, 0, 6, forged)[0] == 403
    assert witness.answer(b"anything")[0] == 400
    assert witness.latest("example.org/audit") is None
    with pytest.raises(SealError, match="occurs twice"):
        witness.trust(str(KEY.verifier))


def test_a_proof_with_too_much_or_too_little_is_refused(witness: Witness) -> None:
    hashes = tuple(consistency_proof(3, 5, NODE))
    assert witness.answer(str(Submission(0, hashes, _note(5))).encode())[0] == 422
    assert _ask(witness, 0, 3)[0] == 200
    for wrong in (hashes[:-1], (*hashes, hashes[0]), ()):
        assert witness.answer(str(Submission(3, wrong, _note(5))).encode())[0] == 422
    assert witness.answer(str(Submission(3, hashes, _note(5))).encode())[0] == 200


@pytest.mark.slow
def test_threads_that_ask_at_once_never_take_it_back(witness: Witness, tmp_path: Path) -> None:
    sizes = list(range(1, 100))

    def submit() -> None:
        with Witness(tmp_path / "witness") as own:
            for size in sizes:
                note = own.latest("example.org/audit")
                old = 0 if note is None else parse_checkpoint(note.text).size
                if old <= size:
                    assert _ask(own, old, size)[0] in (200, 409)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latest = witness.latest("example.org/audit")
    assert latest is not None
    assert parse_checkpoint(latest.text).size == 99


def test_a_directory_has_one_witness(witness: Witness, tmp_path: Path) -> None:
    with pytest.raises(AccessError):
        make_witness(tmp_path / "witness", "example.org/witness")
    with pytest.raises(AccessError):
        Witness(tmp_path)
    KEY.save(tmp_path / "key")
    with pytest.raises(SealError, match="not of a witness"):
        Witness(tmp_path)
