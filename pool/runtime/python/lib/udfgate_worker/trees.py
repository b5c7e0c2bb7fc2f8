"""Columns in arrow form as value forms, those that a marshal block has: for modes whose library has no such type.

    reader_of(type)(raw, places, lo, hi)    → the values of rows [lo, hi)

raw: memory by arena, as bytes; places: an iterator over (arena, offset, length) of the column's buffers, in pre-order.
"""

from struct import unpack_from

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import FIXED
from udfgate_worker.kinds import DECIMALS, NUMBERS, Type
from udfgate_worker.whole import OFFSETS, width_of

_CODES = {**{kind: code for kind, (code, _) in FIXED.items()}, **{kind: code for kind, (code, _) in NUMBERS.items()}}
_INTERVALS = {"month_interval": "i", "day_time_interval": "ii", "month_day_nano_interval": "iiq"}


def reader_of(type_: Type) -> object:
    """The reader of a type."""
    kind = type_.kind
    if kind == "null":
        return lambda raw, places, lo, hi: [None] * (hi - lo)
    read = _READ.get(kind) or (_fixed_list(type_) if kind == "fixed_size_list" else None)
    if read is None:
        read = _numbers(_CODES[kind]) if kind in _CODES else _pieces(type_)
    elif kind in ("struct", "map", "list", "large_list"):
        read = read(type_)

    def reader(raw: dict, places: object, lo: int, hi: int) -> list:
        valid = next(places)
        values = read(raw, places, lo, hi)
        return _gaps(raw, valid, values, lo, hi) if valid[2] else values

    return reader


def _gaps(raw: dict, valid: tuple, values: list, lo: int, hi: int) -> list:
    bits = _bits(raw, valid, lo, hi)
    return [value if bit == "1" else None for value, bit in zip(values, bits)]


def _bits(raw: dict, place: tuple, lo: int, hi: int) -> str:
    """Bits [lo, hi) as characters."""
    arena, offset, _ = place
    number = int.from_bytes(raw[arena][offset + (lo >> 3) : offset + (hi + 7 >> 3)], "little") >> (lo & 7)
    return bin(number & (1 << hi - lo) - 1 | 1 << hi - lo)[:2:-1]


def _bools(raw: dict, places: object, lo: int, hi: int) -> list:
    return [bit == "1" for bit in _bits(raw, next(places), lo, hi)]


def _unpacked(raw: dict, place: tuple, code: str, width: int, lo: int, hi: int) -> tuple:
    arena, offset, _ = place
    return unpack_from("<%d%s" % (hi - lo, code), raw[arena], offset + lo * width)


def _numbers(code: str) -> object:
    width = {"b": 1, "B": 1, "h": 2, "H": 2, "e": 2, "i": 4, "I": 4, "f": 4}.get(code, 8)
    return lambda raw, places, lo, hi: list(_unpacked(raw, next(places), code, width, lo, hi))


def _pieces(type_: Type) -> object:
    """Values that are some bytes each: decimals, intervals, fixed_size_binary."""
    width, kind = width_of(type_), type_.kind
    parts, scale = _INTERVALS.get(kind), type_.scale

    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        arena, offset, _ = next(places)
        memory = raw[arena]
        pieces = [bytes(memory[at : at + width]) for at in range(offset + lo * width, offset + hi * width, width or 1)]
        if not width:
            return [b""] * (hi - lo)
        if parts:
            return [unpack_from("<" + parts, piece) for piece in pieces]
        if kind in DECIMALS:
            return [_digits(int.from_bytes(piece, "little", signed=True), scale) for piece in pieces]
        return pieces

    return read


def _digits(number: int, scale: int) -> str:
    """A decimal as text, of the column's scale."""
    if scale <= 0:
        return f"{number}E+{-scale}" if scale else str(number)
    text = str(abs(number)).rjust(scale + 1, "0")
    return ("-" if number < 0 else "") + text[:-scale] + "." + text[-scale:]


def _ends(raw: dict, places: object, width: int, lo: int, hi: int) -> tuple:
    place = next(places)
    if not place[2]:  # no row, no offset
        return (0,) * (hi - lo + 1)
    return _unpacked(raw, place, "i" if width == 4 else "q", width, lo, hi + 1)


def _variable(text: bool, width: int) -> object:
    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        ends = _ends(raw, places, width, lo, hi)
        arena, offset, _ = next(places)
        memory = raw[arena]
        data = [memory[offset + start : offset + end] for start, end in zip(ends, ends[1:])]
        # What lies under a null may be no text.
        return [str(one, "utf-8", "replace") for one in data] if text else list(map(bytes, data))

    return read


def _lists(type_: Type) -> object:
    item, width = reader_of(type_.children[0][1]), OFFSETS[type_.kind]

    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        ends = _ends(raw, places, width, lo, hi)
        items = item(raw, places, ends[0], ends[-1])
        return [items[start - ends[0] : end - ends[0]] for start, end in zip(ends, ends[1:])]

    return read


def _fixed_list(type_: Type) -> object:
    item, size = reader_of(type_.children[0][1]), type_.size

    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        items = item(raw, places, lo * size, hi * size)
        return [items[at * size : (at + 1) * size] for at in range(hi - lo)]

    return read


def _structs(type_: Type) -> object:
    readers = [reader_of(child) for _, child, _ in type_.children]
    names = [name for name, _, _ in type_.children]
    tuples = type_.view == "tuple"

    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        columns = [reader(raw, places, lo, hi) for reader in readers]
        rows = zip(*columns) if columns else iter([()] * (hi - lo))
        return list(rows) if tuples else [dict(zip(names, row)) for row in rows]

    return read


def _maps(type_: Type) -> object:
    key, value = [reader_of(child) for _, child, _ in type_.children]
    pairs = type_.view == "pairs"

    def read(raw: dict, places: object, lo: int, hi: int) -> list:
        ends = _ends(raw, places, 4, lo, hi)
        next(places)  # entries are never null
        first, last = ends[0], ends[-1]
        entries = list(zip(key(raw, places, first, last), value(raw, places, first, last)))
        rows = [entries[start - first : end - first] for start, end in zip(ends, ends[1:])]
        return rows if pairs else list(map(dict, rows))

    return read


_READ = {
    "bool": _bools,
    "utf8": _variable(True, 4),
    "large_utf8": _variable(True, 8),
    "binary": _variable(False, 4),
    "large_binary": _variable(False, 8),
    "list": _lists,
    "large_list": _lists,
    "struct": _structs,
    "map": _maps,
}
