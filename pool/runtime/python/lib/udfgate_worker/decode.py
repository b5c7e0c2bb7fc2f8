"""Arguments: from arena bytes to Python values, a row or a block at a time.

A reader is a pair of functions over the unpacked fields `f` of a CALL's columns, where the column's own begin at `i`:
f[i] form | nbuf << 16, f[i + 1] arena, f[i + 2] nulls, f[i + 3] and on: offset and length of each buffer.

    one(f, i, row)            → the value of one row
    block(f, i, lo, hi, k)    → list of the values of rows [lo, hi), the k-th block of the call

Rows are those of the batch. lo is a multiple of 8. A KeyError is an arena that is not mapped.
"""

from itertools import compress
from marshal import loads

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import FORM_ARROW, FORM_MARSHAL, ProtocolError

# Native struct code and the shift that turns a byte offset into an index, by type.
FIXED = {
    "int8": ("b", 0),
    "int16": ("h", 1),
    "int32": ("i", 2),
    "int64": ("q", 3),
    "uint8": ("B", 0),
    "uint16": ("H", 1),
    "uint32": ("I", 2),
    "uint64": ("Q", 3),
    "float32": ("f", 2),
    "float64": ("d", 3),
}
VARIABLE = ("utf8", "binary")
TYPES = ("bool", *FIXED, *VARIABLE)

_HOLE_FLAGS = bytes(c == 0x31 for c in range(256))  # "1" of bin() → 1
_BITS: list = []  # the 8 bools of each byte, made when first needed


def readers(type_name: str, views: dict) -> dict:
    """The readers of a type by form | nbuf << 16, as CALL columns say it. views as in Arenas.

    A type that is not plain is a kinds.Type; its readers may raise BadArguments. Raises Unserved.
    """
    if type(type_name) is not str:
        from udfgate_worker.convert import rich_readers

        return rich_readers(type_name, views)
    if type_name in FIXED:
        return {FORM_ARROW | 2 << 16: fixed(*FIXED[type_name], views)}
    if type_name == "bool":
        return {FORM_ARROW | 2 << 16: _bool(views["B"])}
    return {
        FORM_MARSHAL | 2 << 16: marshalled(views["B"], views["Q"]),
        FORM_ARROW | 3 << 16: offsets(type_name == "utf8", views["B"], views["i"]),
    }


def usual_form(type_name: str) -> int:
    """The form | nbuf << 16 in which the gateway sends a type to this worker. It has two buffers."""
    if type(type_name) is not str:
        from udfgate_worker.kinds import NUMBERS

        return (FORM_ARROW if type_name.kind in NUMBERS else FORM_MARSHAL) | 2 << 16
    return (FORM_MARSHAL if type_name in VARIABLE else FORM_ARROW) | 2 << 16


def is_null(raw: dict, f: tuple, i: int, row: int) -> bool:
    """Whether a row is null, in a column whose nulls are not 0."""
    return f[i + 4] > 0 and not raw[f[i + 1]][f[i + 3] + (row >> 3)] >> (row & 7) & 1


def holes(raw: dict, f: tuple, i: int, lo: int, hi: int) -> str:
    """The nulls among rows [lo, hi) as one character per row, "1" where null; cut after the last null."""
    if not f[i + 4]:
        return ""
    at = f[i + 3] + (lo >> 3)
    bits = int.from_bytes(raw[f[i + 1]][at : at + (hi - lo + 7 >> 3)], "little")
    gaps = ~bits & (1 << hi - lo) - 1
    return bin(gaps)[:1:-1] if gaps else ""


def patch(values: list, gaps: str) -> None:
    """Put None at the gaps. Rare ones are found by searching (2 ns per row), many by a mask."""
    if gaps.count("1") << 3 > len(values):
        for at in compress(range(len(values)), gaps.encode().translate(_HOLE_FLAGS)):
            values[at] = None
        return
    at = gaps.find("1")
    while at >= 0:
        values[at] = None
        at = gaps.find("1", at + 1)


def _odd(offset: int) -> ProtocolError:
    return ProtocolError(f"buffer at {offset}, which is not a multiple of 8")


def fixed(code: str, shift: int, views: dict) -> tuple:
    """The reader of numbers."""
    mine, raw = views[code], views["B"]

    def one(f: tuple, i: int, row: int):
        if f[i + 2] and is_null(raw, f, i, row):
            return None
        return mine[f[i + 1]][(f[i + 5] >> shift) + row]

    def block(f: tuple, i: int, lo: int, hi: int, _k: int) -> list:
        at = f[i + 5]
        if at & 7:
            raise _odd(at)
        at >>= shift
        values = mine[f[i + 1]][at + lo : at + hi].tolist()
        if f[i + 2]:
            patch(values, holes(raw, f, i, lo, hi))
        return values

    return one, block


def _bool(raw: dict) -> tuple:
    def one(f: tuple, i: int, row: int):
        if f[i + 2] and is_null(raw, f, i, row):
            return None
        return raw[f[i + 1]][f[i + 5] + (row >> 3)] >> (row & 7) & 1 == 1

    def block(f: tuple, i: int, lo: int, hi: int, _k: int) -> list:
        if not _BITS:
            _BITS.extend([tuple([byte >> bit & 1 == 1 for bit in range(8)]) for byte in range(256)])
        at = f[i + 5] + (lo >> 3)
        values: list = []
        for eight in map(_BITS.__getitem__, raw[f[i + 1]][at : at + (hi - lo + 7 >> 3)]):
            values += eight
        del values[hi - lo :]
        if f[i + 2]:
            patch(values, holes(raw, f, i, lo, hi))
        return values

    return one, block


def marshalled(raw: dict, words: dict) -> tuple:
    """The reader of marshal blocks."""

    def block(f: tuple, i: int, lo: int, hi: int, k: int) -> list:
        arena, at = f[i + 1], f[i + 3]
        if at & 7:
            raise _odd(at)
        index, data = words[arena], f[i + 5]
        at = (at >> 3) + k
        values = loads(raw[arena][data + index[at] : data + index[at + 1]])
        if len(values) != hi - lo:
            raise ProtocolError(f"block {k} has {len(values)} values, wanted {hi - lo}")
        return values

    def one(f: tuple, i: int, row: int):
        return block(f, i, row, row + 1, 0)[0]

    return one, block


def offsets(text: bool, raw: dict, ints: dict) -> tuple:
    """The neutral form of text and binary. This gateway sends it to workers that do not offer marshal."""

    def block(f: tuple, i: int, lo: int, hi: int, _k: int) -> list:
        arena, at = f[i + 1], f[i + 5]
        if at & 7:
            raise _odd(at)
        ends = ints[arena][(at >> 2) + lo : (at >> 2) + hi + 1].tolist()
        memory, data = raw[arena], f[i + 7]
        gaps = holes(raw, f, i, lo, hi).ljust(hi - lo, "0") if f[i + 2] else "0" * (hi - lo)
        values: list = []
        start = ends[0]
        for end, gap in zip(ends[1:], gaps):
            if gap == "1":
                values.append(None)
            else:
                value = memory[data + start : data + end]
                values.append(str(value, "utf-8") if text else bytes(value))
            start = end
        return values

    def one(f: tuple, i: int, row: int):
        lo = row & ~7
        return block(f, i, lo, row + 1, 0)[row - lo]

    return one, block
