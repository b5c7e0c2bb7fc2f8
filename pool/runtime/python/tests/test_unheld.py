"""Arguments that Python's classes cannot hold are errors of their row, whatever the mode."""

import unittest

from case import WorkerCase

KEEP = 2
SOURCE = """
from datetime import date
from udfgate import udf

runs = []

def same(x):
    runs.append(x)
    if x == date(1970, 1, 4):
        raise ValueError("three")
    return None if x is None else str(x)

row = udf(name="row", input_types=["DATE"], result_type="VARCHAR")(same)
skip = udf(name="skip", input_types=["DATE"], result_type="VARCHAR", null_handling="skip")(same)
every = udf(name="every", input_types=["DATE"], result_type="VARCHAR", mode="list", elementwise=True)(
    lambda x: list(map(same, x)))
whole = udf(name="whole", input_types=["DATE"], result_type="VARCHAR", mode="list")(lambda x: list(map(str, x)))
two = udf(name="two", input_types=["INT", "timestamp[ns]", "JSON"], result_type="VARCHAR", null_handling="skip")(
    lambda *x: repr(x))

@udf(input_types=[], result_type="VARCHAR")
def ran():
    texts = " ".join(map(str, runs))
    runs.clear()
    return texts
"""
EACH = {
    "date32": (2**31 - 1, "OverflowError", "a year from 1 to 9999, got date32 2147483647"),
    "date64[ms]": (1, "ValueError", "a whole day of a year from 1 to 9999, got date64 1"),
    "time32[s]": (86400, "OverflowError", "a time of day, got time32[s] 86400"),
    "time64[ns]": (1, "ValueError", "a time of day and whole microseconds, got time64[ns] 1"),
    "timestamp[s]": (2**62, "OverflowError", f"a year from 1 to 9999, got timestamp[s] {2**62}"),
    "timestamp[ns]": (-1, "ValueError", "a year from 1 to 9999 and whole microseconds, got timestamp[ns] -1"),
    "timestamp[us, tz=UTC]": (2**62, "OverflowError", f"a year from 1 to 9999, got timestamp[us, UTC] {2**62}"),
    "timestamp[s, tz=Asia/Tokyo]": (
        253402300799, "OverflowError", "a year from 1 to 9999, got timestamp[s, Asia/Tokyo] 253402300799"),
    "duration[s]": (2**62, "OverflowError", f"at most 999999999 days, got duration[s] {2**62}"),
    "JSON": ("{bad", "ValueError", "JSON, got utf8 as arrowudf.json '{bad'"),
    "extension<arrowudf.decimal>": ("1,5", "ValueError", "a decimal number, got utf8 as arrowudf.decimal '1,5'"),
    "DATE[]": ([0, 2932897], "OverflowError", "a year from 1 to 9999, got date32 2932897"),
    "STRUCT<a DATE, b INT>": ({"a": 10**7, "b": 1}, "OverflowError", "a year from 1 to 9999, got date32 10000000"),
    "MAP(INT, JSON)": ({1: "x"}, "ValueError", "JSON, got utf8 as arrowudf.json 'x'"),
}  # fmt: skip
FAR = 2932897
TEXT = "argument x: wanted a year from 1 to 9999, got date32 2932897"


class Unheld(WorkerCase):
    SOURCE = SOURCE

    def test_each_type(self):
        names = list(EACH)
        gate = self.load(
            f"from udfgate import udf\nfor at, name in enumerate({names!r}):\n"
            "    globals()['f%d' % at] = udf(name='f%d' % at, input_types=[name], result_type='INT')(lambda value: 1)\n"
        )
        for at, name in enumerate(names):
            value, error_class, text = EACH[name]
            for rows in ([value], [None, None, value, None], [None] * 70 + [value] * 3):
                error = gate.call(f"f{at}", rows, block=64).error
                got = error.row, error.kind, error.name, error.text
                self.assertEqual(got, (rows.index(value), 2, error_class, f"argument value: wanted {text}"), name)
                kept = gate.call(f"f{at}", rows, block=64, flags=KEEP).segments[0]
                self.assertEqual(kept.values, [None if one == value else 1 for one in rows])
                texts = [f"{error_class}: {error.text}" if one == value else None for one in rows]
                self.assertEqual(kept.texts, texts)

    def test_rows_before_it_are_run(self):
        for name in ("row", "skip", "every"):
            self.gate.call("ran", rows=1)
            error = self.gate.call(name, [0, 1, FAR, 2]).error
            self.assertEqual((error.row, error.kind, error.text), (2, 2, TEXT), name)
            self.assertEqual(self.gate.call("ran", rows=1).values, ["1970-01-01 1970-01-02"], name)
            error = self.gate.call(name, [0, 3, FAR]).error
            self.assertEqual((error.row, error.kind, error.name), (1, 1, "ValueError"), name)
            error = self.gate.call(name, [0] * 20 + [FAR], block=8).error
            self.assertEqual((error.row, error.text), (20, TEXT), name)
            error = self.gate.call(name, [FAR] * 20 + [FAR], block=8, lo=8).error
            self.assertEqual((error.row, error.text), (8, TEXT), name)
        self.gate.call("ran", rows=1)

    def test_a_body_over_all_rows_is_not_run(self):
        error = self.gate.call("whole", [0, FAR, 2]).error
        self.assertEqual((error.row, error.kind, error.text), (1, 2, TEXT))

    def test_keep_going(self):
        for name in ("row", "skip", "every", "whole"):
            for rows in ([0, FAR, None, 2], [FAR], [FAR, FAR, 0] * 7):
                got = self.gate.call(name, rows, flags=KEEP, block=8).segments[0]
                null = "None" if name == "whole" else None
                shown = {0: "1970-01-01", 2: "1970-01-03", FAR: None, None: null}
                self.assertEqual(got.values, [shown[one] for one in rows], name)
                self.assertEqual(got.texts, [f"OverflowError: {TEXT}" if one == FAR else None for one in rows], name)

    def test_raises_beside_it(self):
        for name in ("row", "skip", "every"):
            got = self.gate.call(name, [3, FAR, 0], flags=KEEP).segments[0]
            self.assertEqual(got.values, [None, None, "1970-01-01"])
            self.assertEqual(got.texts, ["ValueError: three", f"OverflowError: {TEXT}", None], name)

    def test_the_first_argument_is_named_and_nulls_are_skipped(self):
        numbers, moments, texts = [1, 2, None, 4], [1000, 1, 1, 2000], ["{}", "{", "{", "[]"]
        error = self.gate.call("two", numbers, moments, texts).error
        wanted = "argument x1: wanted a year from 1 to 9999 and whole microseconds, got timestamp[ns] 1"
        self.assertEqual((error.row, error.text), (1, wanted))
        got = self.gate.call("two", numbers, moments, texts, flags=KEEP).segments[0]
        self.assertEqual(got.texts, [None, "ValueError: " + wanted, None, None])
        self.assertEqual([value is None for value in got.values], [False, True, True, False])

    def test_a_body_that_changes_the_decimal_context(self):
        gate = self.load("""
            import decimal
            from udfgate import udf
            decimal.getcontext().prec = 3
            decimal.getcontext().traps[decimal.InvalidOperation] = False
            decimal.getcontext().traps[decimal.FloatOperation] = True
            decimal.getcontext().capitals = 0
            same = udf(name="same", input_types=["DECIMAL(20, 5)"], result_type="DECIMAL(20, 5)")(lambda x: x)
            text = udf(name="text", input_types=["extension<arrowudf.decimal>"], result_type="VARCHAR")(lambda arg0: str(arg0))
            half = udf(name="half", input_types=["INT"], result_type="DECIMAL(20, 5)")(lambda x: [x + 0.5, x][x % 2])
            """)
        self.assertEqual(gate.call("same", ["123456789.12345"]).values, ["123456789.12345"])
        self.assertEqual(gate.call("text", ["123456789.12345", "NaN"]).values, ["123456789.12345", "NaN"])
        self.assertEqual(gate.call("text", ["1", "x"]).error.text, "argument arg0: wanted a decimal number, got "
                         "utf8 as arrowudf.decimal 'x'")  # fmt: skip
        self.assertEqual(gate.call("half", [2, 12345]).values, ["2.50000", "12345.00000"])

    def test_a_body_that_changes_what_it_gets(self):
        gate = self.load("""
            from udfgate import udf
            @udf(mode="list", elementwise=True, input_types=["INT[]", "JSON"], result_type="INT")
            def taken(lists, docs):
                found = []
                for numbers, doc in zip(lists, docs):
                    doc["n"] += 1
                    found.append(numbers.pop() + doc["n"])
                if 9 in found:
                    raise ValueError("nine")
                return found
            """)
        lists, docs = [[1, 2], [3], [4], [5]], ['{"n": 1}', '{"n": 2}', '{"n": 4}', '{"n": 8}']
        got = gate.call("taken", lists, docs, flags=KEEP).segments[0]
        self.assertEqual(got.values, [4, 6, None, 14])
        self.assertEqual(got.texts, [None, None, "ValueError: nine", None])


if __name__ == "__main__":
    unittest.main()
