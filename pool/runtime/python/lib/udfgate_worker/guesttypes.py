"""Files of arrow-udf and databend-udf: their own names of types, and what they ask for that is not built."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.library import near
from udfgate_worker.signature import Shape
from udfgate_worker.typenames import Unserved, arrow_type, not_yet

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
    "utf8": "STRING VARCHAR CHAR CHARACTER TEXT",
    "binary": "BINARY",
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
_LARGE = {"large_string": "utf8", "large_binary": "binary"}  # databend's VARCHAR and BINARY as pyarrow spells them
_INJECTED = {
    "Headers": "request headers are",
    "QueryState": "the state of a query is",
    "StageLocation": "stage locations are",
}


def guest_type(source: str, given: object) -> tuple:
    """(type, nullable) of an entry of input_types in a file of that package. Raises Unserved."""
    if isinstance(given, str):
        return _named(source, " ".join(given.split()))
    module = type(given).__module__
    if isinstance(module, str) and module.partition(".")[0] == "pyarrow":
        name = str(given)
        if source == "databend_udf":  # an Arrow type is NOT NULL there
            return _LARGE.get(name) or arrow_type(name), False
        return arrow_type(name), True
    if module == source:
        raise Unserved(f"{type(given).__name__} is not supported yet")
    raise Unserved(f"wanted a type name such as 'INT' or 'VARCHAR', got {type(given).__name__}")


def _named(source: str, name: str) -> tuple:
    upper, nullable = name.upper(), True
    if source == "databend_udf":
        if upper.endswith(" NOT NULL"):
            upper, nullable = upper[:-9], False
        elif upper.endswith(" NULL"):
            upper = upper[:-5]
        if upper.startswith("NULLABLE(") and upper.endswith(")"):
            upper = upper[9:-1].strip()
    table = _TABLES[source]
    if upper in table:
        return table[upper], nullable
    if upper.endswith("[]") or not_yet(upper):
        raise Unserved(f"{name} is not supported yet")
    raise Unserved(f"{source} has no type called {name or 'nothing'}{near(upper, list(table))}")


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
