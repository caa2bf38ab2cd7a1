"""Options of the commands that write records, and the outputs that they describe."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from binlog.cli.options import byte_count_from, path_type
from binlog.cli.spark.options import columns_from, parser_from, records_from

if TYPE_CHECKING:
    from binlog.spark.jobs import Chosen, Output, Parsing, Report

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FORMATS = ("parquet", "orc", "json", "csv", "binlog")
_SCHEMA_FILE = "schema.ddl"


def output_options(command: _Command) -> _Command:
    """Add --to, --out and the options that make columns from records; `OutputOptions` takes their values."""
    options = (
        click.option(
            "--to",
            "form",
            type=click.Choice(_FORMATS),
            default="parquet",
            show_default=True,
            help="The format; 'binlog' is another log. In JSON and CSV a record is in 'text', or in 'base64' if it is "
            "not UTF-8.",
        ),
        click.option(
            "--out",
            "out",
            required=True,
            type=path_type(),
            metavar="OUT",
            help="The folder to write to: a local path, or a URI that Spark supports.",
        ),
        click.option(
            "--compression",
            metavar="CODEC",
            help="A codec that Spark supports. [default: zstd for Parquet and ORC, none for JSON and CSV]",
        ),
        click.option(
            "--columns",
            callback=columns_from,
            metavar="NAMES",
            help="A subset of source,number,offset,sequence,time,data. Fewer columns are faster.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Parse each record as a JSON object; write its fields."),
        click.option(
            "--parser",
            callback=parser_from,
            metavar="MODULE:FUNCTION",
            help="Write the columns that your function makes from a pyarrow array of records. The module is searched "
            "for in the current directory too.",
        ),
        click.option(
            "--schema",
            metavar="DDL",
            help="The fields, with --json or --parser: 'id BIGINT, name STRING'. Without it, they are inferred from "
            "the JSON records, or taken from the function's attribute 'schema'.",
        ),
        click.option(
            "--infer-from",
            "infer_from",
            default="10000",
            show_default=True,
            callback=records_from,
            metavar="N|all",
            help="How many records to infer the fields of JSON from, starting with the first.",
        ),
        click.option(
            "--bad-column",
            default="bad",
            show_default=True,
            metavar="NAME",
            help="The column for records that cannot be parsed.",
        ),
        click.option(
            "--bad",
            "bad",
            type=path_type(),
            metavar="OUT",
            help="Write records that cannot be parsed to this folder instead of a column, each with the reason.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def batch_bytes_option(command: _Command) -> _Command:
    """--batch-bytes."""
    return click.option(
        "--batch-bytes",
        default="8G",
        show_default=True,
        callback=byte_count_from,
        metavar="BYTES",
        help="The most that one batch of a stream reads, approximately.",
    )(command)


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The values of the output options, by their names."""

    form: str
    out: str
    compression: str | None
    columns: tuple[str, ...] | None
    as_json: bool
    parser: str | None
    schema: str | None
    infer_from: int | None
    bad_column: str
    bad: str | None

    def check(self) -> None:
        """Raise click.UsageError for options that cannot be used together."""
        parsing = self.as_json or self.parser is not None
        if self.as_json and self.parser is not None:
            raise click.UsageError("--json and --parser cannot be used together")
        if parsing and self.columns is not None:
            raise click.UsageError("--columns cannot be used with --json or --parser")
        if parsing and self.form == "binlog":
            raise click.UsageError("--to binlog cannot be used with --json or --parser")
        if self.columns is not None and self.form == "binlog":
            raise click.UsageError("--columns cannot be used with --to binlog")
        if not parsing and (self.schema is not None or self.bad is not None):
            raise click.UsageError("--schema and --bad need --json or --parser")

    @property
    def finds_schema(self) -> bool:
        """Whether the fields are inferred, and so must be printed."""
        return self.as_json and self.schema is None

    def output(self, mode: str = "append") -> Output:
        """Return the output for the records."""
        from binlog.spark.jobs import Format, Output, SaveMode

        return Output(path=self.out, format=Format(self.form), mode=SaveMode(mode), compression=self.compression)

    def bad_output(self, mode: str = "append") -> Output | None:
        """Return the output for bad records, or None if they go into a column."""
        from binlog.spark.jobs import Format, Output, SaveMode

        if self.bad is None:
            return None
        return Output(path=self.bad, format=Format(self.form), mode=SaveMode(mode), compression=self.compression)

    def folders(self) -> tuple[str, ...]:
        """Return the folders in which tasks also search for the parser."""
        return () if self.parser is None else (os.getcwd(),)

    def parsing(self, spark: Any, chosen: Chosen, report: Report, keep: str | None = None) -> Parsing | None:
        """Return the parser to use; if JSON has no schema, infer it.

        keep: a folder that stores the inferred schema for the next run.
        """
        from binlog.spark.jobs import Json, Output, Parser, infer_schema

        if self.parser is not None:
            return Parser(self.parser, self.schema)
        if not self.as_json:
            return None
        folder = None if keep is None else Output(path=keep).local()
        kept = None if folder is None else folder / _SCHEMA_FILE
        if self.schema is None and kept is not None and kept.exists():
            return Json(kept.read_text().strip())
        schema = self.schema or infer_schema(spark, chosen, self.infer_from, report=report)
        if self.schema is None and kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(f"{schema}\n")
        return Json(schema)
