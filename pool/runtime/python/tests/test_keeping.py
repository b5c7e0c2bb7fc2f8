"""Keep going: a failed row is null, the rows after it run, and a second column says what each failed with."""

import os
import unittest

from case import WorkerCase
from gateway import NEED, RECODE, REFUSE

KEEP, MEASURE = 2, 1

SOURCE = """
import resource

from udfgate import udf

runs = []

class Odd(Exception):
    def __str__(self):
        raise SystemExit("no text")

class Long(Exception):
    pass

Long.__name__ = "L" * 400

class Index:
    def __index__(self):
        raise KeyboardInterrupt

    def __repr__(self):
        return "Index()"

def deep():
    return deep()

def body(text):
    runs.append(text)
    return eval(text)

def exits(text):
    raise SystemExit(text)

def stop():
    raise StopIteration("over")

for kind in ("bool", "int8", "int64", "float32", "float64", "utf8", "binary"):
    globals()["to_" + kind] = udf(name="to_" + kind, input_types=["utf8"], result_type=kind + " NOT NULL")(body)
    globals()["nullable_" + kind] = udf(name="nullable_" + kind, input_types=["utf8"], result_type=kind)(body)

def check(number):
    if number % 3 == 1:
        raise ValueError("no %d" % number)
    return number

thirds = udf(name="thirds", input_types=["int64"], result_type="int64 NOT NULL")(check)
thirds_text = udf(name="thirds_text", input_types=["int64"], result_type="utf8 NOT NULL")(
    lambda number: str(check(number)))
misfits = udf(name="misfits", input_types=["int64"], result_type="int8 NOT NULL")(lambda number: number)

def room(size):
    if size >= 0:
        with open("/proc/self/statm") as file:
            size += int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

@udf(input_types=["int64"], result_type="utf8")
def large(number):
    if number == 0:
        room(40 << 20)
    return "x" * (2 << 20) + str(number)

@udf
def unbound() -> bool:
    room(resource.RLIM_INFINITY)
    return True

long = udf(name="long", input_types=["int64"], result_type="int64")(lambda number: int("x" * 5000))

@udf
def always() -> int:
    always.count += 1
    if always.count % 2:
        raise ValueError(always.count)
    return always.count
always.count = 0
always.__wrapped__.count = 0

@udf
def pair(a: int, b: str) -> str:
    return b * (8 // a)
"""

GOOD = {
    "bool": ("True", True),
    "int8": ("5", 5),
    "int64": ("2**40", 2**40),
    "float32": ("0.5", 0.5),
    "float64": ("1.25", 1.25),
    "utf8": ("'Zoë'", "Zoë"),
    "binary": ("b'ab'", b"ab"),
}


class KeepGoing(WorkerCase):
    SOURCE = SOURCE

    def keep(self, name, *columns, recode=False, **options):
        """Values and texts of the one segment of a call that keeps going; after a RECODE too if asked for."""
        got = self.gate.call(name, *columns, flags=KEEP, **options)
        if recode:
            self.gate.put(RECODE, got.call)
            got = self.gate.result(name)
        only = got.segments[0]
        self.assertEqual((only.status, only.errors), (0, []))
        return only.values, only.texts

    def test_nothing_fails(self):
        for kind, (good, value) in GOOD.items():
            for rows in (0, 1, 7, 8, 9, 4097):
                got = self.keep("to_" + kind, [good] * rows)
                self.assertEqual(got, ([value] * rows, None), (kind, rows))
                got = self.keep("nullable_" + kind, ["None", good] * rows)
                self.assertEqual(got, ([None, value] * rows, None), (kind, rows))

    def test_one_row_fails_anywhere(self):
        for kind, (good, value) in GOOD.items():
            for rows, at in ((1, 0), (8, 0), (8, 7), (20, 8), (20, 19), (4097, 4096), (4097, 5)):
                for prefix in ("to_", "nullable_"):
                    texts = [good] * rows
                    texts[at] = "1/0"
                    values, why = self.keep(prefix + kind, texts, block=8 if rows < 4096 else 4096)
                    want = [value] * rows
                    want[at] = None
                    self.assertEqual(values, want, (kind, rows, at))
                    self.assertEqual(
                        {r: t for r, t in enumerate(why) if t}, {at: "ZeroDivisionError: division by zero"}
                    )

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "the limit is set from what /proc says")
    def test_no_memory_for_the_answer(self):
        got = self.gate.call("large", list(range(16)), flags=KEEP)
        self.assertEqual(self.gate.call("unbound", rows=1).values, [True])
        (error,) = got.segments[0].errors
        self.assertEqual((error.kind, error.name), (3, "MemoryError"))

    def test_misfits_of_every_type(self):
        for kind, bad, text in (
            ("bool", "1", "TypeError: result: wanted bool, got int 1"),
            ("int8", "200", "OverflowError: result: wanted int8, got int 200"),
            ("int64", "'x'", "TypeError: result: wanted int64, got str 'x'"),
            ("int64", "Index()", "TypeError: result: wanted int64, got Index Index()"),
            ("float32", "1e300", "OverflowError: result: wanted float32, got float 1e+300"),
            ("float64", "2**53 + 1", "ValueError: result: 9007199254740993 is not exact in float64"),
            ("utf8", "5", "TypeError: result: wanted utf8, got int 5"),
            ("utf8", "'\\ud800'", "ValueError: result: wanted utf8, got str '\\ud800' with a lone surrogate"),
            ("binary", "'x'", "TypeError: result: wanted binary, got str 'x'"),
        ):
            good, value = GOOD[kind]
            for prefix in ("to_", "nullable_"):
                texts = [good, bad, "1/0", good] * 5
                values, why = self.keep(prefix + kind, texts, block=8, recode=kind == "utf8")
                self.assertEqual(values, [value, None, None, value] * 5, (kind, bad))
                self.assertEqual([t is None for t in why], [True, False, False, True] * 5)
                self.assertTrue(why[1].startswith(text), why[1])
                self.assertEqual(why[1::4] + why[2::4], [why[1]] * 5 + ["ZeroDivisionError: division by zero"] * 5)

    def test_none_where_the_result_is_not_null(self):
        for kind, (good, value) in GOOD.items():
            for others in ([good], [good, "1/0"]):
                texts = (["None", *others] * 9)[:20]
                values, why = self.keep("to_" + kind, texts, block=8, recode=kind in ("utf8", "binary"))
                self.assertEqual(values, [value if text == good else None for text in texts])
                wanted = f"TypeError: result: wanted {kind}, got None"
                failed = {"None": wanted, "1/0": "ZeroDivisionError: division by zero", good: None}
                self.assertEqual(why, [failed[text] for text in texts], kind)

    def test_what_a_row_may_raise(self):
        for text, why in (
            ("exits(3)", "SystemExit: 3"),
            ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt"),
            ("(_ for _ in ()).throw(MemoryError('all'))", "MemoryError: all"),
            ("(_ for _ in ()).throw(Odd)", "Odd: (no text: SystemExit)"),
            ("(_ for _ in ()).throw(ValueError('\\ud800'))", "ValueError: \\ud800"),
            ("(_ for _ in ()).throw(Long('t'))", "L" * 256 + ": t"),
            ("stop()", "StopIteration"),
        ):
            values, texts = self.keep("to_int64", ["1", text, text, "2", text] * 3, block=8)
            self.assertEqual(values, [1, None, None, 2, None] * 3, text)
            self.assertEqual(texts, [None, why, why, None, why] * 3)
        values, texts = self.keep("to_int64", ["1", "deep()", "2"])
        self.assertEqual(values, [1, None, 2])
        self.assertTrue(texts[1].startswith("RecursionError: maximum recursion depth exceeded"), texts[1])

    def test_texts_are_bounded(self):
        _, texts = self.keep("to_int64", ["(_ for _ in ()).throw(ValueError('ä' * 9000))"])
        self.assertTrue(4090 < len(texts[0].encode()) <= 4096)
        self.assertTrue(texts[0].startswith("ValueError: ää"))

    def test_every_row_runs_once_in_order(self):
        texts = ["1", "1/0", "stop()", "'x'", "5"] * 4
        self.keep("to_int64", ["runs.clear() or 1"])
        self.keep("to_int64", texts, block=8)
        got, _ = self.keep("nullable_utf8", ["repr(runs)"])
        self.assertEqual(eval(got[0]), [*texts, "repr(runs)"])

    def test_no_arguments_and_several(self):
        values, texts = self.keep("always", rows=6)
        self.assertEqual([value is None for value in values], [text is not None for text in texts])
        self.assertEqual(values.count(None), 3)
        values, texts = self.keep("pair", [1, 0, 8], ["ab", "c", "é"])
        self.assertEqual(values, ["abababababababab", None, "é"])
        self.assertEqual(texts[1][:17], "ZeroDivisionError")

    def test_rows_of_a_range_and_segments(self):
        values, texts = self.keep("thirds", list(range(40)), lo=8, hi=29, block=8)
        self.assertEqual(values, [None if n % 3 == 1 else n for n in range(8, 29)])
        self.assertEqual(texts, [f"ValueError: no {n}" if n % 3 == 1 else None for n in range(8, 29)])
        function = self.gate.function("thirds")
        self.gate.input.at = 0
        segments = [self.gate.segment(function, [rows], len(rows), 0, len(rows)) for rows in ([0, 3], [1], [2, 4, 5])]
        got = self.gate.call("thirds", segments=segments, flags=KEEP)
        self.assertEqual([s.values for s in got.segments], [[0, 3], [None], [2, None, 5]])
        self.assertEqual(
            [s.texts for s in got.segments], [None, ["ValueError: no 1"], [None, "ValueError: no 4", None]]
        )

    def test_random_failures(self):
        random, seed = self.seeded()
        for _ in range(30):
            kind, (good, value) = random.choice(list(GOOD.items()))
            share, rows = random.random() ** 3, random.randrange(200)
            bad = ["1/0", "stop()", "[]", "None"]
            texts = [random.choice(bad) if random.random() < share else good for _ in range(rows)]
            recode = kind in ("utf8", "binary")
            values, why = self.keep("to_" + kind, texts, block=random.choice((8, 16, 64)), recode=recode)
            self.assertEqual(values, [value if text == good else None for text in texts], seed)
            why = why or [None] * rows
            self.assertEqual([text is None for text in why], [text == good for text in texts], seed)

    def test_phases(self):
        for name in ("thirds", "thirds_text", "misfits"):
            got = self.gate.call(name, list(range(20_000)), flags=KEEP | MEASURE)
            fields = got.fields
            self.assertGreater(fields["body"], 0)
            self.assertGreater(fields["body_cpu"], 0)
            self.assertGreater(fields["encode"], 0)

    def test_without_the_flag_the_first_row_ends_the_segment(self):
        for rows in (5, 2):
            self.assertEqual(self.gate.call("thirds", list(range(rows))).error.row, 1)
        self.assertEqual(self.gate.call("thirds", [1]).error.text, "no 1")


class Room(WorkerCase):
    def test_texts_take_room_like_values(self):
        gate = self.load(SOURCE)
        rows = 5000
        got = gate.call("long", list(range(rows)), flags=KEEP, limit=rows * 8 + 64, block=64)
        only = got.segments[0]
        self.assertEqual(only.values, [None] * rows)
        self.assertEqual(len(set(only.texts)), 1)
        self.assertTrue(only.texts[0].startswith("ValueError: invalid literal"))

    def test_texts_that_are_refused(self):
        gate = self.load(SOURCE)
        number, data = gate.call_frame("thirds", list(range(9000)), flags=KEEP, limit=9000 * 9 + 64, block=64)
        gate.send(data)
        asked = 0
        while True:
            kind, _, call, payload = gate.read()
            if kind != NEED:
                break
            asked += 1
            gate.put(REFUSE, call, (9000 * 9 + 64).to_bytes(8, "little"))
        self.assertGreater(asked, 0)
        only = gate.parse(call, payload, "int64").segments[0]
        self.assertEqual((only.status, only.values, only.texts), (2, None, None))
        self.assertEqual(gate.call("thirds", [0, 1, 2], flags=KEEP).values, [0, None, 2])

    def test_recode_asks_for_more_room(self):
        gate = self.load(SOURCE)
        got = gate.call("nullable_utf8", ["5"] * 3000, flags=KEEP, limit=20_000, block=64)
        self.assertIsNone(got.segments[0].texts)
        for _ in range(2):
            gate.put(RECODE, got.call)
            only = gate.result("nullable_utf8").segments[0]
            self.assertEqual(only.values, [None] * 3000)
            self.assertEqual(set(only.texts), {"TypeError: result: wanted utf8, got int 5"})


if __name__ == "__main__":
    unittest.main()
