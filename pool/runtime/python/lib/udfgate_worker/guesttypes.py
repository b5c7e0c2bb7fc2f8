"""Files of arrow-udf and databend-udf: their own names of plain types, and what their bodies are given beside columns."""

from udfgate.declare import declarations

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.library import near
from udfgate_worker.signature import Shape, shape_of
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


def guest_shape(source: str, shape: Shape, options: dict) -> None:
    """Take parameters that are no columns out of a body's shape. Raises Unserved."""
    if source == "databend_udf":
        from databend_udf.given import settle

        settle(shape.parameters, options)


def guest_value(source: str, options: dict) -> tuple:
    """(type, nullable) of the values of a table function. Raises Unserved."""
    if "result_types" not in options:
        return guest_type(source, options.get("result_type"))
    columns = _table_columns(source, options["result_types"])
    # Rows come as tuples, whatever structs inside of columns look like.
    return _parser().Type("struct", view="tuple", children=columns), source == "arrow_udf"


def _table_columns(source: str, given: list) -> tuple:
    """(name, type, nullable) of each column; in arrow-udf columns have no names."""
    if not given:
        raise Unserved("wanted at least one result type")
    if source == "arrow_udf":
        return tuple([("", *guest_type(source, one)) for one in given])
    columns = []
    for number, one in enumerate(given):
        name = f"col{number}"
        if isinstance(one, tuple) and len(one) == 2:
            name, found = str(one[0]), guest_type(source, one[1])
        elif type(one).__name__ == "Field" and from_pyarrow(one):
            name, found = one.name or ("output" if len(given) == 1 else name), _of_field(source, one)
        else:
            found = guest_type(source, one)
        if name in [other for other, _, _ in columns]:
            raise Unserved(f"two columns are called {name}")
        columns.append((name, *found))
    return tuple(columns)


def _of_field(source: str, field: object) -> tuple:
    """(type, nullable) of a pyarrow field, whose metadata says what is a VARIANT."""
    if (field.metadata or {}).get(b"Extension") == b"Variant":
        return _parser().of_name(source, "VARIANT"), bool(field.nullable)
    return guest_type(source, field.type)[0], bool(field.nullable)


def guest_body(declaration: object, body: object) -> object:
    """What the worker calls for a body: it is given what the package gives beside columns. Raises Unserved."""
    if declaration.source != "databend_udf":
        return body
    from databend_udf.given import given, settle, table

    options, parameters = declaration.options, shape_of(body).parameters
    names = [parameter.name for parameter in parameters]
    body = given(body, settle(parameters, options), names)
    if declaration.kind != "table":
        return body
    columns = _table_columns(declaration.source, options["result_types"])
    return table(body, [name for name, _, _ in columns], options.get("rows_of_lists", False))


def built_in(modules: list) -> list:
    """The declarations that databend-udf's server adds, if one of the modules has such a server or function."""
    import databend_udf.builtin as builtin
    from databend_udf import UDFServer

    values = [value for module in modules for value in vars(module).values()]
    if not any([value is UDFServer or issubclass(type(value), UDFServer) for value in values]) and not any(
        [found.source == "databend_udf" for value in values for found in declarations(value)]
    ):
        return []
    return [found for value in vars(builtin).values() for found in declarations(value)]


def refuse_skipped(source: str, skip: bool, nullable: bool) -> None:
    """databend-udf wants a result that can be null where rows are skipped."""
    if source == "databend_udf" and skip and not nullable:
        raise Unserved("skip_null=True needs a result_type without NOT NULL")
