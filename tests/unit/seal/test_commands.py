"""A key that is kept elsewhere, and signs by a command."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from binlog import Writer
from binlog.cli.main import main
from binlog.errors import AccessError, SealError
from binlog.seal import CommandKey, Sealer, SigningKey, begin_seal, verify
from tests.support.checkout import ROOT

KEY = SigningKey("example.org/audit", bytes(range(32)))
VKEY = str(KEY.verifier)

# As a hardware module would do it: the secret never leaves this process.
_DEVICE = """
import base64, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
signature = Ed25519PrivateKey.from_private_bytes(bytes(range(%d, %d))).sign(sys.stdin.buffer.read())
sys.stdout.buffer.write(signature if sys.argv[1] == "raw" else base64.b64encode(signature) + b"\\n")
"""


def _command(tmp_path: Path, form: str = "raw", first: int = 0) -> str:
    program = tmp_path / f"device{first}.py"
    program.write_text(_DEVICE % (first, first + 32))
    return shlex.join([sys.executable, str(program), form])


@pytest.mark.parametrize("form", ["raw", "base64"])
@pytest.mark.slow
def test_a_command_signs_the_checkpoints(tmp_path: Path, form: str) -> None:
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"one")
    key = CommandKey(KEY.verifier, _command(tmp_path, form))
    begin_seal(log, key)
    with Sealer(log, key) as sealer:
        assert sealer.seal().signatures == (KEY.sign(sealer.seal().text),)
    assert verify(log, VKEY).findings == []


@pytest.mark.parametrize("command", ["exit 3", "echo no signature", "cat"])
def test_a_command_that_does_not_sign_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises((AccessError, SealError)):
        CommandKey(KEY.verifier, command).sign("text\n")


@pytest.mark.slow
def test_a_command_that_signs_with_another_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SealError, match="has not signed with the key"):
        CommandKey(KEY.verifier, _command(tmp_path, first=1)).sign("text\n")


@pytest.mark.slow
def test_the_commands_take_a_signer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    log, vkey = str(tmp_path / "log"), tmp_path / "vkey"
    with Writer(log) as writer:
        writer.append(b"one")
    vkey.write_text(VKEY + "\n")
    options = ["--key", str(vkey), "--signer", _command(tmp_path)]
    assert main(["seal", "init", log, "--name", "example.org/audit", *options]) == 0
    assert main(["seal", "once", log, *options]) == 0
    assert main(["seal", "hold", log, "case 7", *options]) == 0
    assert main(["seal", "verify", log, "--vkey", str(vkey)]) == 0
    assert main(["seal", "once", log, "--key", str(vkey)]) == 3
