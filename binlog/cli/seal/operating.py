"""`binlog seal prune`, `hold`, `release`, `accept-loss`, `end`, `branch` and `statements`."""

from __future__ import annotations

import click

import binlog
from binlog.cli.amounts import things_text, time_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option, need_log, read_key, ref_from, retention_options
from binlog.cli.output import printable, write, write_line
from binlog.cli.records import object_line
from binlog.cli.seal.sealing import anchor_option, key_options, new_key_at, read_anchors, witness_key_option
from binlog.seal import Sealer, Signer, Statement, branch, end_log, hold, prune, read_statements, release

_why_option = click.option("--why", default="", metavar="TEXT", help="The reason; it is written in the statement.")


@click.command("prune", short_help="State that the oldest closed files may go, and remove them.")
@directory_argument
@key_options
@retention_options
@click.option("--only-allow", is_flag=True, help="Leave the removal to a later 'binlog prune'.")
@_why_option
def prune_command(
    directory: str,
    key: Signer,
    keep_bytes: int | None,
    keep_age: float | None,
    before: binlog.Ref | None,
    only_allow: bool,
    why: str,
) -> None:
    """Allow, in a signed statement, the removal of closed files of the sealed log in DIR; remove them, oldest first.

    The statement is durable before a file is removed. Without it, 'binlog prune' removes a file of a sealed log only
    with --ignore-seal. Ends with 1 and removes nothing if a record is under a hold, or younger than 'seal init
    --keep-at-least' demands.
    """
    if keep_bytes is None and keep_age is None and before is None:
        raise click.UsageError("give at least one of --keep-bytes, --keep-age and --before")
    with opening():
        need_log(directory)
    done = prune(
        directory,
        key,
        keep_bytes=keep_bytes,
        keep_seconds=keep_age,
        before=before,
        why=why,
        remove=not only_allow,
    )
    if done.statement is not None:
        write_line(printable(_text(done.statement)))
    write_line(f"removed {things_text(len(done.pruned), 'file')}")


@click.command("hold", short_help="Forbid the removal of records.")
@directory_argument
@click.argument("name", metavar="NAME")
@key_options
@click.option(
    "--from", "ref", callback=ref_from, metavar="REF", help="The first record to keep; by default the oldest."
)
@_why_option
def hold_command(directory: str, name: str, key: Signer, ref: binlog.Ref | None, why: str) -> None:
    """Forbid retention to remove a record of the sealed log in DIR, or any later one, until NAME is released."""
    with opening():
        need_log(directory)
        statement = hold(directory, key, name, ref, why=why)
    write_line(printable(_text(statement)))


@click.command("release", short_help="End a hold.")
@directory_argument
@click.argument("name", metavar="NAME")
@key_options
@_why_option
def release_command(directory: str, name: str, key: Signer, why: str) -> None:
    """End the hold NAME of the sealed log in DIR."""
    with opening():
        need_log(directory)
        statement = release(directory, key, name, why=why)
    write_line(printable(_text(statement)))


@click.command("accept-loss", short_help="State that records are lost, and continue to seal.")
@directory_argument
@key_options
@anchor_option
@witness_key_option
@click.option("--why", required=True, metavar="TEXT", help="The reason; it is written in the statement.")
def accept_loss_command(
    directory: str, key: Signer, anchors: tuple[str, ...], witness_keys: tuple[str, ...], why: str
) -> None:
    """State that records of the sealed log in DIR are lost, or that 'binlog repair' has put fillers in their place.

    Find the cause first, because a person who cuts the log causes the same difference. 'verify' then shows the
    statement in place of a finding. Exits with 1 if records were changed rather than lost.
    """
    with opening():
        need_log(directory)
        places = read_anchors(anchors, witness_keys)
    with Sealer(directory, key, anchors=places, accept_loss=why) as sealer:
        note = sealer.seal()
        sealer.anchor()
    write(str(note).encode())


@click.command("end", short_help="State that no record will be added.")
@directory_argument
@key_options
@anchor_option
@witness_key_option
@_why_option
def end_command(directory: str, key: Signer, anchors: tuple[str, ...], witness_keys: tuple[str, ...], why: str) -> None:
    """Seal the log in DIR for the last time, and print the checkpoint. A record added later is a finding of 'verify'.

    No sealer may run, and none can be started later.
    """
    with opening():
        need_log(directory)
        places = read_anchors(anchors, witness_keys)
    write(str(end_log(directory, key, why=why, anchors=places)).encode())


@click.command("branch", short_help="Make a copy of a sealed log a log of its own.")
@directory_argument
@key_options
@click.option("--name", required=True, help="Names the copy in checkpoints, for example example.org/audit2.")
@click.option("--new-key", "new_key_path", metavar="FILE", required=True, help="The new secret key's file; mode 600.")
def branch_command(directory: str, key: Signer, name: str, new_key_path: str) -> None:
    """Begin another seal for the log in DIR, which is a copy of a sealed log, and print its public key.

    Without that, both copies have the same name and different records, and witnesses refuse one of them. No sealer may
    run. The first statement of the new seal contains the last checkpoint of the old one.
    """
    with opening():
        need_log(directory)
        new_key = new_key_at(new_key_path, name)
        if new_key.verifier.name != name:
            raise ValueError(f"{new_key_path} is the key of {new_key.verifier.name}")
    branch(directory, key, new_key)
    write_line(printable(str(new_key.verifier)))


@click.command("statements", short_help="Show the statements about the log.")
@directory_argument
@click.option("--vkey", metavar="KEY", required=True, help="The public key, or the path of a file with it.")
@json_option("Print a JSON object for each statement: number, time, size, kind and its values.")
def statements_command(directory: str, vkey: str, as_json: bool) -> None:
    """Show the signed statements about the sealed log in DIR: starts and stops, gaps, retention, losses."""
    with opening():
        need_log(directory)
        found = read_statements(directory, read_key(vkey))
    for statement in found:
        if as_json:
            values = {"number": statement.number, "time": time_text(statement.seconds * 10**9), "size": statement.size}
            write_line(object_line({**values, "kind": str(statement.kind), **statement.values}))
        else:
            write_line(printable(_text(statement)))


def _text(statement: Statement) -> str:
    return f"{time_text(statement.seconds * 10**9)} {statement}"


COMMANDS = (
    prune_command,
    hold_command,
    release_command,
    accept_loss_command,
    end_command,
    branch_command,
    statements_command,
)
