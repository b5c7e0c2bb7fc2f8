"""What a table function of udfgate's own decorator answers: result_types or a hint, as the type of its values."""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.signature import NO_HINT, hint_type, members
from udfgate_worker.typenames import Unserved, from_pyarrow

WANTED = "Iterator[…], Iterable[…], Generator[…], AsyncIterator[…] or list[…]"
_ITERABLES = {
    "Iterator", "Iterable", "Generator", "Sequence", "Collection", "AsyncIterator", "AsyncIterable", "AsyncGenerator",
}  # fmt: skip
# Options that say how rows go through a body that answers one value for each, and what they may be.
_ONE_WAY = {"mode": ("row",), "batch": (False,), "batch_mode": (False,), "io_threads": (1,), "elementwise": ()}


_COLUMNS = ("row", "error")  # what else a table has; its values have the function's name


def refuse_options(options: dict, name: str) -> None:
    """Raise Unserved for what table functions do not offer. name: of the function."""
    if name in _COLUMNS:
        raise Unserved(
            f"{name} is the name of another column of a table function's answer; give it another one, name=…"
        )
    for option, allowed in _ONE_WAY.items():
        if option in options and options[option] not in allowed:
            raise Unserved(
                f"{option}={options[option]!r} is not for table functions: their bodies run row by row, one after the other"
            )


def table_value(options: dict, shape: object, type_of: object) -> tuple:
    """(type, nullable) of the values. Raises Unserved."""
    if "result_type" in options:
        raise Unserved("result_type is for scalar functions; a table function has result_types=[…]")
    if "result_types" in options:
        return _given(options["result_types"], type_of)
    if shape.returns is NO_HINT:
        raise Unserved("no type hint; add one such as Iterator[int], or give result_types=[…]")
    return _hinted(shape.returns, shape.scope)


def _given(entries: list, type_of: object) -> tuple:
    """One type is that of the values; several, or any that is named, are the members of a struct."""
    if len(entries) == 1 and type(entries[0]).__name__ == "Schema" and from_pyarrow(entries[0]):
        entries = list(entries[0])
    if not entries:
        raise Unserved("result_types is empty")
    columns = [_column(entry, type_of) for entry in entries]
    names = [name for name, _, _ in columns]
    if any(names):
        for at, name in enumerate(names):
            if not name:
                raise Unserved(f"result_types: either all have names or none; entry {at} has none")
            if name in names[:at]:
                raise Unserved(f"result_types: two members are called {name}")
    elif len(columns) == 1:
        return columns[0][1:]
    return _struct(columns), True


def _column(entry: object, type_of: object) -> tuple:
    """(name or nothing, type, nullable) of an entry: a type, (name, type), or a field of pyarrow's."""
    if isinstance(entry, (tuple, list)):
        if len(entry) != 2 or not isinstance(entry[0], str) or not entry[0]:
            raise Unserved(f"result_types: wanted a type or (name, type), got {entry!r}")
        return (entry[0], *type_of(entry[1]))
    if type(entry).__name__ == "Field" and from_pyarrow(entry):
        return entry.name, type_of(entry.type)[0], bool(entry.nullable)
    return ("", *type_of(entry))


def _struct(columns: list) -> object:
    """Rows may come as tuples, which is what the view says."""
    from udfgate_worker.kinds import Type

    try:
        return Type("struct", view="tuple", children=tuple(columns))
    except ValueError as e:
        raise Unserved(str(e)) from None


def _hinted(hint: object, scope: dict) -> tuple:
    found = [one for one in members(hint, scope, 0) if one is not None and one is not type(None)]
    if not found:
        raise Unserved(f"wanted {WANTED} for a table function, got None")
    if len(found) > 1:
        raise Unserved("a union of several types is not supported")
    origin, args = getattr(found[0], "__origin__", None), getattr(found[0], "__args__", ())
    iterable = origin is list or getattr(origin, "__name__", "") in _ITERABLES
    bare = found[0] is list or getattr(found[0], "__name__", getattr(found[0], "_name", "")) in {"List", *_ITERABLES}
    if (iterable and not _told(args)) or (bare and not iterable):
        raise Unserved("the hint needs the type of the rows, as in Iterator[int]")
    if not iterable:
        shown = str(found[0]) if origin else getattr(found[0], "__name__", str(found[0]))
        raise Unserved(f"wanted {WANTED} for a table function, got {shown}")
    return _row(args[0], scope)


def _told(args: tuple) -> bool:
    """Whether a generic says of what: bare ones of typing have a TypeVar there before Python 3.9, and none after."""
    return bool(args) and type(args[0]).__name__ != "TypeVar"


def _row(hint: object, scope: dict) -> tuple:
    """tuple[…] is a struct without names, as several result_types are; everything else as in scalar functions."""
    found = members(hint, scope, 0)
    others = [one for one in found if one is not None and one is not type(None)]
    if len(others) != 1 or getattr(others[0], "__origin__", None) is not tuple:
        if any([one is tuple for one in others]):
            raise Unserved("tuple needs the types of its members, as in tuple[int, str]")
        return hint_type(hint, scope)
    args = others[0].__args__
    if not args or Ellipsis in args or args == ((),):
        raise Unserved("tuple needs the types of its members, as in tuple[int, str]")
    return _struct([("", *hint_type(one, scope)) for one in args]), len(others) < len(found)
