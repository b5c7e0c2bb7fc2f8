"""Results: from Python values to arena bytes, one block at a time.

An encoder belongs to one function and is used for one segment at a time:

    begin(out, rows, step)     start a segment of `rows` rows in blocks of `step`
    put(values)                the next block, a list of Python values
    fast(values)               put them, or False: the strict rules must decide
    put_exact(values)          put exact values (strict.py), or None wherever it stands
    size()                     bytes that the answer has at least, counted from the region's base
    end()                      → the column as it stands in RESULT: form, blocks, nulls, then offset and length twice
    check(values)              raise Misfit if one of the values, or one of a block already put, does not fit
    restored(values)           values read back from blocks put, as a body gives them
    marshal                    whether the answer is in marshal form
    single()                   → one(value, arena, base, limit), which writes a single row at base of an output arena
                               and returns the end of its RESULT (frames.one_tail), or None: use begin, put, end

put raises Misfit with the row counted from the start of its block, and what Region raises. Values and their classes
are the body's, and so may raise anything when they are looked at: whatever does goes the strict way.
"""

from itertools import chain
from marshal import dumps, loads
from struct import Struct
from sys import modules

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import FIXED, VARIABLE
from udfgate_worker.frames import FORM_FLAT, FORM_MARSHAL, one_tail
from udfgate_worker.region import Region
from udfgate_worker.strict import Misfit, exact_values

PACKERS_MAX = 64  # structs kept per type; blocks come in few lengths
_MARSHAL_VALUES = 5  # where the values begin: after "[" and the count
_NONE = type(None)
_VALID = bytes(c != 0x4E for c in range(256))  # marshal tag → valid byte
_TRUE = bytes(c == 0x54 for c in range(256))  # marshal tag → bool byte


def encoder(type_name: str, nullable: bool, views: dict) -> "Flat | Blocks":
    """The encoder of a result type. views as in Arenas. Raises Unserved for one that is not plain (kinds.Type)."""
    if type(type_name) is not str:
        from udfgate_worker.rich import rich_encoder

        return rich_encoder(type_name, nullable, views)
    if type_name in VARIABLE:
        return Blocks(type_name, nullable, views)
    return {"bool": _Bools, "float32": Floats, "float64": Floats}.get(type_name, Ints)(type_name, nullable, views)


class Packers(dict):
    """Struct of n values of a code, by n. Native codes pack faster; "<f" is the one that refuses to overflow."""

    def __init__(self, code: str) -> None:
        self._pattern = "<%df" if code == "f" else "%d" + code

    def __missing__(self, count: int):
        if len(self) >= PACKERS_MAX:
            self.clear()
        pack = self[count] = Struct(self._pattern % count).pack_into
        return pack


class Flat:
    """Fixed width: values one after the other, then, if one is null, a byte per row that says which are valid."""

    width = 0
    marshal = False

    def __init__(self, type_name: str, nullable: bool, views: dict, layout: "tuple | None" = None) -> None:
        """layout: struct code and shift, if they are not those of a plain type."""
        self.type_name, self.nullable = type_name, nullable
        code, shift = layout or FIXED.get(type_name, ("B", 0))
        self.width, self.shift = 1 << shift, shift
        self.views, self.raw = views.get(code), views["B"]
        self.packers = Packers(code)

    def _one_tail(self) -> bytes:
        return one_tail(FORM_FLAT, 0, self.width, (0, 0), (0, self.width))

    def begin(self, out: Region, rows: int, _step: int) -> None:
        self.out, self.rows, self.valid, self.nulls = out, 0, None, 0
        self.at = out.take(rows * self.width)

    def fast(self, values: list) -> bool:
        raise NotImplementedError

    def put(self, values: list) -> None:
        if not self.fast(values):
            self.put_exact(exact_values(self.type_name, self.nullable, values))

    def put_exact(self, values: list) -> None:
        self._pack([0 if value is None else value for value in values])
        if None in values:
            self._some_valid(bytes([value is not None for value in values]))
        else:
            self._all_valid(len(values))

    def size(self) -> int:
        return self.out.used + self.rows

    def check(self, values: list) -> None:
        exact_values(self.type_name, self.nullable, values)

    def end(self) -> tuple:
        if self.valid is None:
            return FORM_FLAT, 0, 0, 0, 0, self.at, self.rows * self.width
        out, size = self.out, len(self.valid)
        at = out.take(size)
        out.view[out.base + at : out.base + at + size] = self.valid
        return FORM_FLAT, 0, self.nulls, at, size, self.at, self.rows * self.width

    def _pack(self, values: list) -> None:
        out = self.out
        self.packers[len(values)](out.view, out.base + self.at + self.rows * self.width, *values)

    def _all_valid(self, count: int) -> None:
        self.rows += count
        if self.valid is not None:
            self.valid += b"\1" * count

    def _some_valid(self, valid: bytes) -> None:
        if self.valid is None:
            self.valid = bytearray(b"\1" * self.rows)
        self.valid += valid
        self.nulls += valid.count(0)
        self.rows += len(valid)


class Ints(Flat):
    """struct checks the range, takes ints, bools (True is exactly 1) and what has __index__, and refuses the rest."""

    def single(self) -> object:
        views, shift, tail = self.views, self.shift, self._one_tail()

        def one(value: object, arena: int, base: int, _limit: int) -> "bytes | None":
            try:
                views[arena][base >> shift] = value
            except BaseException:  # __index__ is the body's code
                return None
            return tail

        return one

    def fast(self, values: list) -> bool:
        try:
            self._pack(values)
        except BaseException:
            return self.nullable and self._fast_nullable(values)
        self._all_valid(len(values))
        return True

    def _fast_nullable(self, values: list) -> bool:
        try:
            self._pack([0 if value is None else value for value in values])
        except BaseException:
            return False
        self._some_valid(bytes([value is not None for value in values]))
        return True


class Floats(Flat):
    """struct would round ints, take bools and ask any object for __float__, so the types are looked at first."""

    def single(self) -> object:
        raw, pack, tail = self.raw, self.packers[1], self._one_tail()

        def one(value: object, arena: int, base: int, _limit: int) -> "bytes | None":
            if type(value) is not float:
                return None
            try:
                pack(raw[arena], base, value)
            except OverflowError:
                return None
            return tail

        return one

    def fast(self, values: list) -> bool:
        try:
            types = set(map(type, values))  # a metaclass may refuse to be hashed or compared
            types.discard(float)
            if not types:
                self._pack(values)
                self._all_valid(len(values))
                return True
            if self.nullable and types == {_NONE}:
                self._pack([0.0 if value is None else value for value in values])
                self._some_valid(bytes([value is not None for value in values]))
                return True
        except BaseException:
            pass
        return False


class _Bools(Flat):
    """marshal writes True, False and None as one byte each, and everything else that it takes as more or another."""

    def single(self) -> object:
        raw, tail = self.raw, self._one_tail()

        def one(value: object, arena: int, base: int, _limit: int) -> "bytes | None":
            if value is not True and value is not False:
                return None
            raw[arena][base] = value
            return tail

        return one

    def fast(self, values: list) -> bool:
        try:
            tags = dumps(values, 2)[_MARSHAL_VALUES:]
        except BaseException:
            return False
        count = len(values)
        nulls = count - tags.count(b"T") - tags.count(b"F")
        if len(tags) != count or (nulls and (not self.nullable or tags.count(b"N") != nulls)):
            return False
        out, at = self.out, self.out.base + self.at + self.rows
        out.view[at : at + count] = tags.translate(_TRUE)
        if nulls:
            self._some_valid(tags.translate(_VALID))
        else:
            self._all_valid(count)
        return True


class Blocks:
    """utf8 and binary: an index, then one marshal list per block. The gateway checks the tags in its own copy."""

    marshal = True

    def __init__(self, type_name: str, nullable: bool, views: dict) -> None:
        self.type_name, self.nullable = type_name, nullable
        self.raw, self.words = views["B"], views["Q"]  # of all arenas
        # Any buffer becomes bytes in marshal, numpy's scalars and its texts too, so the types are looked at first: for
        # binary always, for text where there is numpy, whose texts alone are both.
        self.its = bytes if type_name == "binary" else str
        self.types = {self.its, _NONE} if nullable else {self.its}

    def single(self) -> object:
        raw, words, its, nullable = self.raw, self.words, self.its, self.nullable

        def one(value: object, arena: int, base: int, limit: int) -> "bytes | None":
            if not nullable if value is None else type(value) is not its:
                return None
            try:
                block = dumps([value], 4)
            except BaseException:
                return None
            size = len(block)
            if 16 + size > limit:
                return None
            index, at = words[arena], base >> 3
            index[at], index[at + 1] = 0, size
            base += 16
            raw[arena][base : base + size] = block
            return one_tail(FORM_MARSHAL, 1, 16 + size, (0, 16), (16, size))

        return one

    def begin(self, out: Region, rows: int, step: int) -> None:
        self.out, self.rows, self.step = out, rows, step
        self.index = out.take(8 * (1 + _blocks(rows, step)))
        self.at = out.take(0)
        self.ends = [0]

    def fast(self, values: list) -> bool:
        block = self.block(values)
        if block is None:
            return False
        self._write(block)
        return True

    def block(self, values: list) -> "bytes | None":
        """The marshal block of values, or None: the strict rules must decide."""
        try:
            if (self.its is bytes or "numpy" in modules) and not set(map(type, values)) <= self.types:
                return None
            return dumps(values, 4)
        except BaseException:
            return None

    def restored(self, values: list) -> list:
        return values

    def put(self, values: list) -> None:
        if not self.fast(values):
            self._write(self._strict(values))

    def put_exact(self, values: list) -> None:
        self._write(dumps(values, 4))

    def size(self) -> int:
        return self.at + self.ends[-1]

    def _write(self, block: bytes) -> None:
        end = self.ends[-1] + len(block)
        out = self.out
        if self.at + end > out.limit:
            self._grow(end)
        start = out.base + self.at + self.ends[-1]
        out.view[start : start + len(block)] = block
        self.ends.append(end)

    def _grow(self, end: int) -> None:
        """Ask for the room of all blocks at once, by the size of those that are here."""
        guess = end * _blocks(self.rows, self.step) // len(self.ends)
        self.out.room(self.at + end, self.at + guess + guess // 8)

    def end(self) -> tuple:
        out, blocks, size = self.out, len(self.ends) - 1, self.ends[-1]
        Struct("<%dQ" % (blocks + 1)).pack_into(out.view, out.base + self.index, *self.ends)
        out.used = self.at + size
        return FORM_MARSHAL, blocks, 0, self.index, 8 * (blocks + 1), self.at, size

    def check(self, values: list) -> None:
        """The row of a Misfit counts from the first row of the segment if it lies in an earlier block, below 0 then."""
        before = self.put_so_far()
        try:
            exact_values(self.type_name, self.nullable, chain(before, values))
        except Misfit as misfit:
            misfit.row -= len(before)
            raise

    def put_so_far(self) -> list:
        """The values of all blocks put, read back."""
        out, values = self.out, []
        for start, end in zip(self.ends, self.ends[1:]):
            values += self.restored(loads(out.view[out.base + self.at + start : out.base + self.at + end]))
        return values

    def _strict(self, values: list) -> bytes:
        try:
            return dumps(exact_values(self.type_name, self.nullable, values), 4)
        except Misfit:
            self.check(values)  # raises, for a row of an earlier block if there is one
            raise


def _blocks(rows: int, step: int) -> int:
    return -(-rows // step)
