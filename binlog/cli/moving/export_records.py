"""`binlog export`: write records to a file of another format."""

from __future__ import annotations

import click

import binlog
from binlog.cli.amounts import size_text, things_text
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directory_argument, json_option, need_log, parse_since, path_type, ref_from
from binlog.cli.output import write_line
from binlog.cli.records import object_line
from binlog.errors import CorruptError
from binlog.moving import ExportForm, export_records


@click.command("export", short_help="Write records to a JSON, CSV, SQLite or Parquet file.")
@directory_argument
@click.argument("file", type=path_type())
@click.option("--to", "form", type=click.Choice([form.value for form in ExportForm]), required=True, help="The format.")
@click.option("--from", "start", callback=ref_from, metavar="REF", help="Start with the record that has this ref.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only records appended at this time or later: 2025-01-31T12:00:00Z (UTC if it has no offset), or 5m, 2h or "
    "1d for that long ago.",
)
@click.option("--until", metavar="TIME", help="Only records appended before this time.")
@json_option("Print one JSON object: record_count, first, last, file_bytes.")
def command(
    directory: str,
    file: str,
    form: str,
    start: binlog.Ref | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Write the records of the log in DIR to FILE.

    Each record has the columns number, offset, sequence and appended (the time at which it was appended), and its
    bytes. JSON lines and CSV have them in 'text', or in 'base64' if they are not UTF-8; SQLite, in the table 'records',
    and Parquet, which needs PyArrow, have them in 'data'. A record that is a JSON object also has the columns of an
    event: time, severity, level, logger, body, event, attributes, trace_id, span_id.

    The records are written to '.FILE.partial'. When that file is complete, it is synced and renamed to FILE, and
    replaces an earlier FILE. If an export is killed, the next one overwrites '.FILE.partial'. Writers may append
    meanwhile; their records are not exported. If a record is damaged, nothing is exported, and the command exits with
    1.
    """
    if file == "-":
        raise click.UsageError(
            "an export is a file, which gets its name when it is complete; 'binlog cat --json' and 'binlog cat -o csv' "
            "print records"
        )
    if start is not None and since is not None:
        raise click.UsageError("--from and --since cannot be used together")
    limits = {"--since": since, "--until": until}
    times: dict[str, binlog.Since | None] = {}
    for name, text in limits.items():
        try:
            times[name] = None if text is None else parse_since(text)
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}") from error
    with opening():
        need_log(directory)
        binlog.stat(directory)  # so that a log that cannot be opened has another exit code than a damaged record
        try:
            done = export_records(directory, file, form, start=start, since=times["--since"], until=times["--until"])
        except CorruptError as error:
            raise CommandError(str(error), ExitCode.FAILED) from error
        except ImportError as error:
            raise CommandError(f"--to {form} needs the package {error.name}", ExitCode.USAGE) from error
    if as_json:
        first, last = (None if ref is None else str(ref) for ref in (done.first, done.last))
        counts = {"record_count": done.record_count, "first": first, "last": last}
        write_line(object_line({**counts, "file_bytes": done.file_bytes}))
        return
    refs = "" if done.first is None else f", {done.first} to {done.last}"
    write_line(f"exported {things_text(done.record_count, 'record')}{refs}, to {size_text(done.file_bytes)}")
