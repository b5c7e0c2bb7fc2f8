"""Encoders of the types that are not plain; encode.py says what an encoder does."""

from marshal import dumps

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.convert import converter
from udfgate_worker.encode import Blocks, Floats, Ints
from udfgate_worker.frames import FORM_MARSHAL, one_tail
from udfgate_worker.kinds import NUMBERS, Type
from udfgate_worker.wire import to_wire


def rich_encoder(type_: Type, nullable: bool, views: dict) -> "Ints | Floats | Blocks":
    """The encoder of a type that is not plain. Raises Unserved."""
    if type_.kind == "float16":
        return Floats(type_, nullable, views, NUMBERS["float16"])
    return (_Moments if type_.kind in NUMBERS else _Trees)(type_, nullable, views)


class _Moments(Ints):
    """Dates, times, timestamps, durations: integers."""

    def __init__(self, type_: Type, nullable: bool, views: dict) -> None:
        super().__init__(type_, nullable, views, NUMBERS[type_.kind])
        self.wire = to_wire(type_)

    def single(self) -> object:
        store, wire = super().single(), self.wire

        def one(value: object, arena: int, base: int, limit: int) -> "bytes | None":
            try:
                (number,) = wire([value], False)
            except BaseException:
                return None
            return store(number, arena, base, limit)

        return one

    def fast(self, values: list) -> bool:
        try:
            values = self.wire(values, self.nullable)
        except BaseException:
            return False
        return super().fast(values)


class _Trees(Blocks):
    """Everything else: marshal blocks of value forms."""

    def __init__(self, type_: Type, nullable: bool, views: dict) -> None:
        super().__init__(type_, nullable, views)
        self.wire, self.unwire = to_wire(type_), converter(type_, True)

    def single(self) -> object:
        raw, words, wire, nullable = self.raw, self.words, self.wire, self.nullable

        def one(value: object, arena: int, base: int, limit: int) -> "bytes | None":
            try:
                block = dumps(wire([value], nullable), 4)
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

    def block(self, values: list) -> "bytes | None":
        try:
            return dumps(self.wire(values, self.nullable), 4)
        except BaseException:
            return None

    def restored(self, values: list) -> list:
        return values if self.unwire is None else self.unwire(values)
