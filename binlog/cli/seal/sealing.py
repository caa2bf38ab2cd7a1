"""`binlog seal init`, `run`, `once` and `status`."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar, cast

import click

from binlog.cli.amounts import duration_text, size_text, things_text
from binlog.cli.exits import ExitCode, opening, print_error
from binlog.cli.options import directory_argument, json_option, need_log, read_key, seconds_from
from binlog.cli.output import printable, write, write_line
from binlog.cli.records import object_line
from binlog.seal import (
    Anchor,
    CommandKey,
    Sealer,
    Signer,
    SigningKey,
    begin_seal,
    parse_anchor,
    parse_verifier_key,
    stat_seal,
)
from binlog.seal.permissions import separation_warnings

_signer_option = click.option(
    "--signer",
    metavar="COMMAND",
    help="A command that signs its standard input, if the secret key is kept elsewhere; then --key is the public key.",
)

_Command = TypeVar("_Command", bound=Callable[..., object])


def key_options(command: _Command) -> _Command:
    """Add the options that name the log's key; the command gets it as `key`."""

    @functools.wraps(command)
    def with_key(*args: object, directory: str, key_path: str, signer: str | None, **options: object) -> object:
        with opening():
            need_log(directory)
            key = SigningKey.load(key_path) if signer is None else _command_key(key_path, signer)
        return command(*args, directory=directory, key=key, **options)

    key_option = click.option("--key", "key_path", metavar="FILE", required=True, help="The file of the secret key.")
    return cast("_Command", key_option(_signer_option(with_key)))


def _command_key(vkey: str, signer: str) -> CommandKey:
    return CommandKey(parse_verifier_key(read_key(vkey)), signer)


anchor_option = click.option(
    "--anchor",
    "anchors",
    metavar="PLACE",
    multiple=True,
    help="Hand each checkpoint to dir:PATH, syslog, exec:COMMAND, witness:URL or witness-exec:COMMAND, such as "
    "'witness-exec:ssh HOST'. May be repeated.",
)
witness_key_option = click.option(
    "--witness-key",
    "witness_keys",
    metavar="KEY",
    multiple=True,
    help="The public key of a witness. If any are given, each witness must sign with one of them. May be repeated.",
)


@click.command("init", short_help="Begin to seal a log.")
@directory_argument
@click.option("--name", required=True, help="Names the log in checkpoints, for example example.org/audit.")
@click.option(
    "--key",
    "key_path",
    metavar="FILE",
    required=True,
    help="The file of the secret key; made, with mode 600, if needed.",
)
@_signer_option
@click.option(
    "--keep-at-least",
    "keep_seconds",
    callback=seconds_from,
    metavar="TIME",
    help="Retention may not remove records that were sealed less than this long ago: 400d.",
)
def init(directory: str, name: str, key_path: str, signer: str | None, keep_seconds: float | None) -> None:
    """Make a key, and begin to seal the log in DIR, from its first record on.

    Prints the public key, which verifies the log. Keep it where no writer of the log can change it. The name must be
    one that no other log has. Warns if the user of the log's writers may write to the folder seal, or may read or write
    the key. If the file of the secret key exists, its key is used.
    """
    with opening():
        need_log(directory)
        key = new_key_at(key_path, name) if signer is None else _command_key(key_path, signer)
        if key.verifier.name != name:
            raise ValueError(f"{key_path} is the key of {key.verifier.name}")
        begin_seal(directory, key, keep_seconds=keep_seconds or 0)
        warnings = separation_warnings(directory, key_path if signer is None else None)
    for each in warnings:
        print_error(f"warning: {each}; a user of its own for the sealer prevents that")
    write_line(printable(str(key.verifier)))


def new_key_at(key_path: str, name: str) -> SigningKey:
    """Return the key in a file, or make one there."""
    if os.path.exists(key_path):
        return SigningKey.load(key_path)
    key = SigningKey.generate(name)
    key.save(key_path)
    return key


@click.command("once", short_help="Seal all durable records, and end.")
@directory_argument
@key_options
@anchor_option
@witness_key_option
def once(directory: str, key: Signer, anchors: tuple[str, ...], witness_keys: tuple[str, ...]) -> ExitCode:
    """Seal all durable records of the log in DIR, and print the checkpoint.

    Exits with 1 if the log differs from its seal (records are missing or changed), or if an anchor cannot be reached.
    Ends with 4 if another sealer runs.
    """
    with _sealer(directory, key, anchors, witness_keys) as sealer:
        note = sealer.seal()
        errors = [str(error) for error in sealer.anchor().values() if error is not None]
    for error in errors:
        print_error(error)
    write(str(note).encode())
    return ExitCode.FAILED if errors else ExitCode.OK


def read_anchors(anchors: tuple[str, ...], witness_keys: tuple[str, ...]) -> list[Anchor]:
    """Return the anchors that options name.  Raises: ValueError; SealError."""
    keys = tuple(parse_verifier_key(text) for text in witness_keys)
    return [parse_anchor(text, keys) for text in anchors]


def _sealer(directory: str, key: Signer, anchors: tuple[str, ...], witness_keys: tuple[str, ...]) -> Sealer:
    with opening():
        need_log(directory)
        places = read_anchors(anchors, witness_keys)
    return Sealer(directory, key, anchors=places)


@click.command("run", short_help="Seal durable records every second, until it is stopped.")
@directory_argument
@key_options
@click.option(
    "--every", callback=seconds_from, default="1s", show_default=True, metavar="TIME", help="How often to sign."
)
@anchor_option
@witness_key_option
@click.option(
    "--scrub",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="The share of a core for comparing old records again and again; 0 for none.",
)
def run(
    directory: str,
    key: Signer,
    every: float,
    anchors: tuple[str, ...],
    witness_keys: tuple[str, ...],
    scrub: float,
) -> None:
    """Seal the durable records of the log in DIR every second, until Ctrl-C or SIGTERM.

    Exits with 1 if the log differs from its seal, or from a checkpoint that an anchor has: records are missing or
    changed. Ends with 4 if another sealer runs. If there is no space, a permission is missing, or an anchor cannot be
    reached, the sealer says so and tries again. Writers never wait for the sealer.
    """
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    with _sealer(directory, key, anchors, witness_keys) as sealer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        sealer.run(stop, every, print_error, scrub=scrub / 100)


@click.command("status", short_help="Show how far the seal has come.")
@directory_argument
@json_option("Print a JSON object: origin, size, next_ref, unsealed_bytes, signed_ns, anchors.")
def status(directory: str, as_json: bool) -> None:
    """Show up to which record the log in DIR is sealed, as its seal says. Only 'verify' reads the records."""
    with opening():
        need_log(directory)
        stat = stat_seal(directory)
    if as_json:
        values = {"origin": stat.origin, "size": stat.size, "next_ref": str(stat.next_ref)}
        anchors = [{"name": name, **anchored._asdict()} for name, anchored in stat.anchored.items()]
        counts = {"unsealed_bytes": stat.unsealed_bytes, "signed_ns": stat.signed_ns}
        write_line(object_line({**values, **counts, "anchors": anchors}))
        return
    signed = "never" if stat.signed_ns is None else f"{duration_text(time.time() - stat.signed_ns / 1e9)} ago"
    write_line(printable(f"origin    {stat.origin}"))
    write_line(f"sealed    {things_text(stat.size, 'record')}, up to {stat.next_ref}")
    write_line(f"signed    {signed}")
    write_line(f"unsealed  {size_text(stat.unsealed_bytes)}")
    for name, anchored in stat.anchored.items():
        ago = duration_text(time.time() - anchored.seconds)
        write_line(printable(f"anchor    {name}: {things_text(anchored.size, 'record')}, {ago} ago"))


COMMANDS = (init, run, once, status)
