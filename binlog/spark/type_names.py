"""Types as Spark's SQL writes them, with names quoted, as `simpleString()` does not."""

from __future__ import annotations

from typing import Any


def fields_ddl(struct: Any) -> str:
    """The fields of a StructType: `id`: bigint, `name`: string."""
    return ", ".join(f"{_quoted(field.name)}: {type_ddl(field.dataType)}" for field in struct.fields)


def type_ddl(kind: Any) -> str:
    """A type.  That of what is null wherever it was looked at is a string."""
    name = kind.typeName()
    if name == "struct":
        return f"struct<{fields_ddl(kind)}>"
    if name == "array":
        return f"array<{type_ddl(kind.elementType)}>"
    if name == "map":
        return f"map<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
    return "string" if name == "void" else str(kind.simpleString())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
