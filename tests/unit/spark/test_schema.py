"""The columns, without Spark: any object with its attributes serves as a StructType."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from binlog.spark.schema import DAMAGE, Field, chosen_fields, columns, ddl


def struct(*fields: tuple[str, str, bool]) -> SimpleNamespace:
    return SimpleNamespace(
        fields=[
            SimpleNamespace(name=name, nullable=nullable, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
            for name, kind, nullable in fields
        ]
    )


@pytest.mark.parametrize(
    ("several", "permissive", "expected"),
    [
        (False, False, "number bigint, offset bigint, sequence bigint, time timestamp, data binary"),
        (True, False, "source string, number bigint, offset bigint, sequence bigint, time timestamp, data binary"),
        (
            False,
            True,
            f"number bigint, offset bigint, sequence bigint, time timestamp, data binary, damage {DAMAGE.spark_type}",
        ),
    ],
)
def test_all_columns(several: bool, permissive: bool, expected: str) -> None:
    offered = columns(several=several, permissive=permissive)
    assert ddl(offered) == expected
    every = struct(*((column.name, column.spark_type, True) for column in offered))
    chosen = chosen_fields(every, several=several, permissive=permissive)
    assert [field.column for field in chosen] == [column.name for column in offered]


def test_the_source_of_one_log_is_optional() -> None:
    assert chosen_fields(struct(("source", "string", False))) == (Field("source", "source", False),)


def test_permissive_mode_needs_the_damage_column() -> None:
    with pytest.raises(ValueError, match="mode=PERMISSIVE the schema must have a column damage"):
        chosen_fields(struct(("data", "binary", True)), permissive=True)
    damage = ("damage", "struct<end:bigint,reason:string>", True)
    with pytest.raises(ValueError, match="'data' cannot be NOT NULL"):
        chosen_fields(struct(("data", "binary", False), damage), permissive=True)


def test_columns_in_another_order_and_case() -> None:
    chosen = chosen_fields(struct(("DATA", "binary", False), ("Number", "bigint", True)))
    assert chosen == (Field("data", "DATA", False), Field("number", "Number", True))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (("value", "binary", True), "unknown column 'value'"),
        (("data", "string", True), "column 'data' is binary, not string"),
        (("number", "int", True), "column 'number' is bigint, not int"),
        (("sequence", "bigint", False), "'sequence' cannot be NOT NULL"),
    ],
)
def test_unknown_columns_are_refused(field: tuple[str, str, bool], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        chosen_fields(struct(("offset", "bigint", True), field))


def test_no_columns_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="no columns"):
        chosen_fields(struct())
