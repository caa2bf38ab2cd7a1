"""A witness that others wrote signs our checkpoints, and no race of two sealers takes it back."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.errors import BinlogError, SealError
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import VerifierKey, encode_base64, parse_verifier_key
from binlog.format.seal.policy import Policy
from binlog.seal import Sealer, SigningKey, begin_seal, check_proof, prove, verify
from binlog.seal.anchors import HttpWitness
from binlog.seal.folder import SealFolder
from binlog.seal.keys import verified_keys
from binlog.seal.witness import CONFLICT, INCONSISTENT, OK, WitnessAnswer
from tests.support.go_programs import built

# One worker builds the program, which takes longer than all else.
pytestmark = [pytest.mark.slow, pytest.mark.turn(1), pytest.mark.xdist_group("go")]

KEY = SigningKey.generate("example.org/audit")


@dataclass
class Served:
    """A witness that runs.  signed: its signatures, complete once it has ended."""

    verifier: VerifierKey
    url: str
    signed: list[tuple[int, str]]


class Recorded(HttpWitness):
    """An anchor at the witness, which keeps the status of each answer."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.url, (served.verifier,))
        self.statuses: list[int] = []

    def _submit(self, data: bytes) -> WitnessAnswer:
        answer = super()._submit(data)
        self.statuses.append(answer.status)
        return answer


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(Path(__file__).parent / "go_witness", tmp_path_factory)


@contextmanager
def _served(program: Path) -> Iterator[Served]:
    command = [program, str(KEY.verifier)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        verifier = parse_verifier_key(process.stdout.readline().strip())
        served = Served(verifier, process.stdout.readline().strip(), [])
        yield served
        process.stdin.close()
        for line in process.stdout:
            size, root = line.split()
            served.signed.append((int(size), root))


def _sealed(path: Path) -> Path:
    Writer(path).close()
    begin_seal(path, KEY)
    return path


def _append(log: Path, first: int, end: int) -> None:
    with Writer(log) as writer:
        writer.append_many([b"record %d" % number for number in range(first, end)])


def _seal(log: Path, anchor: HttpWitness) -> Checkpoint:
    """Seal as a process does that has just started, and does not know how far the witness is."""
    with Sealer(log, KEY, anchors=[anchor]) as sealer:
        note = sealer.seal()
        [error] = sealer.anchor().values()
        assert error is None
    return parse_checkpoint(note.text)


def test_a_witness_in_go_signs_a_log_that_grows(program: Path, tmp_path: Path) -> None:
    log = _sealed(tmp_path / "log")
    heads = []
    with _served(program) as served:
        for first, end in ((0, 1), (1, 7), (7, 256), (256, 300), (300, 1000)):
            _append(log, first, end)
            anchor = Recorded(served)
            heads.append(_seal(log, anchor))
            # It tells its size to a sealer that does not know it, and accepts the proof from there.
            assert anchor.statuses == ([OK] if first == 0 else [CONFLICT, OK])
        # The same size is signed again, for its time.
        assert _seal(log, anchor) == heads[-1]
        policy = Policy([KEY.verifier], {"go": served.verifier}, quorum="go")
        assert check_proof(str(prove(log, "1:256", cosigned=True)), b"record 0", policy=policy) == heads[-1]
    heads.append(heads[-1])
    assert served.signed == [(head.size, encode_base64(head.root)) for head in heads]


def test_a_witness_in_go_stops_a_log_that_was_cut_or_has_another_history(program: Path, tmp_path: Path) -> None:
    log, copy = _sealed(tmp_path / "log"), tmp_path / "copy"
    _append(log, 0, 300)
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    shutil.copytree(log, copy)
    with _served(program) as served:
        _append(log, 300, 310)
        _seal(log, Recorded(served))
        for record, statuses, message in (
            (None, [CONFLICT], "has signed 310 records, and the log has 300"),
            (300, [CONFLICT], "has signed 310 records, and the log has 305"),
            (305, [CONFLICT, INCONSISTENT], "contradicts this one"),
            (310, [CONFLICT, INCONSISTENT], "contradicts this one"),
        ):
            if record is not None:
                _append(copy, record + 1000, record + 1005)
            anchor = Recorded(served)
            with pytest.raises(SealError, match=message):
                _seal(copy, anchor)
            assert anchor.statuses == statuses
        _append(log, 310, 320)
        _seal(log, Recorded(served))
    assert [size for size, _ in served.signed] == [310, 320]


def test_two_sealers_that_race_never_take_the_witness_back(program: Path, tmp_path: Path) -> None:
    """Two copies of a log get the same records, at their own pace; both are sealed and have the same witness."""
    logs = [_sealed(tmp_path / "first"), tmp_path / "second"]
    shutil.copytree(*logs)
    statuses: list[int] = []
    errors: set[str] = set()

    def race(log: Path) -> None:
        anchor = Recorded(served)
        for number in range(60):
            _append(log, number, number + 1)
            try:
                with Sealer(log, KEY, anchors=[anchor]) as sealer:
                    sealer.seal()
                    errors.update(str(error) for error in sealer.anchor().values() if isinstance(error, BinlogError))
            except SealError as error:  # the other one is ahead, so this copy seems to be cut
                errors.add(str(error))
        statuses.extend(anchor.statuses)

    with _served(program) as served:
        threads = [threading.Thread(target=race, args=(log,)) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({root for _, root in served.signed}) == len({size for size, _ in served.signed})
    assert [size for size, _ in served.signed] == sorted(size for size, _ in served.signed)
    assert served.signed[-1][0] == 60
    assert set(statuses) == {OK, CONFLICT}
    assert all("answered 409" in error or "has signed" in error for error in errors), errors
    for log in logs:
        assert verify(log, str(KEY.verifier)).findings == []
        assert binlog.check(log) == []
        with SealFolder(log) as folder:
            note = folder.checkpoint(cosigned=True)
        if note is not None:
            head = parse_checkpoint(note.text)
            assert (head.size, encode_base64(head.root)) in served.signed
            assert verified_keys(note, [KEY.verifier, served.verifier]) == {KEY.verifier, served.verifier}
