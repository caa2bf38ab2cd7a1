"""`binlog seal verify`, `prove` and `check-proof`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

import binlog
from binlog.cli.amounts import things_text, time_text
from binlog.cli.exits import CommandError, ExitCode, opening, print_error
from binlog.cli.options import directory_argument, json_option, need_log, read_key, ref_from, seconds_from
from binlog.cli.output import printable, write, write_line
from binlog.cli.records import object_line
from binlog.errors import AccessError, SealError
from binlog.seal import Kind, Report, check_proof, export_tiles, prove, verify

# No note, proof, policy or key is as large.
_TEXT_BYTES_MAX = 1 << 20

_vkey_option = click.option(
    "--vkey", metavar="KEY", help="The public key, or the path of a file with it; take it from outside DIR."
)


@click.command("verify", short_help="Compare all records with the seal.")
@directory_argument
@_vkey_option
@click.option(
    "--checkpoint",
    "checkpoints",
    metavar="FILE",
    multiple=True,
    help="A checkpoint from elsewhere, or the file of a dir: anchor; may be repeated.",
)
@click.option("--policy", "policy_path", metavar="FILE", help="The log and witnesses to trust, in place of --vkey.")
@click.option(
    "--max-age",
    callback=seconds_from,
    metavar="TIME",
    help="The limit for the age of the newest checkpoint, and of records that are not sealed: 1h.",
)
@click.option(
    "--new",
    "progress",
    metavar="FILE",
    help="Compare only records that were added since the last run with this file. Keep it outside DIR. It is written "
    "if there is no finding.",
)
@json_option("Print a JSON object: origin, size, verified, unsealed, statements and findings.")
def verify_command(
    directory: str,
    vkey: str | None,
    checkpoints: tuple[str, ...],
    policy_path: str | None,
    max_age: float | None,
    progress: str | None,
    as_json: bool,
) -> ExitCode:
    """Compare all records of the log in DIR with its seal, and print a line for each difference.

    Exits with 1 if there are any. Without a checkpoint from elsewhere, a log whose whole directory was put back from an
    older copy shows no difference. Other processes may append and seal meanwhile.
    """
    with opening():
        _need_one(vkey, policy_path)
        report = verify(
            directory,
            None if vkey is None else read_key(vkey),
            policy=None if policy_path is None else _read(policy_path, _TEXT_BYTES_MAX),
            checkpoints=[_read_end(path) for path in checkpoints],
            max_age=max_age,
            progress=progress,
        )
    _print(report, as_json=as_json)
    return ExitCode.FAILED if report.findings else ExitCode.OK


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        findings = [
            {
                "rule": str(each.rule),
                "ref": None if each.ref is None else str(each.ref),
                "leaf": each.leaf,
                "text": each.text,
            }
            for each in report.findings
        ]
        counts = {"size": report.size, "verified": report.verified, "unsealed": report.unsealed}
        told = [{"number": each.number, "kind": str(each.kind), **each.values} for each in report.statements]
        write_line(object_line({"origin": report.origin, **counts, "statements": told, "findings": findings}))
        return
    for statement in report.statements:
        if statement.kind not in (Kind.START, Kind.STOP):
            write_line(printable(f"stated: {time_text(statement.seconds * 10**9)} {statement}"))
    for each in report.findings:
        write_line(printable(str(each)))
    text = f"{things_text(report.verified, 'record')} of {report.size} compared, {report.unsealed} not sealed yet"
    write_line(f"{text}; {things_text(len(report.findings), 'finding')}")


@click.command("prove", short_help="Print the proof that a record is in the log.")
@directory_argument
@click.argument("ref", metavar="REF", callback=ref_from)
@click.option("--cosigned", is_flag=True, help="Use the latest checkpoint that witnesses have signed too.")
def prove_command(directory: str, ref: binlog.Ref, cosigned: bool) -> None:
    """Print the proof that the record at REF is in the sealed log in DIR.

    Save it in a file whose name ends with .tlog-proof.

    With the proof, the record and the public key, anyone can check it without the log.
    """
    with opening():
        need_log(directory)
        proof = prove(directory, ref, cosigned=cosigned)
    write(str(proof).encode())


@click.command("export", short_help="Write the tree as static files for others' clients.")
@directory_argument
@click.argument("target", metavar="OUT")
@click.option("--no-entries", is_flag=True, help="Write only the hashes, and not the records.")
def export_command(directory: str, target: str, no_entries: bool) -> ExitCode:
    """Write the tree of the sealed log in DIR to the directory OUT, as the static files of C2SP tlog-tiles.

    A web server can serve them, and clients of transparency logs read them. A later export only adds new files. Exits
    with 1 if a record is larger than 65,535 bytes: the format has no place for it, so the whole file of 256 records
    that would contain it is left out.
    """
    with opening():
        need_log(directory)
        done = export_tiles(directory, target, entries=not no_entries)
    for ref in done.too_large:
        print_error(f"{ref}: larger than 65,535 bytes")
    write_line(f"wrote {things_text(done.files, 'file')} for a checkpoint of {things_text(done.size, 'record')}")
    return ExitCode.FAILED if done.too_large else ExitCode.OK


@click.command("check-proof", short_help="Check a proof, without the log.")
@click.argument("proof", metavar="PROOF")
@click.option("--record", metavar="FILE", required=True, help="The bytes of the record; - for standard input.")
@_vkey_option
@click.option("--policy", "policy_path", metavar="FILE", help="Logs and witnesses to trust, in place of --vkey.")
def check_proof_command(proof: str, record: str, vkey: str | None, policy_path: str | None) -> None:
    """Check that the file PROOF shows that a record is in a log. Exits with 1 if it does not."""
    with opening():
        _need_one(vkey, policy_path)
        policy = None if policy_path is None else _read(policy_path, _TEXT_BYTES_MAX)
        key = None if vkey is None else read_key(vkey)
        data = sys.stdin.buffer.read() if record == "-" else _read(record, None)
        text = _read(proof, _TEXT_BYTES_MAX)
    try:
        head = check_proof(text, data, vkey=key, policy=policy)
    except SealError as error:
        raise CommandError(str(error), ExitCode.FAILED) from error
    write_line(
        printable(f"the record is in {head.origin}, according to a checkpoint of {things_text(head.size, 'record')}")
    )


def _need_one(vkey: str | None, policy_path: str | None) -> None:
    if vkey is None and policy_path is None:
        raise ValueError("--vkey is needed: the public key that 'binlog seal init' has printed")
    if vkey is not None and policy_path is not None:
        raise ValueError("--vkey and --policy cannot be used together")


def _read(path: str, bytes_max: int | None) -> bytes:
    """Return a file's bytes, or one more than the limit.  Raises: AccessError."""
    try:
        with Path(path).open("rb") as file:
            return file.read() if bytes_max is None else file.read(bytes_max + 1)
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error


def _read_end(path: str) -> bytes:
    """Return the last bytes of a file, to which an anchor may have appended for years.  Raises: AccessError."""
    try:
        with Path(path).open("rb") as file:
            if file.seekable():
                file.seek(max(file.seek(0, os.SEEK_END) - _TEXT_BYTES_MAX, 0))
            return file.read(_TEXT_BYTES_MAX)
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error


COMMANDS = (verify_command, prove_command, check_proof_command, export_command)
