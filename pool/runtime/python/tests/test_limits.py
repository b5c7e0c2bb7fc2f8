"""Options that bound what runs, and warmup: what LOADED says of them, what does not load, and what a body sees."""

import unittest

from case import RefusedCase, WorkerCase

HEAD = "import asyncio, udfgate\nfrom udfgate import udf, udtf\n"
ONE = "def f(x: int) -> int: return x"


class Loaded(WorkerCase):
    def function(self, source):
        gate = self.start()
        loaded = gate.load_source(HEAD + source)
        self.assertNotIn("error", loaded, loaded)
        return loaded["functions"][0]

    def limits(self, source):
        found = self.function(source)
        return found["concurrency"], found["concurrency_wait_ns"], found["max_batch_rows"]

    def test_limits(self):
        for options, limits in (
            ("", (0, 0, 0)),
            ("concurrency=4", (4, 0, 0)),
            ("max_concurrency=4", (4, 0, 0)),
            ("max_workers=4", (4, 0, 0)),
            ("concurrency=4, max_concurrency=2, max_workers=3", (2, 0, 0)),
            ("concurrency=4, concurrency_timeout='2s', max_batch_rows=9", (4, 2 * 10**9, 9)),
            ("concurrency=4, concurrency_timeout=1.5", (4, 15 * 10**8, 0)),
            ("concurrency=4, concurrency_timeout=0", (4, 1, 0)),
        ):
            self.assertEqual(self.limits(f"@udf({options})\n{ONE}"), limits, options)

    def test_of_other_packages(self):
        types = "input_types=['INT'], result_type='INT'"
        databend = "from databend_udf import udf\n@udf(%s)\ndef f(x): return x"
        self.assertEqual(
            self.limits(databend % f"{types}, max_concurrency=3, concurrency_timeout=2"), (3, 2 * 10**9, 0)
        )
        self.assertEqual(self.limits(databend % f"{types}, concurrency_timeout=2"), (0, 0, 0))
        self.function(databend % f"{types}, batch_mode=True, io_threads=7")
        self.function(f"from arrow_udf import udf\n@udf({types}, batch=True, io_threads=7)\ndef f(x): return x")

    def test_threads_of_other_packages(self):
        body = "\ndef f(x):\n    time.sleep(0.001)\n    return threading.active_count()"
        for package, options, least in (
            ("databend_udf", "", 16),
            ("databend_udf", "io_threads=4", 5),
            ("databend_udf", "io_threads=None", 1),
            ("arrow_udf", "", 1),
            ("arrow_udf", "io_threads=4", 5),
        ):
            source = f"import threading, time\nfrom {package} import udf\n@udf(['INT'], 'INT', {options}){body}"
            found = max(self.load(source).call("f", list(range(64))).values)
            self.assertTrue(least <= found <= (33 if least == 16 else least), (package, options, found))

    def test_max_batch_rows(self):
        body = "\ndef f(x: int) -> int:\n    if 13 in x: raise ValueError(len(x))\n    return [len(x)] * len(x)\n"
        gate = self.load(f"{HEAD}@udf(mode='list', elementwise=True, max_batch_rows=4){body}")
        self.assertEqual(gate.call("f", [0] * 10).values, [4] * 8 + [2] * 2)
        self.assertEqual(gate.call("f", [0] * 4).values, [4] * 4)
        self.assertEqual(gate.call("f", []).values, [])
        error = gate.call("f", [0] * 9 + [13]).error
        self.assertEqual((error.row, error.text), (9, "1"))
        only = gate.call("f", [0] * 9 + [13] + [0] * 3, flags=2).segments[0]
        self.assertEqual(only.values, [4] * 8 + [1, None] + [2] * 2 + [1])
        gate = self.load(f"{HEAD}@udf(mode='list', max_batch_rows=4){body}")
        self.assertEqual(gate.call("f", [0] * 10).values, [10] * 10, "the gateway refuses such a batch, not the worker")
        gate = self.load(f"{HEAD}@udf(max_batch_rows=1)\n{ONE}")
        self.assertEqual(gate.call("f", [1, 2]).values, [1, 2])

    def test_warmup(self):
        source = HEAD + (
            "seen = []\n"
            "@udf(warmup=[(1, 'a'), [2, None]])\n"
            "def f(x: int, y: str) -> str:\n"
            "    seen.append((x, y))\n    return str(y)\n"
            "@udf(mode='list', warmup=[(1,), (2,)])\n"
            "def g(x: int) -> int:\n    seen.append(x)\n    return x\n"
            "@udf(warmup=[(1,), (None,)], null_handling='skip')\n"
            "async def h(x: int) -> int:\n    await asyncio.sleep(0)\n    seen.append(x)\n    return x\n"
            "@udf(warmup=[(5,)])\n"
            "class Object:\n    def __call__(self, x: int) -> int:\n        seen.append(x)\n        return x\n"
            "@udf(warmup=[()])\n"
            "def look() -> str: return str(seen)\n"
            "@udf(warmup=[])\n"
            "def nothing() -> str: return 1\n"
        )
        seen = self.load(source).call("look", rows=1).values[0]
        self.assertEqual(seen, str([(1, "a"), (2, None), [1, 2], 1, 5]))

    def test_warmup_of_a_table_function(self):
        source = HEAD + (
            "asked = []\n"
            "@udtf(warmup=[(3,), (None,)])\n"
            "def f(x: int) -> 'list[int]':\n"
            "    at = 0\n"
            "    while x is not None:\n        asked.append(at)\n        yield at\n        at += 1\n"
            "@udf\n"
            "def look() -> int: return len(asked)\n"
        )
        self.assertEqual(self.load(source).call("look", rows=1).values, [1024])

    def test_what_a_warmup_has_begun_is_closed(self):
        source = HEAD + (
            "closed = []\n"
            "@udtf(warmup=[(0,), (1,)], result_types=['INT'])\n"
            "async def f(x: int):\n"
            "    try:\n        while True: yield x\n"
            "    finally:\n        closed.append(x)\n        1 // x\n"
            "@udf\n"
            "def look() -> str: return str(closed)\n"
        )
        self.assertEqual(self.load(source).call("look", rows=1).values, ["[0, 1]"])

    def test_the_call_of_a_warmup(self):
        gate = self.load(f"""{HEAD}
kept = []
@udf(warmup=[(1,), (2,)])
def asks(x: int) -> str:
    udfgate.counter("rows").add(x)
    call = udfgate.context()
    kept.append(call)
    call.logger.warning("warm %d", x)
    return repr((call.call_id, call.batch, call.function, call.principal, dict(call.headers), call.remaining(), call.cancelled()))
@udf(warmup=[(1,)])
async def tasks(x: int) -> str:
    udfgate.counter("rows").add(x)
    return udfgate.context().principal
@udf
def first() -> str: return repr((kept[0].headers, kept[0] is kept[1]))
@udf
def late() -> bool: return kept[0].cancelled()
""")
        self.assertEqual(gate.call("first", rows=1).values, ["(Headers({}), True)"])
        self.assertIn("has ended", gate.call("late", rows=1).error.text)
        self.assertEqual(gate.counted, [])
        (told,) = gate.call("asks", [3]).values
        self.assertTrue(told.startswith("('17', 3, 'served.asks', '10.0.0.7', {'x-tenant'"), told)
        self.assertEqual([counts for _, counts in gate.counted], [{"rows": 3}])

    def test_a_warmup_is_told_when_it_begins(self):
        gate = self.start()
        gate.load_source(f"{HEAD}@udf(warmup=[(1,)])\n{ONE}")
        self.assertIn("warming up served.f", [line["message"] for line in gate.logs])


class Refused(RefusedCase):
    def test_options_that_contradict_each_other(self):
        for mode in ("mode='list'", "batch=True"):
            text = (
                "served.f: io_threads=4 is for bodies over single rows; a body over columns (mode list) is called once"
            )
            self.check(f"@udf({mode}, io_threads=4)\n{ONE}", text, line=2)
        self.check(f"@udf(concurrency_timeout=1)\n{ONE}", "served.f: concurrency_timeout says how long to wait", line=2)

    def test_options_that_cannot_be_meant(self):
        for option, text in (
            ("io_threads=0", "io_threads: wanted a number from 1 to 1024, got 0"),
            ("io_threads=1025", "io_threads: wanted a number from 1 to 1024, got 1025"),
            ("warmup=1", "warmup: wanted a list of rows, each a tuple of arguments, got 1"),
            ("warmup='rows'", "warmup: wanted a list of rows"),
            ("concurrency_timeout=-1", "concurrency_timeout: wanted a time"),
            ("max_batch_rows=0", "max_batch_rows: wanted a number from 1"),
        ):
            self.check(f"@udf({option})\n{ONE}", text, "TypeError", 2)

    def test_warmups(self):
        for options, body, text in (
            ("warmup=[1]", ONE, "served.f: warmup: row 0: wanted a tuple of arguments, got int"),
            ("warmup=[(1,), (1, 2)]", ONE, "served.f: warmup: row 1: wanted 1 argument (x), got 2"),
            ("warmup=[(1,), ('a',)]", ONE, "row 1: TypeError: argument x: wanted int64, got str 'a'"),
            ("warmup=[(1,), (2.5,)]", "def f(x: int) -> str: return 'x'", "row 1: TypeError: argument x: wanted int64"),
            (
                "warmup=[(1, 2**63)]",
                "def f(x: int, y: int) -> int: return x",
                "row 0: OverflowError: argument y: wanted int64",
            ),
            (
                "warmup=[(['a'],)]",
                "def f(x: list[int]) -> int: return 1",
                "argument x: wanted int64 at [0], got str 'a'",
            ),
            ("warmup=[('a',)], mode='list'", ONE, "warmup: row 0: TypeError: argument x: wanted int64, got str 'a'"),
            ("warmup=[(1,), (None,)]", ONE, "row 1: TypeError: result: wanted int64, got None"),
            ("warmup=[(0,)]", "def f(x: int) -> int: return 1 // x", "row 0: ZeroDivisionError: integer division"),
            ("warmup=[(0,)]", "def f(x: int) -> int: raise SystemExit", "row 0: SystemExit"),
            ("warmup=[(0,)]", "async def f(x: int) -> int: return 1 // x", "row 0: ZeroDivisionError"),
            ("warmup=[(0,)], mode='list'", "def f(x: int) -> int: return 1 // x[0]", "f: warmup: ZeroDivisionError"),
            (
                "warmup=[(0,)], mode='list'",
                "def f(x: int) -> int: return 1",
                "warmup: wanted a list of 1 results, got int",
            ),
            ("warmup=[(0,)], mode='list'", "def f(x: int) -> int: return [1, 2]", "warmup: wanted 1 results, got 2"),
            (
                "warmup=[(0,)], mode='list'",
                "def f(x: int) -> int: return ['x']",
                "TypeError: result: wanted int64, got str",
            ),
        ):
            self.check(f"@udf({options})\n{body}", text, line=2)
        error = self.check(
            "import udfgate\n@udf(warmup=[()])\ndef f() -> str: return udfgate.context().headers['x']", "KeyError: 'x'"
        )
        self.assertIn('served.py", line 4, in f\n', error["traceback"])
        self.assertNotIn("udfgate_worker", error["traceback"])


if __name__ == "__main__":
    unittest.main()
