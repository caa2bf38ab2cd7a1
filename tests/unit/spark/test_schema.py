"""The columns, without Spark: a StructType is anything with its attributes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from binlog.spark.schema import COLUMNS, DDL, Field, chosen_fields


def struct(*fields: tuple[str, str, bool]) -> SimpleNamespace:
    return SimpleNamespace(
        fields=[
            SimpleNamespace(name=name, nullable=nullable, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
            for name, kind, nullable in fields
        ]
    )


def test_all_columns() -> None:
    assert DDL == "number bigint, offset bigint, sequence bigint, data binary"
    every = struct(*((column.name, column.spark_type, True) for column in COLUMNS))
    assert [field.column for field in chosen_fields(every)] == ["number", "offset", "sequence", "data"]


def test_some_in_another_order_and_spelling() -> None:
    chosen = chosen_fields(struct(("DATA", "binary", False), ("Number", "bigint", True)))
    assert chosen == (Field("data", "DATA", False), Field("number", "Number", True))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (("value", "binary", True), "there is no column 'value'"),
        (("data", "string", True), "'data' is of type binary, not string"),
        (("number", "int", True), "'number' is of type bigint, not int"),
        (("sequence", "bigint", False), "'sequence' cannot be NOT NULL"),
    ],
)
def test_what_cannot_be_given_is_refused(field: tuple[str, str, bool], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        chosen_fields(struct(("offset", "bigint", True), field))


def test_no_columns_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="no columns"):
        chosen_fields(struct())
