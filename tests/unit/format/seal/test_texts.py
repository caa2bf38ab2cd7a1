"""Notes, keys, checkpoints, proofs, submissions and policies: what is written is read, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.errors import SealError
from binlog.format.seal.checkpoint import (
    Checkpoint,
    InclusionProof,
    Submission,
    parse_checkpoint,
    parse_proof,
    parse_submission,
)
from binlog.format.seal.note import (
    LOG_KEY,
    NOTE_BYTES_MAX,
    WITNESS_KEY,
    Note,
    Signature,
    VerifierKey,
    encode_base64,
    parse_note,
    parse_verifier_key,
)
from binlog.format.seal.policy import parse_policy

ORIGIN = "example.org/audit"
HASH = bytes(range(32))
SIGNATURE = Signature(ORIGIN, b"abcd", bytes(64))
HEAD = Checkpoint(ORIGIN, 5, HASH)
NOTE = Note(HEAD.text(), (SIGNATURE,))
PROOF = InclusionProof(3, (HASH, HASH), NOTE)
SUBMISSION = Submission(2, (HASH,), NOTE)

# Without control characters and separators, which no name may have.
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="+"), min_size=1, max_size=20
)
signatures = st.builds(Signature, names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))


@given(
    names,
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]))),
    st.lists(signatures, min_size=1, max_size=16),
)
@pytest.mark.slow
def test_a_note_is_read_as_it_was_written(first: str, lines: list[str], signed: list[Signature]) -> None:
    note = Note("".join(line + "\n" for line in [first, *lines]), tuple(signed))
    assert parse_note(str(note).encode()) == note


@given(names, st.sampled_from([LOG_KEY, WITNESS_KEY]), st.binary(min_size=32, max_size=32))
@pytest.mark.slow
def test_a_key_is_read_as_it_was_written(name: str, kind: int, public: bytes) -> None:
    key = VerifierKey(name, kind, public)
    assert parse_verifier_key(str(key)) == key


@given(st.integers(0, (1 << 62) - 1), st.binary(min_size=32, max_size=32), st.lists(names, max_size=2))
def test_a_checkpoint_is_read_as_it_was_written(size: int, root: bytes, extensions: list[str]) -> None:
    head = Checkpoint(ORIGIN, size, root, tuple(extensions))
    assert parse_checkpoint(head.text()) == head


@given(
    st.integers(0, (1 << 62) - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63), st.binary(max_size=40)
)
def test_proofs_and_submissions_are_read_as_they_were_written(number: int, hashes: list[bytes], extra: bytes) -> None:
    proof = InclusionProof(number, tuple(hashes), NOTE, extra)
    assert parse_proof(str(proof).encode()) == proof
    submission = Submission(number, tuple(hashes), NOTE)
    assert parse_submission(str(submission).encode()) == submission


TEXTS: list[tuple[Callable[[bytes], object], str]] = [
    (parse_note, str(NOTE)), (parse_proof, str(PROOF)), (parse_submission, str(SUBMISSION)),
]  # fmt: skip


@given(st.data())
def test_a_changed_text_is_refused_or_read_as_it_is(data: st.DataObject) -> None:
    """Nothing but SealError is raised, and no two texts are read as the same values."""
    parse, text = data.draw(st.sampled_from(TEXTS))
    whole = bytearray(text.encode())
    start = data.draw(st.integers(0, len(whole)))
    whole[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    try:
        found = parse(bytes(whole))
    except SealError:
        return
    assert str(found).encode() == whole


_LINE = SIGNATURE.line()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"x" * (NOTE_BYTES_MAX + 1), "the limit is"),
        (b"\xff\n\n\n", "UTF-8"),
        (b"a\tb\n\n\n", "control character"),
        (b"text\n", "no signatures"),
        (f"text\n\n{_LINE}".encode(), "no signatures"),
        (b"text\n\n", "no signatures"),
        (("text\n\n" + 17 * (_LINE + "\n")).encode(), "at most 16"),
        ("text\n\n\u2014 a b c\n".encode(), "base64"),
        (f"text\n\n\u2014 a {encode_base64(b'four')}\n".encode(), "not a signature"),
        (f"text\n\n- a {encode_base64(bytes(68))}\n".encode(), "not a signature"),
        (f"text\n\n\u2014 a+b {encode_base64(bytes(68))}\n".encode(), "not a name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_note_is_refused(text: bytes, error: str) -> None:
    with pytest.raises(SealError, match=error):
        parse_note(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "three lines"),
        ("a\n5\n", "three lines"),
        (f"a\n\n5\n{encode_base64(HASH)}\n", "empty"),
        (f"a\n05\n{encode_base64(HASH)}\n", "not a number"),
        (f"a\n-5\n{encode_base64(HASH)}\n", "not a number"),
        (f"a\n{1 << 62}\n{encode_base64(HASH)}\n", "the limit is"),
        (f"a\n{10**30}\n{encode_base64(HASH)}\n", "not a number"),
        (f"a\n5\n{encode_base64(HASH)[:-1]}\n", "base64"),
        (f"a\n5\n{encode_base64(HASH[:-1])}\n", "31 bytes"),
    ],
)
def test_a_malformed_checkpoint_is_refused(text: str, error: str) -> None:
    with pytest.raises(SealError, match=error):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not a key"),
        ("a+b", "not a key"),
        (f"a+00000000+{encode_base64(bytes([LOG_KEY]) + HASH)}", "does not fit"),
        (f"a+zz+{encode_base64(bytes([LOG_KEY]) + HASH)}", "hexadecimal"),
        (f"a+00000000+{encode_base64(bytes([6]) + HASH)}", "not supported"),
        (f"a+00000000+{encode_base64(bytes([LOG_KEY]) + HASH + b'x')}", "not supported"),
        ("x" * 2000, "not a key"),
    ],
)
def test_a_malformed_key_is_refused(text: str, error: str) -> None:
    with pytest.raises(SealError, match=error):
        parse_verifier_key(text)


def test_a_proof_of_64_hashes_is_refused() -> None:
    many = (HASH,) * 64
    with pytest.raises(SealError, match="limit is 63"):
        parse_proof(str(InclusionProof(3, many, NOTE)).encode())
    with pytest.raises(SealError, match="limit is 63"):
        parse_submission(str(Submission(3, many, NOTE)).encode())


KEYS = {name: VerifierKey(name, WITNESS_KEY, bytes([number]) * 32) for number, name in enumerate("ABCDE")}
LOG = VerifierKey(ORIGIN, LOG_KEY, HASH)
WITNESSES = "".join(f"witness {name} {key}\n" for name, key in KEYS.items())


def test_a_policy_of_groups_is_met_by_enough_witnesses() -> None:
    text = f"# ours\nlog {LOG} https://example.org\n\n{WITNESSES}group two 2 A B C\ngroup one any D E\n"
    policy = parse_policy((text + "\tgroup both   all two one\nquorum both\n").encode())
    assert policy.logs == [LOG]
    for signed, is_met in (("AB", False), ("ABD", True), ("AD", False), ("ABCDE", True), ("BCE", True), ("", False)):
        assert policy.is_met([KEYS[name] for name in signed]) == is_met
    assert parse_policy(b"quorum none\n").is_met([])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "one line 'quorum'"),
        ("quorum none\nquorum none\n", "one line 'quorum'"),
        ("quorum A\n", "line 1.*no witness or group"),
        ("group a any\n", "not log KEY"),
        ("group a any A\n", "no witness or group"),
        (f"{WITNESSES}group a 3 A B\nquorum a\n", "at most 2 of 2"),
        (f"{WITNESSES}group a 0 A B\nquorum a\n", "at least 1"),
        (f"{WITNESSES}group a any A\ngroup b any A\nquorum a\n", "in a group already"),
        (f"{WITNESSES}group A any B\n", "is taken"),
        (f"witness none {KEYS['A']}\n", "is taken"),
        (f"witness X {KEYS['A']}\nwitness Y {KEYS['A']}\n", "occurs twice"),
        (f"witness X {LOG}\n", "is the key of a log"),
        (f"log {KEYS['A']}\n", "is the key of a witness"),
        ("x\xa0y\n", "not log KEY"),
    ],
)
def test_a_malformed_policy_is_refused(text: str, error: str) -> None:
    with pytest.raises(SealError, match=error):
        parse_policy(text.encode())
