"""Anchors: places that get the checkpoints of a log, so that a later cut of the log is found.

`plain` has the base class, and the anchors that only keep a checkpoint: a directory, the syslog, a command;
`witnesses` those that check it and sign it too, over HTTP or by a command such as ssh.
"""

from __future__ import annotations

from binlog.format.seal.note import VerifierKey
from binlog.seal.anchors.plain import Anchor, CommandAnchor, DirectoryAnchor, ProofFrom, SyslogAnchor
from binlog.seal.anchors.witnesses import CommandWitness, HttpWitness, WitnessAnchor

__all__ = [
    "Anchor",
    "CommandAnchor",
    "CommandWitness",
    "DirectoryAnchor",
    "HttpWitness",
    "ProofFrom",
    "SyslogAnchor",
    "WitnessAnchor",
    "parse_anchor",
]


def parse_anchor(text: str, witness_keys: tuple[VerifierKey, ...] = ()) -> Anchor:
    """Return the anchor that a text names.

    The text is dir:PATH, syslog, exec:COMMAND, witness:URL, or witness-exec:COMMAND, such as witness-exec:ssh HOST.
    witness_keys: if any are given, a witness must sign with one of them.
    Raises: ValueError.
    """
    kind, _, rest = text.partition(":")
    if text == "syslog":
        return SyslogAnchor()
    if kind == "witness" and rest.startswith(("http://", "https://")):
        return HttpWitness(rest, witness_keys)
    if rest and kind == "witness-exec":
        return CommandWitness(rest, witness_keys)
    if rest and kind == "exec":
        return CommandAnchor(rest)
    if rest and kind == "dir":
        return DirectoryAnchor(rest)
    raise ValueError(f"not dir:PATH, syslog, exec:COMMAND, witness:URL or witness-exec:COMMAND: {text!r}")
