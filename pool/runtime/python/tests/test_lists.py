"""Mode list: one call of the body per segment; and rows with nulls that a body does not see."""

import unittest

from case import WorkerCase
from gateway import ARROW

KEEP = 2

SOURCE = """
from udfgate import udf

sizes = []

@udf(mode="list")
def add(a: int, b: int) -> int:
    sizes.append(len(a))
    return [None if x is None or y is None else x + y for x, y in zip(a, b)]

@udf(mode="list")
def seen() -> str:
    last = str(sizes)
    sizes.clear()
    return [last]

@udf(batch=True)
def upper(text: "str | None") -> "str | None":
    return [value and value.upper() for value in text]

@udf(batch_mode=True)
def same(value: bool) -> bool:
    return value

@udf(mode="list")
def any_answer(text: str) -> int:
    return eval(text[0])

class Mine(list):
    def __iter__(self):
        return iter([9, 9, 9])

    def __len__(self):
        return 77

def strict(numbers):
    sizes.append(len(numbers))
    result = []
    while numbers:  # takes its list apart
        number = numbers.pop(0)
        if number % 100 == 37:
            raise ValueError("no %d" % number)
        result.append("fits not" if number % 100 == 61 else number)
    return result

halved = udf(name="halved", mode="list", elementwise=True, input_types=["INT"], result_type="INT NOT NULL")(strict)
whole = udf(name="whole", mode="list", input_types=["INT"], result_type="INT NOT NULL")(strict)
lengths = udf(name="lengths", mode="list", elementwise=True, input_types=["VARCHAR"], result_type="VARCHAR")(
    lambda texts: [text * (6 // len(text)) for text in texts])

@udf(mode="list", elementwise=True)
def flaky(a: int) -> int:
    if len(a) > 4:
        raise MemoryError
    return a

@udf(mode="list", elementwise=True)
def few(a: int) -> int:
    if len(a) > 4:
        raise ValueError
    return a[1:]

def exact(a, b):
    if a == 5:
        raise ValueError("five")
    return None if a == 6 else "x" if a == 7 else a // b

skip = udf(name="skip", null_handling="skip", input_types=["INT", "INT"], result_type="INT NOT NULL")(exact)

@udf(skip_null=True, mode="list")
def skip_list(a: int, b: str) -> str:
    sizes.append(len(a))
    if 5 in a:
        raise ValueError("five")
    return [y * x for x, y in zip(a, b)]

@udf(skip_null=True, mode="list", elementwise=True)
def skip_halved(a: int) -> int:
    return [10 // x for x in a]
"""


class Lists(WorkerCase):
    SOURCE = SOURCE

    def sizes(self):
        return eval(self.gate.call("seen", rows=1).values[0])

    def test_one_call_of_the_body(self):
        self.sizes()
        for rows in (1, 2, 8, 9, 100, 4097):
            values = list(range(rows))
            got = self.gate.call("add", values, values, block=8 if rows < 4000 else 4096)
            self.assertEqual(got.values, [2 * value for value in values])
        self.assertEqual(self.sizes(), [1, 2, 8, 9, 100, 4097])
        self.assertEqual(self.gate.call("add", [], []).values, [])
        self.assertEqual(self.sizes(), [])

    def test_ranges_and_types(self):
        self.assertEqual(self.gate.call("add", list(range(50)), [1] * 50, lo=8, hi=31).values, list(range(9, 32)))
        values = ["a", None, "Zoë", "", "z" * 300] * 500
        for forms in (None, [ARROW]):
            got = self.gate.call("upper", values, block=64, forms=forms)
            self.assertEqual(got.values, [value and value.upper() for value in values])
        self.assertEqual(self.gate.call("same", [True, False] * 9, block=8).values, [True, False] * 9)

    def test_answers(self):
        for text, want in (("[1, 2, 3]", [1, 2, 3]), ("(1, True, 3)", [1, 1, 3]), ("Mine([4, 5, 6])", [4, 5, 6])):
            self.assertEqual(self.gate.call("any_answer", [text] * 3).values, want)
        for text, why in (
            ("[1, 2]", "wanted 3 results, got 2"),
            ("[]", "wanted 3 results, got 0"),
            ("[1] * 4", "wanted 3 results, got 4"),
            ("Mine()", "wanted 3 results, got 0"),
            ("None", "wanted a list of 3 results, got None"),
            ("(x for x in [1, 2, 3])", "wanted a list of 3 results, got generator"),
            ("range(3)", "wanted a list of 3 results, got range"),
            ("'abc'", "wanted a list of 3 results, got str"),
            ("{1, 2, 3}", "wanted a list of 3 results, got set"),
        ):
            for flags in (0, KEEP):
                error = self.gate.call("any_answer", [text] * 3, flags=flags).error
                self.assertEqual((error.kind, error.name, error.text, error.trace), (3, "", why, ""))

    def test_raises_belong_to_all_rows(self):
        for flags in (0, KEEP):
            for text, name, why in (
                ("1/0", "ZeroDivisionError", "division by zero"),
                ("next(iter([]))", "StopIteration", ""),
                ("exit(3)", "SystemExit", "3"),
            ):
                error = self.gate.call("any_answer", [text, "", ""], flags=flags).error
                self.assertEqual((error.kind, error.name, error.text), (3, name, why))
                self.assertIn("served.py", error.trace)
                self.assertNotIn("udfgate_worker", error.trace)

    def test_misfits_have_their_row(self):
        error = self.gate.call("any_answer", ["[1, 2, 'x', 4, None]"] * 5).error
        self.assertEqual((error.row, error.kind, error.text), (2, 2, "result: wanted int64, got str 'x'"))
        error = self.gate.call("whole", list(range(40, 80)), lo=8, block=8).error
        self.assertEqual((error.row, error.kind, error.text), (21, 2, "result: wanted int32, got str 'fits not'"))
        only = self.gate.call("any_answer", ["[1, 2, 'x', 4, None]"] * 5, flags=KEEP).segments[0]
        self.assertEqual(only.values, [1, 2, None, 4, None])
        self.assertEqual(only.texts[2:], ["TypeError: result: wanted int64, got str 'x'", None,
                                          "TypeError: result: wanted int64, got None"])  # fmt: skip

    def test_halving_finds_the_smallest_row(self):
        self.sizes()
        error = self.gate.call("halved", list(range(200)), block=8).error
        self.assertEqual((error.row, error.kind, error.name, error.text), (37, 1, "ValueError", "no 37"))
        self.assertIn("in strict", error.trace)
        sizes = self.sizes()
        self.assertEqual(sizes, [200, 100, 50, 25, 25, 12, 13, 6, 3, 1])
        error = self.gate.call("halved", list(range(50, 200)), lo=8, block=8).error
        self.assertEqual((error.row, error.kind), (11, 2))  # 61 does not fit, in front of 137, which raises
        error = self.gate.call("halved", [37]).error
        self.assertEqual((error.row, error.kind), (0, 1))

    def test_halving_and_keeping(self):
        for rows in (1, 2, 3, 64, 1000, 4097):
            numbers = [n * 7 + 37 for n in range(rows)]
            only = self.gate.call("halved", numbers, flags=KEEP, block=8 if rows < 4000 else 4096).segments[0]
            bad = {37: "ValueError: no {}", 61: "TypeError: result: wanted int32, got str 'fits not'"}
            self.assertEqual(only.values, [None if n % 100 in bad else n for n in numbers])
            self.assertEqual(only.texts, [bad[n % 100].format(n) if n % 100 in bad else None for n in numbers])
        texts = ["ab", "", "abc", "", "é"]
        only = self.gate.call("lengths", texts, flags=KEEP).segments[0]
        self.assertEqual(only.values, ["ababab", None, "abcabc", None, "éééééé"])
        self.assertEqual([t is None for t in only.texts], [True, False, True, False, True])

    def test_rows_that_fail_only_together(self):
        for flags in (0, KEEP):
            self.assertEqual(self.gate.call("flaky", list(range(19)), flags=flags).values, list(range(19)))
            error = self.gate.call("few", list(range(6)), flags=flags).error
            self.assertEqual((error.kind, error.name, error.text), (3, "", "wanted 3 results, got 2"))

    def test_no_arguments(self):
        self.gate.call("seen", rows=1)
        self.assertEqual(self.gate.call("seen", rows=3).error.text, "wanted 3 results, got 1")

    def test_phases(self):
        for name, column in (("upper", ["abc"] * 20_000), ("halved", list(range(20_000)))):
            fields = self.gate.call(name, column, flags=KEEP | 1).fields
            for phase in ("decode", "body", "encode", "body_cpu"):
                self.assertGreater(fields[phase], 0)


class Skips(WorkerCase):
    SOURCE = SOURCE

    def test_rows_with_nulls_are_not_given_to_the_body(self):
        a = [8, None, 3, None, 9] * 4
        b = [2, 1, None, None, 3] * 4
        got = self.gate.call("skip", a, b, block=8)
        self.assertEqual(got.values, [4, None, None, None, 3] * 4)
        self.assertEqual(self.gate.call("skip", [None], [1]).values, [None])
        self.assertEqual(self.gate.call("skip", [None] * 9, [None] * 9, block=8).values, [None] * 9)
        self.assertEqual(self.gate.call("skip", [8], [2]).values, [4])

    def test_rows_are_those_of_the_batch(self):
        ones = [1] * 20
        error = self.gate.call("skip", [None] * 9 + [5] + [1] * 10, ones, block=8).error
        self.assertEqual((error.row, error.kind, error.text), (9, 1, "five"))
        error = self.gate.call("skip", [None, 1, 7, None, 5] + [1] * 15, ones).error
        self.assertEqual((error.row, error.kind), (2, 2))
        only = self.gate.call("skip", [None, 1, 7, None, 5, 6] * 2, ones[:12], block=8, flags=KEEP).segments[0]
        self.assertEqual(only.values, [None, 1, None, None, None, None] * 2)
        self.assertEqual([t is None for t in only.texts], [True, True, False, True, False, True] * 2)

    def test_lists(self):
        self.gate.call("seen", rows=1)
        a, b = [1, None, 2, 3] * 5, ["a", "b", None, "d"] * 5
        self.assertEqual(self.gate.call("skip_list", a, b, block=8).values, ["a", None, None, "ddd"] * 5)
        self.assertEqual(self.gate.call("skip_list", [None] * 3, ["a"] * 3).values, [None] * 3)
        self.assertEqual(self.gate.call("seen", rows=1).values, ["[10]"])
        only = self.gate.call("skip_list", [1, None, 5], ["a"] * 3, flags=KEEP).segments[0]
        self.assertEqual(only.texts, ["ValueError: five", None, "ValueError: five"])
        self.assertEqual(only.values, [None] * 3)
        self.assertEqual(self.gate.call("skip_list", [1, None, 5], ["a"] * 3).error.kind, 3)

    def test_halving(self):
        error = self.gate.call("skip_halved", [None, 1, None, 2, 0, 5]).error
        self.assertEqual((error.row, error.kind, error.name), (4, 1, "ZeroDivisionError"))
        only = self.gate.call("skip_halved", [None, 1, None, 0, 2, 0], flags=KEEP).segments[0]
        self.assertEqual(only.values, [None, 10, None, None, 5, None])
        self.assertEqual([t is None for t in only.texts], [True, True, True, False, True, False])


if __name__ == "__main__":
    unittest.main()
