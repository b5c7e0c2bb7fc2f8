"""Exact or an error, for the types that are not plain: strict.py's rules from any value to its value form.

rule(kind, value) gives the value form, or raises Misfit, or what the value's own code raises. RULES is the table of all
kinds; docs/types.md says in words what stands here, and a test compares the two.
"""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import TYPES
from udfgate_worker.kinds import (
    ARROW_JSON,
    DECIMALS,
    INTERVALS,
    JSON,
    LISTS,
    UDF_DECIMAL,
    UUID,
    VARIANT,
    Inexact,
    Type,
    standard,
)
from udfgate_worker.strict import Misfit, binary_rule, float_rule, int_of, refusal, rule_of, shown, text_rule, type_name

_modules, _names, _mro = (vars(type)[name].__get__ for name in ("__module__", "__name__", "__mro__"))
_JSON_DEPTH = "nested too deep for JSON"


def rich_rule(type_: Type) -> object:
    """The rule of a type that is not plain; made once."""
    rule = type_.made.get("rule")
    if rule is None:
        if type_.kind in TYPES and not type_.extension:  # the item of a list
            rule = _plain_rule(type_)
        elif type_.extension in EXTENSIONS:
            rule = EXTENSIONS[type_.extension](type_)
        else:
            rule = RULES[type_.kind](type_)
        type_.made["rule"] = rule
    return rule


def _plain_rule(type_: Type) -> object:
    rule, kind = rule_of(type_.kind), type_.kind
    return lambda _, value: rule(kind, value)


def inner_rule(type_: Type, nullable: bool) -> object:
    """(value, step) → value form of a part of a value; step says where it lies, or is called to say it."""
    rule = rich_rule(type_)

    def exact(value: object, step: object, *given: object) -> object:
        if value is None and nullable:
            return None
        try:
            return rule(type_, value)
        except Misfit as misfit:
            raise misfit.inside(step(*given)) from None
        except MemoryError:
            raise
        except BaseException:  # the value's own code
            raise refusal("TypeError", type_, value).inside(step(*given)) from None

    return exact


def _is(value: object, module: str, name: str) -> bool:
    """Whether a value is of a class of that module, or of one below it, without importing it."""
    return any([_names(base) == name and _modules(base) == module for base in _mro(type(value))])


def _null(type_: Type) -> object:
    def rule(kind: Type, value: object) -> None:
        if value is not None:
            raise refusal("TypeError", kind, value)

    return rule


def _moment(type_: Type) -> object:
    from udfgate_worker import moments

    its, run = moments.writing(type_)
    bits = 31 if type_.kind in ("date32", "time32") else 63

    def rule(kind: Type, value: object) -> int:
        if _modules(type(value)) == "pyarrow.lib":
            return moments.of_scalar(kind, value)
        if not issubclass(type(value), its) or (its is moments.date and issubclass(type(value), moments.datetime)):
            raise refusal("TypeError", kind, value)
        if its is moments.time or its is moments.datetime:
            aware = value.utcoffset() is not None if its is moments.datetime else value.tzinfo is not None
            if aware != bool(kind.zone):
                raise refusal("TypeError", kind, value, "with a time zone" if aware else "without a time zone")
        # pandas' subclasses of datetime and timedelta have them
        nanoseconds = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
        try:
            (number,) = run([value])
            if nanoseconds and kind.unit != "ns":
                raise Inexact
            number += nanoseconds
        except Inexact:
            raise Misfit("ValueError", f"result: {shown(value)} is not exact in {kind}") from None
        except OverflowError:
            raise refusal("OverflowError", kind, value) from None
        if type(number) is not int:  # pandas.NaT
            raise refusal("TypeError", kind, value)
        if not -(1 << bits) <= number < 1 << bits:
            raise refusal("OverflowError", kind, value)
        return number

    return rule


def _number(decimal: object, kind: Type, value: object) -> object:
    """The Decimal of a Decimal, an int, or a float by its repr."""
    its = type(value)
    if issubclass(its, decimal):
        return decimal(value)
    if issubclass(its, float):
        return decimal(float.__repr__(value))
    if value is True or value is False:
        raise refusal("TypeError", kind, value)
    return decimal(int_of(value))


def _decimal(type_: Type) -> object:
    decimal = standard("decimal", "Decimal")
    context = standard("decimal", "Context")(prec=400, Emin=-9999, Emax=9999, traps=[])  # the body's context is its own
    unit, zero = decimal((0, (1,), -type_.scale)), decimal((0, (0,), -type_.scale))

    def rule(kind: Type, value: object) -> str:
        number = _number(decimal, kind, value)
        if not number.is_finite():
            raise refusal("ValueError", kind, value)
        if number and not -2000 < number.adjusted() < 2000:
            raise refusal("OverflowError", kind, value) if number.adjusted() > 0 else _inexact(kind, value)
        scaled = number.quantize(unit, context=context) if number else zero
        if scaled.is_finite() and scaled != number:
            raise _inexact(kind, value)
        if not scaled.is_finite() or len(scaled.as_tuple().digits) > kind.precision:
            raise refusal("OverflowError", kind, value)
        return str(scaled)

    return rule


def _inexact(kind: Type, value: object) -> Misfit:
    return Misfit("ValueError", f"result: {shown(value)} is not exact in {kind}")


def _udf_decimal(type_: Type) -> object:
    from udfgate_worker.wire import Slow, plain_decimal

    decimal = standard("decimal", "Decimal")

    def rule(kind: Type, value: object) -> str:
        number = _number(decimal, kind, value)
        if number.is_snan():
            raise refusal("ValueError", kind, value)
        try:
            return plain_decimal(number)
        except Slow:
            raise refusal("OverflowError", kind, value) from None

    return rule


def _json(type_: Type) -> object:
    from udfgate_worker.wire import json_encoder

    encode = json_encoder()

    def rule(kind: Type, value: object) -> "str | bytes":
        if value is None:  # a null of the column, never JSON's
            raise refusal("TypeError", kind, value)
        try:
            text = encode(value)
        except RecursionError:
            raise Misfit("RecursionError", f"result: wanted {kind}, got {type_name(value)} {_JSON_DEPTH}") from None
        except ValueError as e:  # NaN, or a value that holds itself
            raise refusal("ValueError", kind, value, f"({e})") from None
        except TypeError as e:
            raise refusal("TypeError", kind, value, f"({e})") from None
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise refusal("ValueError", kind, value, "with a lone surrogate") from None
        return data if kind.kind == "large_binary" else text

    return rule


def _uuid(type_: Type) -> object:
    uuid, sized = standard("uuid", "UUID"), _sized(type_)

    def rule(kind: Type, value: object) -> bytes:
        return uuid.bytes.__get__(value) if issubclass(type(value), uuid) else sized(kind, value)

    return rule


def _sized(type_: Type) -> object:
    def rule(kind: Type, value: object) -> bytes:
        data = binary_rule(kind, value)
        if len(data) != kind.size:
            raise refusal("ValueError", kind, value, f"of {len(data)} bytes")
        return data

    return rule


def _interval(type_: Type) -> object:
    timedelta = standard("datetime", "timedelta")

    def rule(kind: Type, value: object) -> tuple:
        if issubclass(type(value), timedelta):
            parts = (0, value.days, (value.seconds * 10**6 + value.microseconds) * 1000)
        elif issubclass(type(value), tuple) and tuple.__len__(value) == 3:
            parts = tuple([int_of(part) for part in tuple.__iter__(value)])
        else:
            raise refusal("TypeError", kind, value)
        months, days, nanoseconds = parts
        if kind == "month_interval" and (days or nanoseconds):
            raise _inexact(kind, value)
        if kind == "day_time_interval":
            if months or nanoseconds % 10**6:
                raise _inexact(kind, value)
            parts = (0, days, nanoseconds // 10**6)
        bits = (31, 31, 31 if kind == "day_time_interval" else 63)
        if not all([-(1 << b) <= part < 1 << b for part, b in zip(parts, bits)]):
            raise refusal("OverflowError", kind, value)
        return {"month_interval": parts[:1], "day_time_interval": parts[1:]}.get(kind, parts)

    return rule


def _items(value: object) -> "list | tuple | None":
    """The items of what counts as a list: never of text, bytes, a dict or a set."""
    its = type(value)
    if issubclass(its, list):
        return value if its is list else list(list.__iter__(value))
    if issubclass(its, tuple):
        return value if its is tuple else tuple(tuple.__iter__(value))
    if _is(value, "array", "array") or _is(value, "collections", "deque"):
        return list(value)
    if _is(value, "numpy", "ndarray") and value.ndim > 0:
        return list(value)
    return None


def _list(type_: Type) -> object:
    _, item, nullable = type_.children[0]
    exact, fixed = inner_rule(item, nullable), type_.kind == "fixed_size_list"

    def rule(kind: Type, value: object) -> list:
        items = _items(value)
        if items is None:
            raise refusal("TypeError", kind, value)
        if fixed and len(items) != kind.size:
            raise refusal("ValueError", kind, value, f"of {len(items)} items")
        return [exact(one, _at_index, at) for at, one in enumerate(items)]

    return rule


def _at_index(at: int) -> str:
    return f"[{at}]"


def _at_member(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{shown(name)}]"


def _at_key(key: object) -> str:
    return f"[{shown(key)}]"


def _as_key(_key: object) -> str:
    return "a key"


def _members(kind: Type, value: object, names: tuple) -> "dict | None":
    """The members of what counts as a struct, by name."""
    its = type(value)
    if issubclass(its, dict):
        return value if its is dict else dict(dict.items(value))
    if issubclass(its, tuple):
        named = getattr(its, "_fields", None)
        if kind.view != "tuple":
            named = named if type(named) is tuple else None
        else:
            named = names if tuple.__len__(value) == len(names) else None
        return None if named is None else dict(zip(named, tuple.__iter__(value)))
    fields = getattr(its, "__dataclass_fields__", None)
    if type(fields) is dict:
        return {name: getattr(value, name) for name, field in fields.items() if field._field_type.name == "_FIELD"}
    return None


def _of_one(kind: Type) -> str:
    """What to do where one type in a list was taken for that type."""
    if len(kind.children) != 1:
        return ""
    names = {"int32": "INT", "int64": "BIGINT", "float64": "DOUBLE", "utf8": "VARCHAR"}
    name = names.get(str(kind.children[0][1]), "…")
    return f'(a list of one type is a struct of one: yield (value,), or give the type alone, result_types="{name}")'


def _by_place(members: list) -> object:
    """The rule of a struct whose members have no names of their own, as of what a table function answers."""

    def rule(kind: Type, value: object) -> tuple:
        if not issubclass(type(value), tuple) or tuple.__len__(value) != len(members):
            raise refusal("TypeError", kind, value, _of_one(kind))
        parts = zip(members, tuple.__iter__(value))
        return tuple([exact(part, _at_index, at) for at, ((_, exact, _), part) in enumerate(parts)])

    return rule


def _struct(type_: Type) -> object:
    names = tuple([name for name, _, _ in type_.children])
    known = frozenset(names)
    members = [(name, inner_rule(child, nullable), nullable) for name, child, nullable in type_.children]
    if type_.nameless() and type_.view == "tuple":
        return _by_place(members)

    def rule(kind: Type, value: object) -> tuple:
        found = _members(kind, value, names)
        if found is None:
            raise refusal("TypeError", kind, value)
        for name in found:
            if name not in known:
                raise refusal("ValueError", kind, value, f"with the unknown member {shown(name)}")
        row = []
        for name, exact, nullable in members:
            if name not in found and not nullable:
                raise refusal("ValueError", kind, value, f"without the member {name}")
            row.append(exact(found.get(name), _at_member, name))
        return tuple(row)

    return rule


def _map(type_: Type) -> object:
    (_, key, _), (_, item, nullable) = type_.children
    exact_key, exact_item = inner_rule(key, False), inner_rule(item, nullable)

    def rule(kind: Type, value: object) -> list:
        if issubclass(type(value), dict):
            pairs = list(dict.items(value))
        else:
            pairs = _items(value)
            if pairs is None:
                raise refusal("TypeError", kind, value)
            split = [_items(pair) for pair in pairs]
            for at, pair in enumerate(split):
                if pair is None or len(pair) != 2:
                    raise refusal("TypeError", "a pair", pairs[at]).inside(_at_index(at))
            pairs = split
        return [(exact_key(one, _as_key, one), exact_item(other, _at_key, one)) for one, other in pairs]

    return rule


EXTENSIONS = {JSON: _json, ARROW_JSON: _json, VARIANT: _json, UDF_DECIMAL: _udf_decimal, UUID: _uuid}
RULES = {
    "null": _null,
    "float16": lambda type_: float_rule,
    **dict.fromkeys(("date32", "date64", "time32", "time64", "timestamp", "duration"), _moment),
    **dict.fromkeys(DECIMALS, _decimal),
    **dict.fromkeys(INTERVALS, _interval),
    "utf8": lambda type_: text_rule,
    "binary": lambda type_: binary_rule,
    "large_utf8": lambda type_: text_rule,
    "large_binary": lambda type_: binary_rule,
    "fixed_size_binary": _sized,
    **dict.fromkeys(LISTS, _list),
    "struct": _struct,
    "map": _map,
}
