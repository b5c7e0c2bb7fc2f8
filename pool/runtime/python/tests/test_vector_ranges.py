"""Columns that a library lets a body make though they hold what their type does not: a named error, in every mode."""

import unittest

from test_vectors import LACKING, VectorCase

if not LACKING:
    import pyarrow as pa

DAY_S = 86_400
MODES = ("arrow", "numpy", "polars")
SHAPES = ("plain", "lists", "structs")

# result type → (pyarrow's type, width of its numbers, numbers of three rows, the row that is wrong, its error, what that has)
CASES = {
    "time32[s]": (
        "pa.time32('s')",
        4,
        [0, DAY_S - 1, DAY_S],
        2,
        "OverflowError",
        "got int 86400 of time32[s]: no time of day",
    ),
    "time32[ms]": (
        "pa.time32('ms')",
        4,
        [DAY_S * 1000 - 1, -1, 0],
        1,
        "OverflowError",
        "got int -1 of time32[ms]: no time of day",
    ),
    "time64[us]": (
        "pa.time64('us')",
        8,
        [DAY_S * 10**6, 0, 1],
        0,
        "OverflowError",
        "got int 86400000000 of time64[us]: no time of day",
    ),
    "time64[ns]": (
        "pa.time64('ns')",
        8,
        [0, 1001, DAY_S * 10**9],
        2,
        "OverflowError",
        "got int 86400000000000 of time64[ns]: no time of day",
    ),
    "date64": ("pa.date64()", 8, [0, DAY_S * 1000, 1], 2, "ValueError", "got int 1 of date64[ms]: no whole day"),
    "decimal32(3, 1)": ("pa.decimal32(3, 1)", 4, [999, -999, 1000], 2, "OverflowError", "got Decimal Decimal('100.0')"),
    "decimal64(3, 1)": ("pa.decimal64(3, 1)", 8, [-1000, 999, 0], 0, "OverflowError", "got Decimal Decimal('-100.0')"),
    "decimal128(3, 1)": ("pa.decimal128(3, 1)", 16, [0, 1000, 0], 1, "OverflowError", "got Decimal Decimal('100.0')"),
    "decimal256(3, 1)": (
        "pa.decimal256(3, 1)",
        32,
        [0, 999, -1000],
        2,
        "OverflowError",
        "got Decimal Decimal('-100.0')",
    ),
}
SOURCE = """
import numpy as np, polars as pl, pyarrow as pa
from udfgate import udf

def raw(kind, width, numbers, gone):  # unchecked; row `gone` is null
    data = b"".join([n.to_bytes(width, "little", signed=True) for n in numbers])
    valid = None if gone is None else pa.py_buffer(bytes([255 ^ 1 << gone]))
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(data)])

def lists(items):
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), items)

def structs(items):
    return pa.StructArray.from_arrays([items], ["a"])
"""


def source():
    lines = [SOURCE]
    for at, kind in enumerate(CASES):
        for mode in MODES:
            for shape, result in zip(SHAPES, (kind, f"ARRAY({kind})", f"STRUCT<a {kind}>")):
                name = f"{mode}_{shape}_{at}"
                options = f"name={name!r}, mode={mode!r}, input_types=['VARCHAR'], result_type={result!r}"
                lines.append(f"{name} = udf({options})(lambda text: eval(str(text[0])))")
    return "\n".join(lines)


class TestRanges(VectorCase):
    SOURCE = source()

    def ask(self, mode, shape, kind, numbers, gone=None, **options):
        arrow, width = CASES[kind][:2]
        made = f"raw({arrow}, {width}, {numbers}, {gone})"
        expression = made if shape == "plain" else f"{shape}({made})"
        at = list(CASES).index(kind)
        return self.gate.ask(f"{mode}_{shape}_{at}", pa.array([expression] * 3), **options).segments[0]

    def each(self):
        for kind, case in CASES.items():
            for shape in SHAPES:
                for mode in MODES:
                    with self.subTest(kind=kind, shape=shape, mode=mode):
                        yield mode, shape, kind, *case[2:]

    def test_the_row_is_named(self):
        for mode, shape, kind, numbers, row, name, text in self.each():
            segment = self.ask(mode, shape, kind, numbers)
            self.assertEqual(segment.status, 1, segment.values)
            found = segment.errors[0]
            self.assertEqual((found.row, found.name), (row, name))
            self.assertTrue(found.text.startswith("result: wanted "), found.text)
            self.assertIn(kind, found.text)
            self.assertIn(text, found.text)

    def test_under_a_null_it_is_nothing(self):
        for mode, shape, kind, numbers, row, _, _ in self.each():
            segment = self.ask(mode, shape, kind, numbers, row)
            self.assertEqual(segment.status, 0, segment.errors and segment.errors[0].text)
            values = segment.values
            one = values if shape == "plain" else values.flatten()[0] if shape == "structs" else values.flatten()
            self.assertEqual((one.null_count, one.is_valid()[row].as_py()), (1, False))

    def test_the_others_are_kept(self):
        """Nanoseconds, which Python's classes do not hold, are not what is wrong with a column."""
        for shape in ("plain", "lists"):
            segment = self.ask("arrow", shape, "time64[ns]", [1001, DAY_S * 10**9, 7], flags=2)
            values = segment.values if shape == "plain" else [one and one[0] for one in segment.values]
            self.assertEqual((segment.status, values), (0, [1001, None, 7]))
            self.assertIn("OverflowError: result: wanted time64[ns]", segment.texts[1])

    def test_a_scalar_is_no_row(self):
        at = list(CASES).index("time64[us]")
        answer = "list(raw(pa.time64('us'), 8, [1, 2, 3], None))"
        segment = self.gate.ask(f"arrow_plain_{at}", pa.array([answer] * 3)).segments[0]
        self.assertEqual((segment.errors[0].row, segment.errors[0].name), (0, "TypeError"))


if __name__ == "__main__":
    unittest.main()
