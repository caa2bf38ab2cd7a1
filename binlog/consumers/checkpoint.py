"""Checkpoints: the whole state of a group as bytes, equal for equal states.

A process that opens a group begins with the newest checkpoint.  A process that has a state compares its own with the
checkpoint: a difference means that two processes applied the same operations in different ways.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any

from binlog.consumers.settings import Settings
from binlog.consumers.state import Counters, GroupState, Item, ItemState, Seat
from binlog.format.consumers.operation import CHECKPOINT_ITEM, GROUP_MESSAGE, MessageFacts

_HEAD = struct.Struct(">I")
_ITEM = struct.Struct(CHECKPOINT_ITEM.format)
_FACTS = struct.Struct(GROUP_MESSAGE.format)


def pack_state(state: GroupState) -> bytes:
    """Return the state as bytes."""
    facts = state.facts()
    values = {
        "settings": state.settings.as_values(),
        "epoch": state.epoch,
        "clock_ns": state.clock_ns,
        "clock": state.clock,
        "next": state.next,
        "known_end": state.known_end,
        "witness": state.witness,
        "seats": [[number, seat.generation, seat.hint, seat.lease_ns] for number, seat in sorted(state.seats.items())],
        "generations": sorted(state.generations.items()),
        "paused": state.is_paused,
        "deleted": state.is_deleted,
        "letters": state.letters,
        "counters": asdict(state.counters),
        "took_new": state.took_new,
        "item_count": len(state.items),
        "fact_count": len(facts),
    }
    head = json.dumps(values, separators=(",", ":"), sort_keys=True).encode()
    items = b"".join(_pack_item(state.items[sequence]) for sequence in sorted(state.items))
    return _HEAD.pack(len(head)) + head + items + b"".join(_FACTS.pack(*each) for each in facts)


def parse_state(data: bytes) -> GroupState:
    """Return the state that `pack_state` made bytes of.  Raises: ValueError."""
    try:
        (size,) = _HEAD.unpack_from(data)
        values = json.loads(data[_HEAD.size : _HEAD.size + size])
        return _parse(values, data, _HEAD.size + size)
    except (struct.error, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is no checkpoint ({error})") from error


def _parse(values: dict[str, Any], data: bytes, at: int) -> GroupState:
    state = GroupState()
    state.is_created = True
    state.settings = Settings().changed(values["settings"])
    state.epoch, state.clock_ns, state.clock = values["epoch"], values["clock_ns"], values["clock"]
    state.next, state.known_end = values["next"], values["known_end"]
    if values["witness"] is not None:
        (number, offset), crc = values["witness"]
        state.witness = ((number, offset), crc)
    state.seats = {number: Seat(generation, hint, lease) for number, generation, hint, lease in values["seats"]}
    state.generations = dict(values["generations"])
    state.is_paused, state.is_deleted, state.letters = values["paused"], values["deleted"], values["letters"]
    state.counters = Counters(**values["counters"])
    items = []
    for _ in range(values["item_count"]):
        item, at = _parse_item(data, at)
        items.append(item)
    if len(data) != at + values["fact_count"] * _FACTS.size:
        raise ValueError(f"it has {len(data)} bytes, and not as many as its counts say")
    facts = [MessageFacts(*each) for each in _FACTS.iter_unpack(data[at:])]
    state.restore(items, facts, took_new=values["took_new"])
    return state


def _pack_item(item: Item) -> bytes:
    reason = item.reason.encode()
    return (
        _ITEM.pack(
            item.sequence, item.state, item.is_suspect, item.seat, item.delivery, item.deaths, item.letter,
            item.key_hash, item.expiry_ns, item.due_ns, len(reason),
        )
        + reason
    )  # fmt: skip


def _parse_item(data: bytes, at: int) -> tuple[Item, int]:
    sequence, state, suspect, seat, delivery, deaths, letter, key, expiry, due, size = _ITEM.unpack_from(data, at)
    at += _ITEM.size
    reason = data[at : at + size].decode()
    item = Item(sequence, ItemState(state), key, expiry, due, seat, delivery, deaths, bool(suspect), letter, reason)
    return item, at + size
