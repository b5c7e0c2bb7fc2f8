"""A column in arrow form: which buffers a type has, and one that is written as a whole.

Buffers stand in pre-order, a type's own before its children's, as in Arrow's IPC; a child's length follows from its
parent.
"""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import FIXED
from udfgate_worker.frames import FORM_ARROW
from udfgate_worker.kinds import NUMBERS, Type
from udfgate_worker.region import Region

WIDTHS = {kind: 1 << shift for kind, (_, shift) in (*FIXED.items(), *NUMBERS.items())}
WIDTHS.update(decimal32=4, decimal64=8, decimal128=16, decimal256=32)
WIDTHS.update(month_interval=4, day_time_interval=8, month_day_nano_interval=16)
OFFSETS = {"utf8": 4, "binary": 4, "list": 4, "map": 4, "large_utf8": 8, "large_binary": 8, "large_list": 8}


def width_of(type_: Type) -> int:
    """Bytes of one value; 0 where values have no width of their own."""
    return type_.size if type_.kind == "fixed_size_binary" else WIDTHS.get(type_.kind, 0)


def buffers_of(type_: Type) -> int:
    """How many buffers a column of the type has, with those of its children."""
    kind = type_.kind
    if kind == "null":
        return 0
    own = {"fixed_size_list": 1, "struct": 1, "list": 2, "large_list": 2, "map": 3}  # map: with its entries' validity
    own.update(utf8=3, binary=3, large_utf8=3, large_binary=3)
    return own.get(kind, 2) + sum([buffers_of(child) for _, child, _ in type_.children])


class Whole:
    """The buffers of an answer, as bytes-likes, and its nulls."""

    __slots__ = ("nulls", "pieces", "rows")

    def __init__(self, rows: int, nulls: int, pieces: list) -> None:
        self.rows, self.nulls, self.pieces = rows, nulls, pieces

    def __len__(self) -> int:
        return self.rows

    def write(self, region: Region) -> tuple:
        """The column as it stands in RESULT. Raises what Region raises."""
        sizes = [len(piece) for piece in self.pieces]
        need = region.used + 8 + sum([size + 7 & ~7 for size in sizes])
        region.room(need, need)
        places: list = []
        for piece, size in zip(self.pieces, sizes):
            if not size:
                places += (0, 0)
                continue
            at = region.take(size)
            start = region.base + at
            region.view[start : start + size] = piece
            places += (at, size)
        return FORM_ARROW, 0, self.nulls, *places
