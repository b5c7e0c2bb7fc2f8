"""Every type in both directions, with and without nulls, at the edges of blocks."""

import math
import struct
import unittest

from case import BLOCK_ROWS, WorkerCase
from gateway import ARROW, CODES, MARSHAL

TYPES = ("bool", *CODES, "utf8", "binary")
SOURCE = (
    "from udfgate import udf\n"
    + "".join(
        f"""
same_{kind} = udf(name="same_{kind}", input_types=["{kind}"], result_type="{kind}")(lambda x: x)
copy_{kind} = udf(name="copy_{kind}", input_types=["{kind}"], result_type="{kind}")(
    lambda x: x if x is None else type(x)(x) if not isinstance(x, (str, bytes)) else x[:1] + x[1:])
strict_{kind} = udf(name="strict_{kind}", input_types=["{kind}"], result_type="{kind} not null")(lambda x: x)
"""
        for kind in TYPES
    )
    + """
@udf
def three(a: int, b: str, c: float) -> str:
    return f"{a} {b} {c}"

@udf
def none() -> int:
    none.count = getattr(none, "count", 0) + 1
    return none.count

@udf(input_types=["int64"] * 12, result_type="int64")
def many(*numbers):
    return sum(numbers)
"""
)


def some(rnd, kind, rows, nulls):
    """Random values of a type, with the edges of its range."""
    if kind == "bool":
        make = lambda: rnd.random() < 0.5  # noqa: E731
    elif kind == "utf8":
        make = lambda: rnd.choice(("", "a", "Zoë", "\U0001f600", "N", "x" * 255, "x" * 256, str(rnd.random())))  # noqa: E731
    elif kind == "binary":
        make = lambda: rnd.choice((b"", b"N", b"\xff\x00", bytes(300), str(rnd.random()).encode()))  # noqa: E731
    elif kind == "float64":
        make = lambda: rnd.choice((0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324, rnd.uniform(-1e300, 1e300)))  # noqa: E731
    elif kind == "float32":
        make = lambda: struct.unpack("<f", struct.pack("<f", rnd.choice((-0.0, 1.1, math.inf, 3e38, rnd.random()))))[0]  # noqa: E731
    else:
        bits = 8 * struct.calcsize(CODES[kind])
        least, most = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        make = lambda: rnd.choice((least, most, 0, rnd.randint(least, most)))  # noqa: E731
    return [None if rnd.random() < nulls else make() for _ in range(rows)]


class Values(WorkerCase):
    SOURCE = SOURCE

    def test_every_type_without_nulls(self):
        rnd, seed = self.seeded()
        for kind in TYPES:
            for rows in BLOCK_ROWS:
                values = some(rnd, kind, rows, 0)
                for name in ("same", "strict"):
                    got = self.gate.call(f"{name}_{kind}", values).values
                    self.assertEqual(repr(got), repr(values), (kind, rows, name, seed))

    def test_every_type_with_nulls(self):
        rnd, seed = self.seeded()
        for kind in TYPES:
            for rows in (1, 7, 8, 9, 4095, 4097):
                for share in (0.01, 0.3, 0.9, 1):
                    values = some(rnd, kind, rows, share)
                    got = self.gate.call(f"copy_{kind}", values)
                    self.assertEqual(repr(got.values), repr(values), (kind, rows, share, seed))
                    if kind not in ("utf8", "binary"):
                        self.assertEqual(got.segments[0].nulls, values.count(None))

    def test_nulls_that_begin_in_a_later_block(self):
        for kind, value in (("int64", 5), ("float32", 0.5), ("bool", True)):
            values = [value] * 100 + [None] + [value] * 20
            self.assertEqual(self.gate.call(f"same_{kind}", values, block=64).values, values, kind)

    def test_nan(self):
        for kind in ("float32", "float64"):
            for rows in (1, 3):
                got = self.gate.call(f"copy_{kind}", [math.nan] * rows).values
                self.assertTrue(all(map(math.isnan, got)), got)

    def test_block_lengths(self):
        rnd, seed = self.seeded()
        for kind in ("int64", "utf8", "bool"):
            for block in (8, 64, 2048, 4096):
                values = some(rnd, kind, 5000, 0.05)
                self.assertEqual(self.gate.call(f"same_{kind}", values, block=block).values, values, (block, seed))

    def test_ranges_of_a_batch(self):
        rnd, seed = self.seeded()
        for kind in TYPES:
            values = some(rnd, kind, 1000, 0.1)
            for lo, hi in ((0, 8), (8, 9), (64, 1000), (992, 1000), (504, 504), (16, 977)):
                got = self.gate.call(f"same_{kind}", values, lo=lo, hi=hi, block=64).values
                self.assertEqual(repr(got), repr(values[lo:hi]), (kind, lo, hi, seed))

    def test_neutral_form_of_text(self):
        rnd, seed = self.seeded()
        for kind in ("utf8", "binary"):
            for rows in (0, 1, 9, 500):
                values = some(rnd, kind, rows, 0.2)
                got = self.gate.call(f"same_{kind}", values, forms=[ARROW], block=64).values
                self.assertEqual(got, values, (kind, rows, seed))
            values = some(rnd, kind, 100, 0.2)
            self.assertEqual(self.gate.call(f"same_{kind}", values, forms=[ARROW], lo=16, hi=17).values, values[16:17])

    def test_random_batches(self):
        rnd, seed = self.seeded()
        for _ in range(150):
            kind = rnd.choice(TYPES)
            rows = rnd.choice((1, 2, 63, 64, 65, rnd.randrange(300)))
            values = some(rnd, kind, rows, rnd.choice((0, 0, 0.1, 0.5, 1)))
            lo = rnd.randrange(rows // 8 + 1) * 8
            hi = rnd.randint(lo, max(lo, rows))
            options = {"lo": lo, "hi": hi, "block": 8 * rnd.randint(1, 16), "base": 64 * rnd.randrange(4)}
            got = self.gate.call(f"{rnd.choice(('same', 'copy'))}_{kind}", values, **options).values
            self.assertEqual(repr(got), repr(values[lo:hi]), (kind, rows, options, seed))

    def test_several_columns_of_unlike_types(self):
        for rows in (1, 2, 5000):
            columns = [list(range(rows)), [f"t{i}" for i in range(rows)], [i / 2 for i in range(rows)]]
            wanted = [f"{a} {b} {c}" for a, b, c in zip(*columns)]
            self.assertEqual(self.gate.call("three", *columns, block=512).values, wanted)
            got = self.gate.call("three", *columns, forms=[ARROW, ARROW, ARROW], block=512).values
            self.assertEqual(got, wanted)

    def test_no_arguments(self):
        first = self.gate.call("none", rows=1).values[0]
        self.assertEqual(self.gate.call("none", rows=5000).values, list(range(first + 1, first + 5001)))
        self.assertEqual(self.gate.call("none", rows=0).values, [])

    def test_many_columns(self):
        columns = [[i, 10 * i] for i in range(12)]
        self.assertEqual(self.gate.call("many", *columns).values, [66, 660])

    def test_shared_and_interned_texts(self):
        self.assertEqual(
            self.gate.call("same_utf8", ["yes", "yes", "", "a", "a"] * 50).values, ["yes", "yes", "", "a", "a"] * 50
        )

    def test_segments_of_two_batches(self):
        function = self.gate.function("same_utf8")
        for kind, first, second in (("same_utf8", ["a", None, "c"], ["x"] * 100), ("same_int64", [1, None], [2] * 9)):
            function = self.gate.function(kind)
            self.gate.input.at = 0
            segments = [
                self.gate.segment(function, [first], len(first), 0, len(first), 8),
                self.gate.segment(function, [second], len(second), 8, len(second), 8),
                self.gate.segment(function, [second], len(second), 0, 1, 8),
            ]
            got = self.gate.call(kind, segments=segments, block=8)
            self.assertEqual([segment.values for segment in got.segments], [first, second[8:], second[:1]])

    def test_forms_stay_what_they_are_called(self):
        self.assertEqual((ARROW, MARSHAL), (1, 2))


if __name__ == "__main__":
    unittest.main()
