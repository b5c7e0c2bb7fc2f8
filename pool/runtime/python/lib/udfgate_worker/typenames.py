"""Names of column types, as written in input_types and result_type: SQL, Arrow, pyarrow objects."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import TYPES
from udfgate_worker.library import near

# SQL names are case-insensitive. INT8 is the clash: PostgreSQL, RisingWave and DuckDB mean 8 bytes by it, Arrow means
# 8 bits. Arrow's names are lower-case and nothing else, so exactly `int8` is Arrow's and `INT8` is SQL's, like its
# neighbours INT2 and INT4. `Int8` is one byte in ClickHouse and Polars: refused, since either reading would surprise.
_SQL = {
    "bool": "BOOL BOOLEAN LOGICAL",
    "int8": "TINYINT INT1",
    "int16": "SMALLINT INT2 INT16 SHORT",
    "int32": "INT INTEGER INT4 INT32 SIGNED",
    "int64": "BIGINT INT8 INT64 LONG",
    "uint8": "UTINYINT UINT8",
    "uint16": "USMALLINT UINT16",
    "uint32": "UINTEGER UINT UINT32",
    "uint64": "UBIGINT UINT64",
    "float32": "REAL FLOAT4 FLOAT32",
    "float64": "DOUBLE FLOAT8 FLOAT64",
    "utf8": "VARCHAR TEXT STRING CHAR CHARACTER NVARCHAR NCHAR BPCHAR UTF8",
    "binary": "BYTEA BINARY VARBINARY BLOB BYTES",
}
_NAMES = {sql: arrow for arrow, names in _SQL.items() for sql in names.split()}
_NAMES.update({
    "DOUBLE PRECISION": "float64",
    "CHARACTER VARYING": "utf8",
    "CHAR VARYING": "utf8",
    "BINARY VARYING": "binary",
    "BINARY LARGE OBJECT": "binary",
    "CHARACTER LARGE OBJECT": "utf8",
    "TINYINT UNSIGNED": "uint8",
    "SMALLINT UNSIGNED": "uint16",
    "INT UNSIGNED": "uint32",
    "INTEGER UNSIGNED": "uint32",
    "BIGINT UNSIGNED": "uint64",
})  # fmt: skip
_MORE = [
    "DATE",
    "TIME",
    "TIMESTAMP",
    "INTERVAL",
    "DECIMAL",
    "NUMERIC",
    "JSON",
    "UUID",
    "ARRAY",
    "LIST",
    "MAP",
    "STRUCT",
    "NULL",
]  # typeparser.py


class Unserved(Exception):
    """A type, hint or option with which the function cannot be served; the text says what is wrong with it."""


def column_type(given: object) -> tuple:
    """(type, nullable) of an entry of input_types. Nullable unless it ends in NOT NULL. Raises Unserved.

    A plain type (decode.TYPES) is its name, any other a kinds.Type.
    """
    if isinstance(given, str):
        return _from_name(given)
    if from_pyarrow(given):
        from udfgate_worker.typeparser import from_pyarrow as read

        return read(given), True
    raise Unserved(f"wanted a type name such as 'INT' or 'VARCHAR', got {type(given).__name__}")


def described(kind: object) -> "str | dict":
    """A type as LOADED has it."""
    return kind if type(kind) is str else kind.described()


def from_pyarrow(given: object) -> bool:
    """Whether something is an object of pyarrow's."""
    module = type(given).__module__
    return isinstance(module, str) and module.partition(".")[0] == "pyarrow"


def _from_name(given: str) -> tuple:
    words = given.split()
    nullable = True
    upper = [word.upper() for word in words]
    if upper[-2:] == ["NOT", "NULL"]:
        words, nullable = words[:-2], False
    elif len(words) > 1 and upper[-1] == "NULL":
        words = words[:-1]
    name = " ".join(words)
    if name in TYPES or name.upper() in _NAMES:
        return plain_name(name), nullable
    if not name:
        raise Unserved("no type is called nothing")
    from udfgate_worker.typeparser import parse

    return parse(name), nullable


def plain_name(name: str) -> str:
    """The plain type that a name means. Raises Unserved."""
    if name in TYPES:
        return name
    upper = name.upper()
    if upper == "FLOAT":
        raise Unserved("FLOAT is 4 bytes in some engines and 8 in others: write REAL or DOUBLE")
    if upper == "INT8" and name != "INT8":
        raise Unserved(f"{name} is 1 byte in some systems and 8 in others: write TINYINT or BIGINT")
    if upper in _NAMES:
        return _NAMES[upper]
    raise Unserved(f"no type is called {name}{near(upper, [*_NAMES, *_MORE])}")
