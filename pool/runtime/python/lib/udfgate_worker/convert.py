"""Arguments whose value forms are not what a body sees: from integers, texts and tuples to Python's classes.

A converter takes the values of a column, None where null, and gives as many; trees are taken apart into columns, so
that each leaf's class is made by maps over C functions. What Python cannot hold is a Misfit.
"""

from itertools import chain, islice
from struct import unpack_from

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import VARIABLE, fixed, holes, is_null, marshalled, offsets, patch
from udfgate_worker.frames import FORM_ARROW, FORM_MARSHAL
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
    Inexact,
    Type,
    standard,
)
from udfgate_worker.strict import BadArguments, Misfit, shown

_MS_NS = 10**6


def rich_readers(type_: Type, views: dict) -> dict:
    """As decode.readers, of a type that is not plain. Raises Unserved."""
    convert = converter(type_)
    if type_.kind in NUMBERS:
        if type_.kind == "float16":
            return {FORM_ARROW | 2 << 16: _halves(views["B"])}
        code, shift = NUMBERS[type_.kind]
        return {FORM_ARROW | 2 << 16: _converted(fixed(code, shift, views), convert)}
    found = {FORM_MARSHAL | 2 << 16: _converted(marshalled(views["B"], views["Q"]), convert)}
    if type_.kind in VARIABLE:
        found[FORM_ARROW | 3 << 16] = _converted(offsets(type_.kind == "utf8", views["B"], views["i"]), convert)
    return found


def _halves(raw: dict) -> tuple:
    """The reader of float16, which is no format of memoryview before Python 3.12."""

    def one(f: tuple, i: int, row: int):
        if f[i + 2] and is_null(raw, f, i, row):
            return None
        return unpack_from("<e", raw[f[i + 1]], f[i + 5] + 2 * row)[0]

    def block(f: tuple, i: int, lo: int, hi: int, _k: int) -> list:
        values = list(unpack_from("<%de" % (hi - lo), raw[f[i + 1]], f[i + 5] + 2 * lo))
        if f[i + 2]:
            patch(values, holes(raw, f, i, lo, hi))
        return values

    return one, block


def _converted(reader: tuple, convert: "object | None") -> tuple:
    if convert is None:
        return reader
    read_one, read_block = reader

    def one(f: tuple, i: int, row: int) -> object:
        return _checked(convert, lambda: [read_one(f, i, row)])[0]

    def block(f: tuple, i: int, lo: int, hi: int, k: int) -> list:
        return _checked(convert, lambda: read_block(f, i, lo, hi, k))

    return one, block


def _checked(convert: object, read: object) -> list:
    """convert(read()), or BadArguments with a Misfit in the place of each value that cannot be held.

    Values are read once more then: a converter that fails may have changed some of them.
    """
    try:
        return convert(read())
    except Misfit:
        pass
    made, bad = [], {}
    for at, value in enumerate(read()):
        try:
            made += convert([value])
        except Misfit as misfit:
            bad[at] = misfit
            made.append(misfit)
    raise BadArguments(made, bad)


def converter(type_: Type, written: bool = False) -> "object | None":
    """The converter of a type; None: values come as a body sees them. Raises Unserved.

    written: of what wire.py makes instead of what the gateway sends; its structs may be tuples, its maps pairs.
    """
    kind = type_.kind
    if kind in LISTS:
        item = converter(type_.children[0][1], written)
        return item and _lists(item)
    if kind == "struct":
        return _structs(type_, [converter(child, written) for _, child, _ in type_.children], written)
    if kind == "map":
        return _maps(type_, [converter(child, written) for _, child, _ in type_.children], written)
    leaf = _leaf_of(type_)
    return leaf and _leaf(type_, *leaf)


def _leaf_of(type_: Type) -> "tuple | None":
    """(run, what Python holds) of a leaf."""
    kind, extension = type_.kind, type_.extension
    if kind in NUMBERS and kind != "float16":
        from udfgate_worker.moments import reading

        return reading(type_)
    if extension == UDF_DECIMAL:
        return _decimals(standard("decimal", "Decimal")), "a decimal number"
    if kind in DECIMALS:
        decimal = standard("decimal", "Decimal")
        return lambda values: map(decimal, values), "a decimal number"
    if extension in (JSON, ARROW_JSON, VARIANT):
        loads = standard("json", "loads")
        return lambda values: map(loads, values), "JSON"
    if extension == UUID:
        uuid = standard("uuid", "UUID")
        return lambda values: [uuid(bytes=value) for value in values], "16 bytes"
    if kind in INTERVALS:
        from udfgate.interval import Interval

        if kind == "month_interval":
            return lambda values: [Interval(months) for (months,) in values], ""
        if kind == "day_time_interval":
            return lambda values: [Interval(0, days, ms * _MS_NS) for days, ms in values], ""
        return lambda values: [Interval(*parts) for parts in values], ""
    return None


def _decimals(decimal: type) -> object:
    """Texts that a sender wrote: where a body has switched off InvalidOperation, what is no number would become NaN."""

    def run(values: list) -> list:
        made = list(map(decimal, values))
        for number, text in zip(made, values):
            if number.is_nan() and "nan" not in text.lower():
                raise ValueError
        return made

    return run


def _leaf(type_: Type, run: object, held: str) -> object:
    """Errors of a single value are told by its own text: who asks for more than one asks again one by one."""

    def misfit(value: object, error: BaseException) -> Misfit:
        content = type_.kind not in NUMBERS or type(error) is Inexact
        name = "ValueError" if content else "OverflowError"
        return Misfit(name, f"argument: wanted {held}, got {type_} {shown(value)}")

    def convert(values: list) -> list:
        try:
            return list(run(values))
        except MemoryError:
            raise
        except Exception:
            pass
        present = [value for value in values if value is not None]
        try:
            made = iter(list(run(present)))
        except MemoryError:
            raise
        except Exception as e:
            raise misfit(_first_bad(run, present), e) from None
        return [None if value is None else next(made) for value in values]

    return convert


def _first_bad(run: object, values: list) -> object:
    for value in values:
        try:
            list(run([value]))
        except Exception:
            return value
    return values[0]


def _lists(item: object) -> object:
    def convert(values: list) -> list:
        present = [value for value in values if value is not None]
        made = iter(item(list(chain.from_iterable(present))))
        return [None if value is None else list(islice(made, len(value))) for value in values]

    return convert


def _structs(type_: Type, members: list, written: bool) -> "object | None":
    names = [name for name, _, _ in type_.children]
    if type_.view == "tuple" or written:
        return _tuples(members, names, type_.view == "tuple")
    converted = [(name, member) for name, member in zip(names, members) if member]
    if not converted:
        return None

    def convert(values: list) -> list:
        """In place: marshal made the dicts for us alone."""
        present = [value for value in values if value is not None]
        for name, member in converted:
            for value, made in zip(present, member([value[name] for value in present])):
                value[name] = made
        return values

    return convert


def _tuples(members: list, names: list, stay: bool) -> "object | None":
    """Structs that come as tuples, or as dicts, and stay tuples or are to be dicts."""
    if stay and not any(members):
        return None

    def convert(values: list) -> list:
        present = [value for value in values if value is not None]
        if dict in set(map(type, present)):
            present = [tuple(map(value.get, names)) if type(value) is dict else value for value in present]
        columns = list(zip(*present))
        columns = [member(list(column)) if member else column for member, column in zip(members, columns)]
        made = zip(*columns) if columns else iter([()] * len(present))
        if not stay:
            made = (dict(zip(names, row)) for row in made)
        return [None if value is None else next(made) for value in values]

    return convert


def _maps(type_: Type, parts: list, written: bool) -> "object | None":
    pairs = type_.view == "pairs"
    if not any(parts) and not written:
        return None

    def convert(values: list) -> list:
        present = [value for value in values if value is not None]
        flat = [list(value.items()) if type(value) is dict else value for value in present]
        entries = list(chain.from_iterable(flat))
        columns = list(zip(*entries)) if entries else [(), ()]
        columns = [part(list(column)) if part else column for part, column in zip(parts, columns)]
        made = zip(*columns)
        whole = [list(islice(made, len(value))) for value in flat]
        built = iter(whole if pairs else map(dict, whole))
        return [None if value is None else next(built) for value in values]

    return convert
