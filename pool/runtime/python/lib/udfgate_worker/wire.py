"""Results whose value forms are not what a body returns: the fast way, whole columns at once.

    to_wire(values, nullable)   → the values as the gateway takes them, or Slow, or whatever a value raises

It takes exact instances of the usual classes and nothing else; ranges, lengths and UTF-8 are left to the gateway,
which asks to RECODE then. Whatever it does not take is for the strict rules (exact.py). What it makes of a struct is a
tuple, or the body's dict, of a map a dict or a list of pairs.
"""

from _operator import itemgetter
from itertools import chain, islice, repeat

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.kinds import (
    ARROW_JSON,
    DECIMALS,
    INTERVALS,
    JSON,
    LISTS,
    NUMBERS,
    UDF_DECIMAL,
    UUID,
    VARIANT,
    Type,
    standard,
)

_NONE = type(None)
_CLASSES = {
    "bool": bool,
    "float16": float,
    "float32": float,
    "float64": float,
    "utf8": str,
    "large_utf8": str,
    "binary": bytes,
    "large_binary": bytes,
    "fixed_size_binary": bytes,
}


class Slow(Exception):
    """Not all values are of the usual classes."""


def to_wire(type_: Type) -> object:
    """The fast way of a type."""
    kind = type_.kind
    if kind in LISTS:
        return _lists(*type_.children[0][1:])
    if kind == "struct":
        return _structs(type_)
    if kind == "map":
        return _maps(type_)
    if kind == "null":
        return _nulls
    if kind == "float64":
        return _doubles
    return _leaf(*_leaf_of(type_))


def _nulls(values: list, _nullable: bool) -> list:
    if values.count(None) != len(values) or set(map(type, values)) - {_NONE}:
        raise Slow
    return values


def _doubles(values: list, nullable: bool) -> list:
    """Floats, with ints among them if they are exact."""
    types = set(map(type, values))
    if types - {float, int, _NONE} or (_NONE in types and not nullable):
        raise Slow
    if int not in types:
        return values
    made = [None if value is None else float(value) for value in values]
    if made != values:
        raise Slow
    return made


def _leaf_of(type_: Type) -> tuple:
    """(classes, run, whether nothing is changed): run(values of these classes) gives the value forms."""
    kind, extension = type_.kind, type_.extension
    if kind in NUMBERS and kind != "float16":
        from udfgate_worker.moments import writing

        its, run = writing(type_)
        return (its,), run
    if kind in DECIMALS:
        return (standard("decimal", "Decimal"), int), _decimal_run(type_)
    if extension == UDF_DECIMAL:
        return (standard("decimal", "Decimal"),), lambda values: list(map(plain_decimal, values))
    if extension in (JSON, ARROW_JSON, VARIANT):
        return _any_json(extension)
    if extension == UUID:
        return (standard("uuid", "UUID"),), lambda values: [value.bytes for value in values]
    if kind in INTERVALS:
        from udfgate.interval import Interval

        return (Interval,), _interval_run(kind)
    return (_CLASSES.get(kind, int),), None


def _decimal_run(type_: Type) -> object:
    """Texts. Ints that do not fit are for the strict rules: the gateway would have them back as Decimals."""
    beyond = 10 ** max(type_.precision - type_.scale, 0)
    step = 10 ** max(-type_.scale, 0)

    def run(values: list) -> list:
        ints = [value for value in values if type(value) is int]
        if ints and (max(ints) >= beyond or min(ints) <= -beyond or (step > 1 and any([one % step for one in ints]))):
            raise Slow
        return list(map(str, values))

    return run


def plain_decimal(value: object) -> str:
    """The digits of a Decimal without an exponent. Raises Slow where they would be too many."""
    if value.is_finite() and (value.adjusted() > 1000 or value.as_tuple().exponent < -1000):
        raise Slow
    return format(value, "f")


def _interval_run(kind: str) -> object:
    def months(values: list) -> list:
        if any([value[1] or value[2] for value in values]):
            raise Slow
        return [value[:1] for value in values]

    def days(values: list) -> list:
        if any([value[0] != 0 or value[2] % 10**6 for value in values]):
            raise Slow
        return [(value[1], value[2] // 10**6) for value in values]

    def whole(values: list) -> list:
        return list(map(tuple, values))

    run = {"month_interval": months, "day_time_interval": days}.get(kind, whole)

    def checked(values: list) -> list:
        if set(map(type, chain.from_iterable(values))) - {int} or set(map(len, values)) - {3}:
            raise Slow
        return run(values)

    return checked


def json_encoder() -> object:
    """What turns a value into JSON text: no NaN, and text as it is."""
    return standard("json", "JSONEncoder")(ensure_ascii=False, allow_nan=False).encode


def _any_json(extension: str) -> tuple:
    encode = json_encoder()
    if extension == VARIANT:
        return (), lambda values: [encode(value).encode() for value in values]
    return (), lambda values: list(map(encode, values))


def _leaf(classes: tuple, run: "object | None") -> object:
    """classes () are all of them."""
    allowed = set(classes)

    def to_wire(values: list, nullable: bool) -> list:
        types = set(map(type, values))
        if _NONE in types:
            if not nullable:
                raise Slow
            types.discard(_NONE)
            if allowed and types - allowed:
                raise Slow
            if run is None:
                return values
            made = iter(run([value for value in values if value is not None]))
            return [None if value is None else next(made) for value in values]
        if allowed and types - allowed:
            raise Slow
        return values if run is None else run(values)

    return to_wire


def _present(values: list, nullable: bool, allowed: set) -> "tuple[list, set]":
    """The values that are not None, and their types: some of those allowed, or Slow."""
    types = set(map(type, values))
    if _NONE in types:
        if not nullable:
            raise Slow
        types.discard(_NONE)
        values = [value for value in values if value is not None]
    if allowed and types - allowed:
        raise Slow
    return values, types


def _spread(made: object, values: list, count: int) -> list:
    """made, with None wherever values has it; count: of those that are not None."""
    if count == len(values):
        return list(made)
    made = iter(made)
    return [None if value is None else next(made) for value in values]


def _lists(item: Type, item_nullable: bool) -> object:
    inner = to_wire(item)

    def lists_to_wire(values: list, nullable: bool) -> list:
        present, types = _present(values, nullable, set())
        if types - {list, tuple}:
            present = [_listed(value) for value in present]
            values, present = _spread(present, values, len(present)), present
        flat = list(chain.from_iterable(present))
        made = inner(flat, item_nullable)
        if made is flat:
            return values
        made = iter(made)
        return _spread([list(islice(made, len(value))) for value in present], values, len(present))

    return lists_to_wire


def _listed(value: object) -> "list | tuple":
    """A numpy array of numbers, an array.array or a deque as a list; Slow for anything else but lists and tuples."""
    kind = type(value)
    if kind is list or kind is tuple:
        return value
    place = kind.__module__, kind.__name__
    if place == ("numpy", "ndarray") and value.ndim > 0 and value.dtype.kind in "iufb" and value.dtype.itemsize <= 8:
        return value.tolist()
    if place == ("array", "array"):
        return value.tolist()
    if place == ("collections", "deque"):
        return list(value)
    raise Slow


def _structs(type_: Type) -> object:
    names = tuple([name for name, _, _ in type_.children])
    members = [(name, to_wire(child), nullable) for name, child, nullable in type_.children]
    tuples, count, known = type_.view == "tuple", len(names), frozenset(names)
    nameless, gets = type_.nameless(), list(map(itemgetter, names))

    def structs_to_wire(values: list, nullable: bool) -> list:
        present, types = _present(values, nullable, set())
        dicts = types == {dict} and not nameless
        if dicts:
            if set(map(len, present)) == {count}:
                columns = [list(map(get, present)) for get in gets]
            elif set(chain.from_iterable(present)) <= known:
                columns = [list(map(dict.get, present, repeat(name))) for name in names]
            else:
                raise Slow
        elif types == {tuple} and tuples:
            columns = _columns(present, count)
        elif len(types) == 1:
            columns = _of_class(next(iter(types)), present, names)
        elif types:
            raise Slow
        else:
            columns = [[] for _ in names]
        given = columns
        columns = [inner(column, its) for (_, inner, its), column in zip(members, given)]
        # marshal looks up whatever has two owners, as the members of a dict and a tuple have: the dict goes as it is.
        if dicts and all([column is one for column, one in zip(columns, given)]):
            return values
        made = zip(*columns) if columns else [()] * len(present)
        return _spread(made, values, len(present))

    return structs_to_wire


def _columns(rows: list, count: int) -> list:
    if set(map(len, rows)) != {count}:
        raise Slow
    return list(map(list, zip(*rows)))


def _of_class(its: type, values: list, names: tuple) -> list:
    """The columns of a dataclass or a named tuple that has exactly these members."""
    if issubclass(its, tuple) and getattr(its, "_fields", None) == names:
        return _columns(values, len(names))
    fields = getattr(its, "__dataclass_fields__", None)
    if type(fields) is not dict or issubclass(its, (dict, tuple)) or set(fields) != set(names):
        raise Slow
    return [[getattr(value, name) for value in values] for name in names]


def _maps(type_: Type) -> object:
    (_, key, _), (_, value, value_nullable) = type_.children
    keys_to_wire, values_to_wire = to_wire(key), to_wire(value)

    def maps_to_wire(values: list, nullable: bool) -> list:
        present, types = _present(values, nullable, {dict, list})
        if types == {dict}:
            keys = list(chain.from_iterable(present))
            items = list(chain.from_iterable(map(dict.values, present)))
        else:
            pairs = list(chain.from_iterable([one.items() if type(one) is dict else one for one in present]))
            if set(map(type, pairs)) - {tuple, list} or set(map(len, pairs)) - {2}:
                raise Slow
            keys, items = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        wire_keys, wire_items = keys_to_wire(keys, False), values_to_wire(items, value_nullable)
        if wire_keys is keys and wire_items is items:
            return values
        made = zip(wire_keys, wire_items)
        return _spread([list(islice(made, len(one))) for one in present], values, len(present))

    return maps_to_wire
