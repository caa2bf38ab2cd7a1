"""The columns, without Spark: any object with its attributes serves as a StructType."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from binlog.spark.schema import DAMAGE, MESSAGE_COLUMNS, Field, chosen_fields, columns, ddl


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


def test_the_columns_of_messages_are_before_the_data() -> None:
    offered = columns(several=True, permissive=True, messages=True)
    names = [column.name for column in offered]
    assert names[:5] == ["source", "number", "offset", "sequence", "time"]
    assert names[5:-2] == [column.name for column in MESSAGE_COLUMNS]
    assert names[-2:] == ["data", "damage"]
    every = struct(*((column.name, column.spark_type, True) for column in offered))
    chosen = chosen_fields(every, several=True, permissive=True, messages=True)
    assert [field.column for field in chosen] == names
    parsed = columns(several=False, permissive=False, parsed_fields="a INT", messages=True)
    assert [column.name for column in parsed][-4:] == ["producer_sequence", "parsed", "bad", "error"]


def test_the_columns_of_messages_need_the_option() -> None:
    asked = struct(("KEY", "binary", True), ("headers", "map<string,binary>", True))
    assert [field[:3] for field in chosen_fields(asked, messages=True)] == [
        ("key", "KEY", True),
        ("headers", "headers", True),
    ]
    with pytest.raises(ValueError, match="unknown column 'KEY'; the columns are source string, number bigint"):
        chosen_fields(asked)
    with pytest.raises(ValueError, match="'key' cannot be NOT NULL"):
        chosen_fields(struct(("key", "binary", False)), messages=True)
