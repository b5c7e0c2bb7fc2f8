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

_NOT_YET = frozenset(
    [
        "DATE",
        "DATE32",
        "DATE64",
        "TIME",
        "TIME32",
        "TIME64",
        "TIMETZ",
        "TIMESTAMP",
        "TIMESTAMPTZ",
        "DATETIME",
        "DURATION",
        "INTERVAL",
        "DECIMAL",
        "NUMERIC",
        "DEC",
        "DECIMAL32",
        "DECIMAL64",
        "DECIMAL128",
        "DECIMAL256",
        "NUMBER",
        "MONEY",
        "HUGEINT",
        "UHUGEINT",
        "INT128",
        "UINT128",
        "FLOAT16",
        "HALF",
        "HALFFLOAT",
        "HALF_FLOAT",
        "JSON",
        "JSONB",
        "VARIANT",
        "UUID",
        "ARRAY",
        "LIST",
        "LARGE_LIST",
        "FIXED_SIZE_LIST",
        "MAP",
        "STRUCT",
        "ROW",
        "TUPLE",
        "UNION",
        "NULL",
        "ENUM",
        "LARGE_STRING",
        "LARGE_UTF8",
        "LARGE_BINARY",
        "STRING_VIEW",
        "UTF8_VIEW",
        "BINARY_VIEW",
        "FIXED_SIZE_BINARY",
        "DICTIONARY",
        "RUN_END_ENCODED",
        "MONTH_INTERVAL",
        "DAY_TIME_INTERVAL",
        "MONTH_DAY_NANO_INTERVAL",
        "EXTENSION",
        "GEOMETRY",
        "VECTOR",
        "BIT",
    ]
)


class Unserved(Exception):
    """A type, hint or option with which the function cannot be served; the text says what is wrong with it."""


def column_type(given: object) -> tuple:
    """(type, nullable) of an entry of input_types. Nullable unless it ends in NOT NULL. Raises Unserved."""
    if isinstance(given, str):
        return _from_name(given)
    module = type(given).__module__
    if isinstance(module, str) and module.partition(".")[0] == "pyarrow":
        return arrow_type(str(given)), True
    raise Unserved(f"wanted a type name such as 'INT' or 'VARCHAR', got {type(given).__name__}")


def arrow_type(name: str) -> str:
    """The type of pyarrow's own spelling of a type object. Raises Unserved."""
    name = {"float": "float32", "double": "float64", "string": "utf8"}.get(name, name)
    if name not in TYPES:
        raise Unserved(f"{name} is not supported yet")
    return name


def _from_name(given: str) -> tuple:
    words = given.split()
    nullable = True
    upper = [word.upper() for word in words]
    if upper[-2:] == ["NOT", "NULL"]:
        words, nullable = words[:-2], False
    elif len(words) > 1 and upper[-1] == "NULL":
        words = words[:-1]
    name = " ".join(words)
    if name in TYPES:
        return name, nullable
    upper_name = name.upper()
    if upper_name == "FLOAT":
        raise Unserved("FLOAT is 4 bytes in some engines and 8 in others: write REAL or DOUBLE")
    if upper_name == "INT8" and name != "INT8":
        raise Unserved(f"{name} is 1 byte in some systems and 8 in others: write TINYINT or BIGINT")
    if upper_name in _NAMES:
        return _NAMES[upper_name], nullable
    raise Unserved(_refusal(name, upper_name))


def _refusal(name: str, upper: str) -> str:
    base = upper.replace("<", "(").replace("[", "(").partition("(")[0].strip()
    if base in _NAMES and name.endswith("]"):
        return f"{name}: lists are not supported yet"
    if base in _NAMES:
        return f"{name}: a length or precision is not supported, write {name[: len(base)]}"
    if not_yet(base):
        return f"{name} is not supported yet"
    return f"no type is called {name or 'nothing'}{near(base, list(_NAMES))}"


def not_yet(upper: str) -> bool:
    """Whether a name in capitals means a type that is not built."""
    base = upper.replace("<", "(").partition("(")[0].strip()
    return base in _NOT_YET or base.partition(" ")[0] in _NOT_YET
