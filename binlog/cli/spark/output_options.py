"""Options of the commands that write records, and what they come to together."""

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
    """--to, --out and how records become columns; `OutputOptions(**...)` takes them together."""
    options = (
        click.option(
            "--to",
            "form",
            type=click.Choice(_FORMATS),
            default="parquet",
            show_default=True,
            help="The format; 'binlog' is another log. In JSON and CSV the record is 'text', or 'base64' where it is "
            "not UTF-8.",
        ),
        click.option(
            "--out",
            "out",
            required=True,
            type=path_type(),
            metavar="OUT",
            help="The folder to write to: of this machine, or a URI that Spark knows.",
        ),
        click.option(
            "--compression",
            metavar="CODEC",
            help="As Spark names it. [default: zstd for Parquet and ORC, none for JSON and CSV]",
        ),
        click.option(
            "--columns",
            callback=columns_from,
            metavar="NAMES",
            help="Some of source,number,offset,sequence,time,data. Fewer are faster.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Take each record for a JSON object; write its fields."),
        click.option(
            "--parser",
            callback=parser_from,
            metavar="MODULE:FUNCTION",
            help="Write what a function of yours makes of the records, a pyarrow array at a time. The module is found "
            "as others are, or in the current directory.",
        ),
        click.option(
            "--schema",
            metavar="DDL",
            help="The fields, with --json or --parser: 'id BIGINT, name STRING'. Without it, JSON is looked at for "
            "them, and a function has an attribute 'schema'.",
        ),
        click.option(
            "--infer-from",
            "infer_from",
            default="10000",
            show_default=True,
            callback=records_from,
            metavar="N|all",
            help="How many of the first records are looked at for the fields of JSON.",
        ),
        click.option(
            "--bad-column",
            default="bad",
            show_default=True,
            metavar="NAME",
            help="The column that has a record as it is, where it cannot be parsed.",
        ),
        click.option(
            "--bad",
            "bad",
            type=path_type(),
            metavar="OUT",
            help="Write records that cannot be parsed to a folder of their own in place of a column, with what is "
            "wrong with each.",
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
        help="What a stream reads at a time, about.",
    )(command)


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What was given, by the names of the options."""

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
        """Raise click.UsageError for what does not go together."""
        parsing = self.as_json or self.parser is not None
        if self.as_json and self.parser is not None:
            raise click.UsageError("--json and --parser exclude each other")
        if parsing and self.columns is not None:
            raise click.UsageError("--columns goes with whole records, not with --json and --parser")
        if parsing and self.form == "binlog":
            raise click.UsageError("--to binlog goes with whole records, not with --json and --parser")
        if self.columns is not None and self.form == "binlog":
            raise click.UsageError("--to binlog has no columns")
        if not parsing and (self.schema is not None or self.bad is not None):
            raise click.UsageError("--schema and --bad go with --json or --parser")

    @property
    def finds_schema(self) -> bool:
        """Whether the fields are looked for, and so to be told."""
        return self.as_json and self.schema is None

    def output(self, mode: str = "append") -> Output:
        """Where the records go."""
        from binlog.spark.jobs import Format, Output, SaveMode

        return Output(path=self.out, format=Format(self.form), mode=SaveMode(mode), compression=self.compression)

    def bad_output(self, mode: str = "append") -> Output | None:
        """Where the bad ones go, if not beside the others."""
        from binlog.spark.jobs import Format, Output, SaveMode

        if self.bad is None:
            return None
        return Output(path=self.bad, format=Format(self.form), mode=SaveMode(mode), compression=self.compression)

    def folders(self) -> tuple[str, ...]:
        """Where tasks look for the parser too."""
        return () if self.parser is None else (os.getcwd(),)

    def parsing(self, spark: Any, chosen: Chosen, report: Report, keep: str | None = None) -> Parsing | None:
        """How records become columns; the schema of JSON is looked for where it is not given.

        keep: a folder that keeps the schema that was found for the next time.
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
