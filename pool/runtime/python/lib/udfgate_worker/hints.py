"""Type hints beyond int, float, bool, str and bytes: which column type each means."""

import sys

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.kinds import DEPTH_MAX, Type, decimal_of, json_type, list_of, map_of, uuid_type
from udfgate_worker.library import library
from udfgate_worker.moments import zone_of
from udfgate_worker.signature import PLAIN_HINTS, members
from udfgate_worker.typenames import Unserved

# By where a class comes from, so that nothing is imported which the served file has not imported.
_CLASSES = {
    ("decimal", "Decimal"): lambda: decimal_of(38, 18),
    ("datetime", "date"): lambda: Type("date32"),
    ("datetime", "time"): lambda: Type("time64", unit="us"),
    ("datetime", "datetime"): lambda: Type("timestamp", unit="us"),
    ("datetime", "timedelta"): lambda: Type("duration", unit="us"),
    ("uuid", "UUID"): uuid_type,
    ("udfgate.interval", "Interval"): lambda: Type("month_day_nano_interval"),
    ("builtins", "dict"): json_type,
    ("typing", "Dict"): json_type,
}
_WANTED = (
    "int, float, bool, str, bytes, Decimal, date, time, datetime, timedelta, UUID, dict, list[…], dict[…, …], a "
    "dataclass, a TypedDict or a NamedTuple, or one of them | None"
)


def rich_hint(hint: object, scope: dict, depth: int = 0) -> "str | Type":
    """The type of a hint that is no union. Raises Unserved."""
    if depth > DEPTH_MAX:
        raise Unserved(f"{_name(hint)} nests more than {DEPTH_MAX} deep, or in itself")
    try:
        if hint in PLAIN_HINTS:
            return PLAIN_HINTS[hint]
    except TypeError:
        pass
    if hasattr(hint, "__metadata__"):  # members() leaves it where a zone is said
        return Type("timestamp", unit="us", zone=_zone(hint.__metadata__[0]))
    name = getattr(hint, "__name__", None) or getattr(hint, "_name", None)
    made = _CLASSES.get((getattr(hint, "__module__", ""), name))
    origin, args = getattr(hint, "__origin__", None), getattr(hint, "__args__", ())
    if made is not None and not (args and isinstance(origin, type)):
        return made()
    try:
        if args and origin is list:
            return list_of(*_part(args[0], scope, depth))
        if args and origin is dict:
            return _mapping(args, scope, depth)
        if _is_struct(hint):
            return _struct(hint, scope, depth)
    except ValueError as e:
        raise Unserved(f"{_name(hint)}: {e}") from None
    if hint is list or origin is list:
        raise Unserved("list needs the type of its items, as in list[int]")
    raise Unserved(f"{_name(hint)} is not supported; wanted {_WANTED}")


def _name(hint: object) -> str:
    if getattr(hint, "__origin__", None) is not None:
        return str(hint)
    return getattr(hint, "__name__", None) or getattr(hint, "_name", None) or str(hint)


def _zone(name: str) -> str:
    zone_of(name)  # raises for one that is not known
    return name


def _part(hint: object, scope: dict, depth: int) -> tuple:
    """(type, nullable) of a part of a hint."""
    found = members(hint, scope, 0)
    others = [one for one in found if one is not None and one is not type(None)]
    if len(others) != 1:
        raise Unserved("None alone is no type" if not others else "a union of several types is not supported")
    return rich_hint(others[0], scope, depth + 1), len(others) < len(found)


def _mapping(args: tuple, scope: dict, depth: int) -> Type:
    """dict[str, Any] is JSON, as dict is; any other a map."""
    if getattr(args[1], "_name", None) == "Any" or getattr(args[1], "__name__", "") == "Any" or args[1] is object:
        return json_type()
    key, nullable = _part(args[0], scope, depth)
    if nullable:
        raise Unserved("the key of a map is never None")
    return map_of(key, *_part(args[1], scope, depth))


def _is_struct(hint: object) -> bool:
    if not isinstance(hint, type):
        return False
    named = issubclass(hint, tuple) and hasattr(hint, "_fields")
    return named or hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__total__")


def _struct(hint: type, scope: dict, depth: int) -> "Type":
    """A TypedDict, dataclass or named tuple. Its own hints are read where it is defined."""
    module = sys.modules.get(hint.__module__)
    scope = {**scope, **vars(hint), **(vars(module) if module else {})}
    children = []
    for name, given, optional in _declared(hint):
        given, missing = _required(given, scope)
        try:
            type_, nullable = _part(given, scope, depth)
        except Unserved as e:
            inner = str(e).startswith("member ")  # the innermost one is told
            raise Unserved(str(e) if inner else f"member {name} of {hint.__name__}: {e}") from None
        children.append((name, type_, nullable or (optional if missing is None else missing)))
    return Type("struct", children=tuple(children))


def _declared(hint: type) -> list:
    """(name, hint, whether it may be missing) of each member."""
    if hasattr(hint, "__dataclass_fields__"):
        fields = hint.__dataclass_fields__.values()
        return [(field.name, field.type, False) for field in fields if field._field_type.name == "_FIELD"]
    hints = getattr(hint, "__annotations__", {})
    if issubclass(hint, tuple):
        lack = [name for name in hint._fields if name not in hints]
        if lack:
            raise Unserved(f"member {lack[0]} of {hint.__name__} has no type hint")
        return [(name, hints[name], False) for name in hint._fields]
    optional = getattr(hint, "__optional_keys__", ())
    return [(name, given, name in optional) for name, given in hints.items()]


def _required(hint: object, scope: dict) -> tuple:
    """(hint, None) or what stands in NotRequired[…] or Required[…] and whether it may be missing."""
    if type(hint).__name__ == "ForwardRef":
        hint = hint.__forward_arg__
    if isinstance(hint, str):
        for word, missing in (("NotRequired[", True), ("Required[", False)):
            before, found, rest = hint.rpartition(word)
            if found and rest.endswith("]") and before.rpartition(".")[0].isidentifier() | (not before):
                return rest[:-1], missing
        return hint, None
    origin = getattr(getattr(hint, "__origin__", None), "_name", "")
    if origin in ("NotRequired", "Required"):
        return hint.__args__[0], origin == "NotRequired"
    return hint, None


def old_union(text: str, scope: dict) -> object:
    """The value of a hint whose A | B the interpreter does not know."""
    ast, typing = library("ast"), library("typing")

    class Unions(ast.NodeTransformer):
        def visit_BinOp(self, node: object) -> object:
            self.generic_visit(node)
            both = ast.Tuple(elts=[node.left, node.right], ctx=ast.Load())
            return ast.Subscript(value=ast.Name(id="+union", ctx=ast.Load()), slice=both, ctx=ast.Load())

    tree = ast.fix_missing_locations(Unions().visit(ast.parse(text.strip(), mode="eval")))
    try:
        return eval(compile(tree, "<hint>", "eval"), {**scope, "+union": typing.Union})
    except Exception as e:
        raise Unserved(
            f"hint {text!r} cannot be read: {type(e).__name__}: {e}; give input_types and result_type"
        ) from None
