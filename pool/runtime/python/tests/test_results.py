"""Exact or an error: what results a column takes, what it says otherwise, and which row it blames."""

import unittest

from case import WorkerCase

SOURCE = '''
import array
import decimal
import enum
import fractions
import math

from udfgate import udf

class Number(enum.IntEnum):
    ONE = 1

class Index:
    def __index__(self):
        return 5

class BadIndex:
    def __index__(self):
        raise SystemExit("no index")

class HasFloat:
    def __float__(self):
        return 1.0

class Text(str):
    def __str__(self):
        return "not me"

class MyFloat(float):
    pass

class Hostile:
    @property
    def __class__(self):
        return int

    def __repr__(self):
        raise KeyboardInterrupt

    def __eq__(self, other):
        raise ValueError("no truth")

class Meta(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)

class Worse(metaclass=Meta):
    pass

class Unhashable(type):
    """A class of it cannot be put into a set."""

    def __eq__(cls, other):
        raise SystemExit("no comparing")

class V(metaclass=Unhashable):
    def __repr__(self):
        return "V()"

class Exiting(type):
    def __hash__(cls):
        raise SystemExit("no hash")

class W(metaclass=Exiting):
    def __repr__(self):
        return Shown("W()")

class Shown(str):
    def __format__(self, spec):
        raise SystemExit("no format")

class Liar(type):
    """Passes for another class."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(cls.other)

class LikeFloat(metaclass=Liar):
    other = float

class LikeBytes(metaclass=Liar):
    other = bytes

class Real:
    def __index__(self):
        return 5.7

class I(int):
    def __index__(self):
        return 9

    def __le__(self, other):
        raise SystemExit("no order")

class ManyFaced(int, metaclass=Meta):
    pass

class bool_:
    """Looks like numpy's."""

    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value

bool_.__module__ = "numpy"

class float32:
    def __float__(self):
        return 0.5

float32.__module__ = "numpy"

class Array:
    """Compares like a numpy array."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("ambiguous")

released = memoryview(b"x")
released.release()
VALUES = {}

def body(key):
    return eval(key)

for kind in ("bool", "int8", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64", "utf8", "binary"):
    globals()["to_" + kind] = udf(name="to_" + kind, input_types=["utf8"], result_type=kind + " NOT NULL")(body)
    globals()["nullable_" + kind] = udf(name="nullable_" + kind, input_types=["utf8"], result_type=kind)(body)
'''

TAKEN = [
    ("int64", "True", 1),
    ("int64", "Number.ONE", 1),
    ("int64", "Index()", 5),
    ("int64", "bool_(True)", 1),
    ("int64", "I(5)", 5),
    ("int64", "ManyFaced(5)", 5),
    ("float64", "I(5)", 5.0),
    ("float32", "ManyFaced(5)", 5.0),
    ("int8", "-128", -128),
    ("uint64", "2**64 - 1", 2**64 - 1),
    ("float64", "2**53", 2.0**53),
    ("float64", "-(2**70)", -(2.0**70)),
    ("float64", "MyFloat(0.1)", 0.1),
    ("float64", "MyFloat(-0.0)", -0.0),
    ("float64", "math.inf", float("inf")),
    ("float64", "Index()", 5.0),
    ("float64", "float32()", 0.5),
    ("float32", "16777216", 16777216.0),
    ("float32", "1e-50", 0.0),
    ("float32", "-math.inf", float("-inf")),
    ("bool", "bool_(False)", False),
    ("utf8", "Text('plain')", "plain"),
    ("binary", "bytearray(b'ab')", b"ab"),
    ("binary", "memoryview(b'abcd')[::2]", b"ac"),
]

REFUSED = [
    ("int64", "None", "TypeError", "result: wanted int64, got None"),
    ("int64", "'text'", "TypeError", "result: wanted int64, got str 'text'"),
    ("int64", "1.0", "TypeError", "result: wanted int64, got float 1.0"),
    ("int64", "2**70", "OverflowError", "result: wanted int64, got int 1180591620717411303424"),
    ("int64", "-(2**63) - 1", "OverflowError", "result: wanted int64, got int -9223372036854775809"),
    ("int64", "decimal.Decimal(1)", "TypeError", "result: wanted int64, got Decimal Decimal('1')"),
    ("int64", "BadIndex()", "TypeError", None),
    ("int64", "Hostile()", "TypeError", "result: wanted int64, got Hostile (no repr: KeyboardInterrupt)"),
    ("int64", "Worse()", "TypeError", None),
    ("int64", "Array()", "TypeError", None),
    ("int64", "[1]", "TypeError", "result: wanted int64, got list [1]"),
    ("int64", "Real()", "TypeError", None),
    ("float64", "Real()", "TypeError", None),
    ("int8", "I(128)", "OverflowError", None),
    ("float64", "LikeFloat()", "TypeError", None),
    ("binary", "LikeBytes()", "TypeError", None),
    ("int8", "128", "OverflowError", "result: wanted int8, got int 128"),
    ("uint8", "-1", "OverflowError", "result: wanted uint8, got int -1"),
    ("uint8", "256", "OverflowError", "result: wanted uint8, got int 256"),
    ("uint32", "-1", "OverflowError", "result: wanted uint32, got int -1"),
    ("uint32", "2**32", "OverflowError", "result: wanted uint32, got int 4294967296"),
    ("uint64", "-1", "OverflowError", "result: wanted uint64, got int -1"),
    ("uint64", "2**64", "OverflowError", "result: wanted uint64, got int 18446744073709551616"),
    ("int32", "2**31", "OverflowError", "result: wanted int32, got int 2147483648"),
    ("float64", "None", "TypeError", "result: wanted float64, got None"),
    ("float64", "True", "TypeError", "result: wanted float64, got bool True"),
    ("float64", "bool_(True)", "TypeError", None),
    ("float64", "2**53 + 1", "ValueError", "result: 9007199254740993 is not exact in float64"),
    ("float64", "10**400", "OverflowError", None),
    ("float64", "decimal.Decimal('0.5')", "TypeError", "result: wanted float64, got Decimal Decimal('0.5')"),
    ("float64", "fractions.Fraction(1, 2)", "TypeError", "result: wanted float64, got Fraction Fraction(1, 2)"),
    ("float64", "HasFloat()", "TypeError", None),
    ("float64", "'1.0'", "TypeError", "result: wanted float64, got str '1.0'"),
    ("float64", "1j", "TypeError", "result: wanted float64, got complex 1j"),
    ("float64", "Hostile()", "TypeError", None),
    ("float32", "16777217", "ValueError", "result: 16777217 is not exact in float32"),
    ("float32", "1e300", "OverflowError", "result: wanted float32, got float 1e+300"),
    ("float32", "10**39", "OverflowError", None),
    ("bool", "1", "TypeError", "result: wanted bool, got int 1"),
    ("bool", "0.0", "TypeError", "result: wanted bool, got float 0.0"),
    ("bool", "None", "TypeError", "result: wanted bool, got None"),
    ("bool", "...", "TypeError", "result: wanted bool, got ellipsis Ellipsis"),
    ("bool", "'T'", "TypeError", "result: wanted bool, got str 'T'"),
    ("utf8", "Text('\\ud800')", "ValueError", "result: wanted utf8, got str '\\ud800' with a lone surrogate"),
    ("utf8", "Hostile()", "TypeError", None),
    ("utf8", "fractions.Fraction(1, 2)", "TypeError", "result: wanted utf8, got Fraction Fraction(1, 2)"),
    ("binary", "'text'", "TypeError", "result: wanted binary, got str 'text'"),
    ("binary", "None", "TypeError", "result: wanted binary, got None"),
    ("binary", "array.array('b', [1])", "TypeError", "result: wanted binary, got array array('b', [1])"),
    ("binary", "released", "ValueError", None),
    ("binary", "5", "TypeError", "result: wanted binary, got int 5"),
]
GOOD = {
    "bool": "True", "float32": "0.5", "float64": "0.5", "utf8": "'ok'", "binary": "b'ok'",
}  # fmt: skip


class Results(WorkerCase):
    SOURCE = SOURCE

    def test_taken(self):
        for kind, source, wanted in TAKEN:
            for rows in (1, 3):
                got = self.gate.call("to_" + kind, [source] * rows).values
                self.assertEqual(repr(got), repr([wanted] * rows), (kind, source))
            got = self.gate.call("nullable_" + kind, [source, "None", source]).values
            self.assertEqual(repr(got), repr([wanted, None, wanted]), (kind, source))

    def test_refused(self):
        for kind, source, name, text in REFUSED:
            good = GOOD.get(kind, "7")
            for rows, at in ((1, 0), (2, 1), (20, 17)):
                error = self.gate.call("to_" + kind, [good] * at + [source] + [good] * (rows - at - 1), block=8).error
                self.assertEqual((error.row, error.kind, error.name), (at, 2, name), (kind, source, error))
                self.assertTrue(error.text.startswith("result: "), error)
                if text is not None:
                    self.assertEqual(error.text, text)

    def test_classes_without_a_hash(self):
        for kind in ("bool", "int64", "float32", "float64", "utf8", "binary"):
            good = GOOD.get(kind, "7")
            for value in ("V", "W"):
                text = f"result: wanted {kind}, got {value} {value}()"
                for name in ("to_", "nullable_"):
                    for rows in ([f"{value}()"], [good, good, f"{value}()", good], [good, good, f"{value}()", "1/0"]):
                        error = self.gate.call(name + kind, rows).error
                        self.assertEqual((error.row, error.kind, error.text), (len(rows) // 2, 2, text), (name, rows))

    def test_a_value_does_not_depend_on_the_other_rows(self):
        for one in ("I(5)", "ManyFaced(5)", "Index()"):
            for others in ([], ["7"], ["None"], ["bool_(True)"]):
                self.assertEqual(self.gate.call("nullable_int64", [one, *others]).values[0], 5, (one, others))
                self.assertEqual(self.gate.call("nullable_float64", [one, *["0.5" for _ in others]]).values[0], 5.0)

    def test_none_where_null_is_allowed(self):
        for kind in GOOD:
            self.assertEqual(self.gate.call("nullable_" + kind, ["None"]).values, [None])
            self.assertEqual(self.gate.call("nullable_" + kind, ["None"] * 9).values, [None] * 9)

    def test_a_misfit_among_nulls(self):
        for kind, bad in (("int64", "'x'"), ("float64", "'x'"), ("bool", "1"), ("binary", "'x'")):
            error = self.gate.call("nullable_" + kind, ["None", "None", bad]).error
            self.assertEqual((error.row, error.kind), (2, 2), kind)

    def test_the_smallest_row_wins(self):
        for kind, bad in (("int64", "None"), ("float64", "1j"), ("bool", "2"), ("binary", "3"), ("utf8", "4")):
            good = GOOD.get(kind, "7")
            for rows in (
                [good, bad, good, "1/0"],
                [bad] + [good] * 30 + ["1/0"],
                [good] * 9 + [bad] + [good] * 7 + ["1/0"],
            ):
                error = self.gate.call("to_" + kind, rows, block=8).error
                self.assertEqual((error.row, error.kind), (rows.index(bad), 2), (kind, error))
            error = self.gate.call("to_" + kind, [good, "1/0", bad], block=8).error
            self.assertEqual((error.row, error.kind, error.name), (1, 1, "ZeroDivisionError"))

    def test_misfits_count_rows_in_the_batch(self):
        values = ["7"] * 30 + ["'x'"]
        error = self.gate.call("to_int64", values, lo=16, block=8).error
        self.assertEqual(error.row, 30)
        self.assertEqual(self.gate.call("to_int64", values, lo=16, hi=30, block=8).values, [7] * 14)

    def test_long_reprs_are_cut(self):
        error = self.gate.call("to_int64", ["'x' * 10**6"]).error
        self.assertLess(len(error.text), 150)
        self.assertTrue(error.text.endswith("..."), error.text)
        error = self.gate.call("to_int64", ["2", "10**6000"]).error
        self.assertEqual((error.row, error.name), (1, "OverflowError"))


if __name__ == "__main__":
    unittest.main()
