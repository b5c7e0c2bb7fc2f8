"""Table functions: parts, what they hold, and how a body ends, of its own accord or against its will."""

import struct
import textwrap
import unittest

from case import WorkerCase
from gateway import BYE, STATS
from tables import END, KEEP, NEXT, UNHURRIED, Parts, failure, table

SOURCE = """
import functools, sys, time
from typing import Iterator
from udfgate import udf, udtf

made = []  # what bodies have yielded or done, for tests to look at

@udf
def said() -> str:
    text = repr(made)
    made.clear()
    return text

@udtf
def series(n: int) -> Iterator[int]:
    for i in range(n):
        yield i

@udtf
def noted(n: int) -> Iterator[int]:
    try:
        for i in range(n):
            made.append(i)
            yield i
    finally:
        made.append("closed")

@udtf
def texts(n: int) -> "Iterator[str | None]":
    for i in range(n):
        yield None if i % 5 == 4 else "é" * (i % 3) + str(i)

@udtf
def flags(n: int) -> Iterator[bool]:
    yield from (i % 3 == 0 for i in range(n))

@udtf
def rows(n: int) -> Iterator[tuple[int, str]]:
    for i in range(n):
        yield [i, "x" * i] if i % 2 else (i, "x" * i)

@udtf
def lists(n: int) -> list[list[int]]:
    return [list(range(i)) for i in range(n)]

@udtf(input_types=[], result_types=["INT"])
def nothing_in():
    yield 1
    yield 2

@udtf
class Counted:
    def __init__(self):
        self.calls = 0
    def __call__(self, n: int) -> Iterator[int]:
        self.calls += 1
        yield from range(self.calls, self.calls + n)

def traced(body):
    @functools.wraps(body)
    def wrapper(*args):
        return body(*args)
    return wrapper

@udtf
@traced
def wrapped(n: int) -> Iterator[int]:
    yield from range(n)

@udtf
@functools.lru_cache(maxsize=None)
def cached(n: int) -> list[int]:
    return list(range(n))

@udtf
@functools.lru_cache(maxsize=None)
def run_down(n: int) -> Iterator[int]:
    yield from range(n)

class Next:
    def __init__(self, n):
        self.n = n
    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n

class Loose:  # its iterator is not iterable itself
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return Next(self.n)

class Indexed:
    def __getitem__(self, at):
        return [5, 6][at]

@udtf(input_types=["VARCHAR"], result_types=["BIGINT NOT NULL"])
def told(text):
    return eval(text)

@udtf(input_types=["VARCHAR"], result_types=["BIGINT NOT NULL"])
def yields(text):
    for one in text.split(";"):
        yield eval(one)

@udtf(input_types=["VARCHAR"], result_types=["VARCHAR NOT NULL"])
def yields_text(text):
    for one in text.split(";"):
        yield eval(one)

@udtf(input_types=["INT", "INT"], result_types=["INT"], null_handling="skip")
def both(a, b):
    yield a + b

@udtf(input_types=["TIMESTAMP"], result_types=["INT"])
def years(t):
    yield t.year

@udtf
def slow(n: int) -> Iterator[int]:
    for i in range(n):
        time.sleep(0.03)
        yield i

@udtf(input_types=["INT", "INT"], result_types=["INT"])
def late(quick, n):
    for i in range(quick + n):
        if i >= quick:
            time.sleep(0.11)
        yield i

@udtf(input_types=["INT", "INT"], result_types=["INT"])
async def later(quick, n):
    for i in late(quick, n):
        yield i

@udtf
def seldom(n: int) -> Iterator[int]:
    time.sleep(0.03)
    if n:
        yield n

def deep():
    return deep()

@udtf
def stubborn(how: str) -> Iterator[int]:
    while True:
        try:
            yield 1
        except GeneratorExit:
            made.append(how)
            if how == "raises":
                raise ValueError("not now")
            if how == "exits":
                sys.exit(3)
            if how == "returns":
                return
            if how == "yields":
                yield 2
"""


def numbers(counts):
    return [(at, i) for at, count in enumerate(counts) for i in range(count)]


class Tables(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def said(self):
        return eval(self.gate.call("said", rows=1).values[0])

    def test_counts(self):
        for counts in ([], [0], [1], [3, 0, 2], [1023], [1024], [1025], [2048], [1000, 24, 1], [1] * 5000, [0] * 5000,
                       [10_000, 0, 0, 1024]):  # fmt: skip
            for block in (8, 64, 4096):
                self.assertEqual(table(self.gate, "series", counts, block=block), numbers(counts), (counts[:9], block))

    def test_parts(self):
        for count, sizes in ((0, [0]), (5, [5]), (1024, [1024, 0]), (1025, [1024, 1]), (2048, [1024, 1024, 0])):
            self.assertEqual([part.rows for part in Parts(self.gate, "series", [count])], sizes)

    def test_nothing_is_asked_ahead(self):
        parts = Parts(self.gate, "noted", [1500, 7])
        for size in (1024, 483):
            part = parts.read()
            self.assertEqual(part.rows, size)
            if parts.more:
                parts.next()
        self.assertEqual(self.said(), [*range(1500), "closed", *range(7), "closed"])
        parts = Parts(self.gate, "noted", [5000])
        parts.read()
        parts.end()
        self.assertEqual(self.said(), [*range(1024), "closed"])

    def test_a_range_of_rows(self):
        counts = [at % 4 for at in range(100)]
        got = table(self.gate, "series", counts, lo=16, hi=77, block=8)
        self.assertEqual(got, [(at, i) for at, i in numbers(counts) if 16 <= at < 77])

    def test_types(self):
        count = 2500
        wanted = [None if i % 5 == 4 else "é" * (i % 3) + str(i) for i in range(count)]
        for block in (8, 1024, 4096):
            self.assertEqual(table(self.gate, "texts", [count], block=block), [(0, text) for text in wanted])
            self.assertEqual(table(self.gate, "flags", [count], block=block), [(0, i % 3 == 0) for i in range(count)])
        self.assertEqual(table(self.gate, "rows", [4, 0, 1]), [(0, (i, "x" * i)) for i in range(4)] + [(2, (0, ""))])
        self.assertEqual(table(self.gate, "lists", [3]), [(0, []), (0, [0]), (0, [0, 1])])

    def test_bodies(self):
        self.assertEqual(table(self.gate, "nothing_in", rows=3), [(at, value) for at in range(3) for value in (1, 2)])
        self.assertEqual(table(self.gate, "Counted", [2, 1]), [(0, 1), (0, 2), (1, 2)])
        for name in ("wrapped", "cached"):
            self.assertEqual(table(self.gate, name, [2, 0, 2]), numbers([2, 0, 2]), name)
        error, _ = failure(self.gate, "run_down", [1, 2, 1])
        self.assertEqual((error.row, error.kind, error.name), (2, 2, "ValueError"))
        self.assertIn("got one that has ended", error.text)

    def test_what_counts_as_rows(self):
        for text, values in (
            ("None", []), ("[]", []), ("[1, 2]", [1, 2]), ("(3,)", [3]), ("iter([4])", [4]), ("{5}", [5]),
            ("range(3)", [0, 1, 2]), ("map(abs, [-1])", [1]), ("Next", TypeError), ("Loose(2)", [1, 0]),
            ("Indexed()", [5, 6]), ("(i for i in [8])", [8]),
        ):  # fmt: skip
            if values is not TypeError:
                self.assertEqual(table(self.gate, "told", [text]), [(0, value) for value in values], text)
        for text, got in (
            ("'ab'", "str 'ab'"), ("b'ab'", "bytes b'ab'"), ("{}", "dict {}"), ("5", "int 5"), ("Next", "type <class"),
            ("bytearray()", "bytearray"), ("Next(1)", "Next <"),
        ):  # fmt: skip
            error, _ = failure(self.gate, "told", ["[1]", text])
            self.assertEqual((error.row, error.kind, error.name), (1, 2, "TypeError"), text)
            self.assertIn(f"result: wanted an iterable of rows, got {got}", error.text)

    def test_rows_with_nulls_are_skipped(self):
        got = table(self.gate, "both", [1, None, 3, 4], [1, 2, None, 4])
        self.assertEqual(got, [(0, 2), (3, 8)])

    def test_rows_that_python_cannot_hold(self):
        far = 10**18  # microseconds: the year 33658
        error, got = failure(self.gate, "years", [0, 0, far, 0])
        self.assertEqual((error.row, error.kind), (2, 2))
        self.assertIn("argument t: ", error.text)
        got = table(self.gate, "years", [0, far, 0], flags=KEEP)
        self.assertEqual([row[:2] for row in got], [(0, 1970), (1, None), (2, 1970)])
        self.assertIn("argument t: ", got[1][2])

    def test_a_raise_ends_the_call(self):
        for block in (8, 4096):
            error, got = failure(self.gate, "yields", ["1"] * 1500 + ["1;2;1/0;3", "1"], block=block)
            self.assertEqual((error.row, error.kind, error.name), (1500, 1, "ZeroDivisionError"))
            self.assertEqual(got, [(at, 1) for at in range(1024)])
            self.assertIn("in yields", error.trace)
            self.assertNotIn("udfgate_worker", error.trace)
        self.assertEqual(table(self.gate, "series", [1]), [(0, 0)])

    def test_what_a_row_may_raise(self):
        for text, name in (
            ("next(iter(()))", "RuntimeError"), ("deep()", "RecursionError"), ("[].pop(MemoryError)", "TypeError"),
            ("(_ for _ in ()).throw(MemoryError)", "MemoryError"), ("sys.exit(3)", "SystemExit"),
            ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt"),
            ("(_ for _ in ()).throw(GeneratorExit)", "GeneratorExit"),
        ):  # fmt: skip
            error, _ = failure(self.gate, "yields", ["1;2", "1;" + text + ";3"])
            self.assertEqual((error.row, error.kind, error.name), (1, 1, name), text)
            got = table(self.gate, "yields", ["1;2", "1;" + text + ";3", "4"], flags=KEEP)
            self.assertEqual([row[:2] for row in got], [(0, 1), (0, 2), (1, 1), (1, None), (2, 4)], text)
            self.assertTrue(got[3][2].startswith(name), got[3][2])
        error, _ = failure(self.gate, "told", ["next(iter(()))"])
        self.assertEqual((error.row, error.name), (0, "StopIteration"))

    def test_a_value_that_does_not_fit(self):
        for bad, text in (
            ("'x'", "wanted int64, got str 'x'"),
            ("None", "wanted int64, got None"),
            ("2**63", "wanted"),
        ):
            error, got = failure(self.gate, "yields", ["1", f"1;2;{bad};3;1/0", "4"], block=8)
            self.assertEqual((error.row, error.kind, got), (1, 2, []), bad)
            self.assertIn("result: " + text, error.text)
            got = table(self.gate, "yields", ["1", f"1;2;{bad};3;1/0", "4", bad, "5;1/0"], flags=KEEP, block=8)
            wanted = [(0, 1), (1, 1), (1, 2), (1, None), (2, 4), (3, None), (4, 5), (4, None)]
            self.assertEqual([row[:2] for row in got], wanted)
            self.assertIn(text, got[3][2])
            self.assertEqual(got[-1][2], "ZeroDivisionError: division by zero")

    def test_a_generator_whose_value_does_not_fit_is_closed(self):
        source = """
            from udfgate import udf, udtf
            ends = []
            @udtf(input_types=["INT"], result_types=["INT"])
            def odd(n):
                try:
                    for i in range(n):
                        yield "x" if i == 3 else i
                finally:
                    ends.append(i)
            @udf
            def ended() -> str:
                return repr(ends)
            """
        gate = self.load(UNHURRIED + textwrap.dedent(source))
        got = table(gate, "odd", [5000, 2], flags=KEEP)
        self.assertEqual([row[:2] for row in got], [(0, 0), (0, 1), (0, 2), (0, None), (1, 0), (1, 1)])
        self.assertEqual(gate.call("ended", rows=1).values, ["[1023, 1]"])
        failure(gate, "odd", [5000, 2])
        self.assertEqual(gate.call("ended", rows=1).values, ["[1023, 1, 1023]"])

    def test_random(self):
        random, seed = self.seeded()
        for _ in range(40):
            inputs, wanted = [], []
            for at in range(random.randrange(60)):
                texts = [random.choice(["1", "2", "'x'", "None", "1/0"] if random.random() < 0.05 else ["1", "2"])
                         for _ in range(1 + random.randrange(1 + random.choice((1, 3, 100))))]  # fmt: skip
                inputs.append(";".join(texts))
                for text in texts:
                    wanted.append((at, int(text) if text in "12" else None))
                    if text not in "12":
                        break
            got = table(self.gate, "yields", inputs, flags=KEEP, block=random.choice((8, 16, 4096)))
            self.assertEqual([row[:2] for row in got], wanted, seed)
            for row in got:
                self.assertEqual(len(row) == 3, row[1] is None, seed)


class Slow(WorkerCase):
    SOURCE = SOURCE

    def test_a_slow_generator_streams(self):
        sizes = [part.rows for part in Parts(self.gate, "slow", [10])]
        self.assertEqual(sum(sizes), 10)
        self.assertTrue(all(size <= 5 for size in sizes), sizes)
        self.assertGreater(len(sizes), 1)

    def test_rows_that_answer_nothing_do_not_hold_back_one_that_did(self):
        sizes = [part.rows for part in Parts(self.gate, "seldom", [1] + [0] * 9, block=8)]
        self.assertEqual(sizes[0], 1)
        self.assertGreater(len(sizes), 1)

    def test_a_row_that_comes_late_goes_at_once(self):
        for name in ("late", "later"):
            sizes = [part.rows for part in Parts(self.gate, name, [0], [3])]
            self.assertEqual([size for size in sizes if size], [1, 1, 1], name)

    def test_a_generator_that_becomes_slow(self):
        parts = list(Parts(self.gate, "late", [100], [3]))
        self.assertEqual(sum(part.rows for part in parts), 103)
        self.assertEqual(len([part for part in parts if part.rows and part.values[-1] >= 100]), 3)

    def test_half_of_the_time_limit(self):
        parts = Parts(self.gate, "slow", [5], remaining=100_000_000)
        self.assertLessEqual(parts.read().rows, 2)
        parts.end()

    def test_slow_failures(self):
        gate = self.load("""
            import time
            from udfgate import udtf
            @udtf(input_types=["INT"], result_types=["INT"])
            def fails(n):
                time.sleep(0.03)
                raise ValueError(n)
            """)
        sizes = [part.rows for part in Parts(gate, "fails", list(range(10)), flags=KEEP)]
        self.assertEqual(sum(sizes), 10)
        self.assertTrue(all(size <= 5 for size in sizes), sizes)


class Ends(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def test_whatever_a_body_does_about_its_end(self):
        for how in ("raises", "exits", "returns", "yields", "swallows"):
            parts = Parts(self.gate, "stubborn", [how, how])
            self.assertEqual(parts.read().rows, 1024)
            parts.end()
            self.assertIn(how, self.gate.call("said", rows=1).values[0])
            self.assertEqual(table(self.gate, "series", [2]), [(0, 0), (0, 1)])

    def test_calls_that_wait(self):
        parts = Parts(self.gate, "series", [1500])
        parts.read()
        self.gate.input.at = 1 << 20
        number, data = self.gate.call_frame("said", rows=1)
        self.gate.send(data)
        parts.next()
        self.assertEqual(parts.read().rows, 476)
        self.assertEqual(self.gate.result("said").call, number)

    def test_stats_count_calls_and_rows(self):
        gate = self.load(SOURCE)
        table(gate, "series", [3000, 5])
        gate.put(STATS)
        _, payload = gate.expect(STATS)
        self.assertIn(b'"calls":1,', payload.replace(b" ", b""))
        self.assertIn(b'"rows":2', payload.replace(b" ", b""))

    def test_goodbye_in_the_middle(self):
        gate = self.load(SOURCE)
        Parts(gate, "noted", [5000]).read()
        gate.put(BYE)
        self.assertEqual(gate.wait(), 0)

    def test_frames_that_are_not_expected(self):
        for kind, payload, text in (
            (NEXT, b"x", "protocol error: NEXT of 1 bytes"),
            (STATS, b"", "frame of type 14 is not expected while a table function waits"),
        ):
            gate = self.load(SOURCE)
            parts = Parts(gate, "series", [5000])
            parts.read()
            gate.put(kind, parts.call, payload)
            self.assertIn(text, self.assert_gone(gate, 70))
        gate = self.load(SOURCE)
        gate.put(NEXT, 1, struct.pack("<QII", 0, END, 0))
        self.assertIn("frame of type 18 is not expected", self.assert_gone(gate, 70))

    def test_the_end_of_the_socket(self):
        gate = self.load(SOURCE)
        Parts(gate, "series", [5000]).read()
        gate.socket.shutdown(1)
        self.assertEqual(gate.wait(), 0)


if __name__ == "__main__":
    unittest.main()
