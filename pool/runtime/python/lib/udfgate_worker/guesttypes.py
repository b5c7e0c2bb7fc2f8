"""Files of arrow-udf and databend-udf: their own names of plain types, and what they ask for that is not built."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.library import near
from udfgate_worker.signature import Shape
from udfgate_worker.typenames import Unserved, from_pyarrow

_INTS = {
    "int8": "TINYINT INT8",
    "int16": "SMALLINT INT16",
    "int32": "INT INTEGER INT32",
    "int64": "BIGINT INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
}
_ARROW_UDF = {
    **_INTS,
    "bool": "BOOLEAN BOOL",
    "float32": "FLOAT32 REAL",
    "float64": "FLOAT64 DOUBLE",
    "utf8": "STRING VARCHAR",
    "binary": "BINARY BYTEA",
}
_DATABEND = {
    **_INTS,
    "bool": "BOOLEAN BOOL",
    "float32": "FLOAT FLOAT32",
    "float64": "FLOAT64 DOUBLE",
    "large_utf8": "STRING VARCHAR CHAR CHARACTER TEXT",
    "large_binary": "BINARY",
}
_TABLES = {
    source: {name: kind for kind, names in table.items() for name in names.split()}
    for source, table in (("arrow_udf", _ARROW_UDF), ("databend_udf", _DATABEND))
}
_TABLES["arrow_udf"]["DOUBLE PRECISION"] = "float64"
_TABLES["databend_udf"].update({
    "TINYINT UNSIGNED": "uint8",
    "SMALLINT UNSIGNED": "uint16",
    "INT UNSIGNED": "uint32",
    "INTEGER UNSIGNED": "uint32",
    "BIGINT UNSIGNED": "uint64",
})  # fmt: skip
_INJECTED = {
    "Headers": "request headers are",
    "QueryState": "the state of a query is",
    "StageLocation": "stage locations are",
}


def guest_type(source: str, given: object) -> tuple:
    """(type, nullable) of an entry of input_types in a file of that package. Raises Unserved."""
    if isinstance(given, str):
        return _named(source, " ".join(given.split()))
    if from_pyarrow(given):
        if source == "databend_udf":  # an Arrow type is NOT NULL there
            return _parser().of_pyarrow(source, given), False
        return _parser().of_pyarrow(source, given), True
    if type(given).__module__ == source:
        found = _parser().of_class(type(given).__name__)
        if found is not None:
            return found, True
        raise Unserved(f"{type(given).__name__} is not supported")
    raise Unserved(f"wanted a type name such as 'INT' or 'VARCHAR', got {type(given).__name__}")


def _parser() -> object:
    from udfgate_worker import guestparser

    return guestparser


def _named(source: str, name: str) -> tuple:
    upper, nullable = name.upper(), True
    if source == "databend_udf":
        if upper.endswith(" NOT NULL"):
            upper, name, nullable = upper[:-9], name[:-9], False
        elif upper.endswith(" NULL"):
            upper, name = upper[:-5], name[:-5]
        if upper.startswith("NULLABLE(") and upper.endswith(")"):
            upper, name = upper[9:-1].strip(), name[9:-1].strip()
    found = plain_guest(source, upper)
    if found:
        return found, nullable
    if not name:
        raise Unserved(f"{source} has no type called nothing")
    return _parser().of_name(source, name), nullable


def plain_guest(source: str, upper: str) -> str:
    """The type without parameters that a name in capitals means in files of a package, or nothing."""
    kind = _TABLES[source].get(upper, "")
    return _parser().Type(kind) if kind.startswith("large") else kind


def unknown_guest(source: str, name: str) -> Unserved:
    """What is wrong with a name that the package does not know."""
    return Unserved(f"{source} has no type called {name}{near(name.upper(), list(_TABLES[source]))}")


def refuse_guest(source: str, shape: Shape, options: dict) -> None:
    """Raise Unserved for what the package would give to a body and the gateway does not."""
    if source != "databend_udf":
        return
    for parameter in shape.parameters:
        hint = parameter.hint
        name = hint if isinstance(hint, str) else getattr(hint, "__name__", None) or str(hint)
        for word in name.replace("[", " ").replace("]", " ").replace(".", " ").replace("|", " ").split():
            if word in _INJECTED:
                raise Unserved(f"parameter {parameter.name}: {_INJECTED[word]} not supported yet")
    if shape.parameters and shape.parameters[-1].name == "headers":
        raise Unserved(f"parameter headers: {_INJECTED['Headers']} not supported yet")
    if options.get("stage_refs"):
        raise Unserved(f"stage_refs={options['stage_refs']!r} is not supported yet")


def refuse_skipped(source: str, skip: bool, nullable: bool) -> None:
    """databend-udf wants a result that can be null where rows are skipped."""
    if source == "databend_udf" and skip and not nullable:
        raise Unserved("skip_null=True needs a result_type without NOT NULL")
