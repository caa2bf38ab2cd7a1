"""Policies: which logs are trusted, and which of their witnesses must have signed (C2SP tlog-policy)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.seal.note import LOG_KEY, WITNESS_KEY, VerifierKey, parse_verifier_key

POLICY_BYTES_MAX = 1 << 18
_NONE = "none"


class Group(NamedTuple):
    """Names of witnesses and other groups, of which at least `required` must have signed."""

    required: int
    members: tuple[str, ...]


@dataclass
class Policy:
    """Which signatures a checkpoint must have: of one of the logs, and of the quorum's witnesses.

    quorum: the name of a witness or a group, or `none`.
    """

    logs: list[VerifierKey] = field(default_factory=list)
    witnesses: dict[str, VerifierKey] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str = _NONE

    def is_met(self, signed: Collection[VerifierKey]) -> bool:
        """Return whether these witnesses are enough."""
        return self.quorum == _NONE or self._has_signed(self.quorum, signed)

    def _has_signed(self, name: str, signed: Collection[VerifierKey]) -> bool:
        if name in self.witnesses:
            return self.witnesses[name] in signed
        group = self.groups[name]
        return sum(self._has_signed(member, signed) for member in group.members) >= group.required


def parse_policy(data: bytes) -> Policy:
    """Return a policy, given a file's bytes.  Raises: SealError, which names the line."""
    if len(data) > POLICY_BYTES_MAX:
        raise SealError(f"a policy of {len(data)} bytes; the limit is {POLICY_BYTES_MAX}")
    policy, quorums, grouped = Policy(), 0, set[str]()
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = line.replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if not words or words[0].startswith("#"):
            continue
        try:
            quorums += _add(policy, words, grouped)
        except SealError as error:
            raise SealError(f"line {number} of the policy: {error}") from error
    if quorums != 1:
        raise SealError(f"a policy has one line 'quorum', this one has {quorums}")
    return policy


def _add(policy: Policy, words: list[str], grouped: set[str]) -> bool:
    """Add a line to the policy; return whether it is the quorum's.  grouped: names that are in a group."""
    match words:
        case ["log", text] | ["log", text, _]:
            policy.logs.append(_key(text, LOG_KEY, policy.logs))
        case ["witness", name, text] | ["witness", name, text, _]:
            _check_new(policy, name)
            policy.witnesses[name] = _key(text, WITNESS_KEY, policy.witnesses.values())
        case ["group", name, count, *members] if members:
            _check_new(policy, name)
            for member in members:
                _check_known(policy, member)
                if member in grouped:
                    raise SealError(f"{member} is in a group already")
                grouped.add(member)
            policy.groups[name] = Group(_count(count, len(members)), tuple(members))
        case ["quorum", name]:
            if name != _NONE:
                _check_known(policy, name)
            policy.quorum = name
            return True
        case _:
            raise SealError("not log KEY, witness NAME KEY, group NAME COUNT NAME..., or quorum NAME")
    return False


def _key(text: str, kind: int, others: Collection[VerifierKey]) -> VerifierKey:
    key = parse_verifier_key(text)
    if key.kind != kind:
        raise SealError(f"{key.name} is the key of a {'log' if key.kind == LOG_KEY else 'witness'}")
    if any(other.public == key.public for other in others):
        raise SealError(f"the key of {key.name} occurs twice")
    return key


def _check_new(policy: Policy, name: str) -> None:
    if name == _NONE or name in policy.witnesses or name in policy.groups:
        raise SealError(f"the name {name} is taken")


def _check_known(policy: Policy, name: str) -> None:
    if name not in policy.witnesses and name not in policy.groups:
        raise SealError(f"no witness or group before this line has the name {name}")


def _count(text: str, members: int) -> int:
    if text in ("any", "all"):
        return 1 if text == "any" else members
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:4]) <= members or len(text) > len("9999"):
        raise SealError(f"at least 1 and at most {members} of {members} must sign, not {text}")
    return int(text)
