"""What of a file is served: its own text, what its servers were given, wrappers around declared functions."""

import os
import py_compile
import unittest

from case import RefusedCase, WorkerCase
from tables import failure, table

WRAPPERS = """
import asyncio, functools, threading
from udfgate import udf
def timed(f):
    @functools.wraps(f)
    def inner(*a): return f(*a)
    return inner
def synchronous(f):
    @functools.wraps(f)
    def inner(*a): return asyncio.run(f(*a))
    return inner
"""


class Texts(WorkerCase):
    def test_a_file_is_compiled_from_its_own_text(self):
        """An edit of the same size within the same second is not seen by the cache in __pycache__."""
        for number, way in enumerate(("a file", "with another before it", "of another", "by name")):
            gate = self.start()
            folder = gate.folder.name if gate.folder else os.path.dirname(gate.write("", "unused"))
            other = gate.write("import served\ndef g() -> int: return 0\n", "other")
            file = gate.write("def f() -> int: return 7\n")
            os.utime(file, ns=(10**18, 10**18))
            py_compile.compile(file)  # as what imports it would
            gate.write(f"def f() -> int: return {number}\n")
            os.utime(file, ns=(10**18, 10**18))
            mine = {"name": "served", "file": "" if way == "by name" else file}
            modules = {"of another": [{"name": "other", "file": other}, mine]}.get(way, [mine])
            if way == "with another before it":
                modules = [{"name": "apart", "file": gate.write("def g() -> int: return 0\n", "apart")}, mine]
            self.assertNotIn("error", gate.load(modules, [folder]))
            self.assertEqual(gate.call("f", rows=1).values, [number], way)

    def test_nothing_is_cached_of_it(self):
        gate = self.load("def f() -> int: return 7\n")
        self.assertEqual(os.listdir(gate.folder.name), ["served.py"])


class Found(WorkerCase):
    def names(self, source):
        gate = self.load(WRAPPERS + source)
        return gate, [function["name"] for function in gate.loaded["functions"]]

    def test_what_a_server_was_given(self):
        for package, server in (("arrow_udf", "UdfServer"), ("databend_udf", "UDFServer")):
            gate, names = self.names(f"""
from {package} import udf, {server}
@udf(["BIGINT"], "BIGINT")
def g(x): return x
def make(i):
    @udf(["BIGINT"], "BIGINT", name=f"m{{i}}")
    def f(x): return x + i
    return f
server = {server}("localhost:1")
for i in range(3):
    server.add_function(make(i))
server.add_function(g)
""")
            self.assertEqual(names[:4], ["g", "m0", "m1", "m2"])
            self.assertEqual(gate.call("m2", [1]).values, [3])

    def test_what_is_given_in_the_main_block(self):
        error = self.refused("""
            from arrow_udf import UdfServer, udf
            def make(i): return udf(["INT"], "INT", name=f"m{i}")(lambda x: x + i)
            if __name__ == "__main__":
                UdfServer("localhost:1").add_function(make(1))
            """)
        self.assertIn('given to a server under if __name__ == "__main__": is not seen', error["message"])

    def test_wrappers_above_a_decorator(self):
        gate, names = self.names("""
@timed
@udf(name="plus")
def f(x: int) -> int: return x + 1
@functools.lru_cache(None)
@udf
def cached(x: int) -> int: return x + 2
@udf
def bound(x: int) -> int: return x + 3
around = timed(bound)
again = timed(f)
def twice(f):
    @functools.wraps(f)
    def inner(*a): return 2 * f(*a)
    return inner
@twice
@timed
@udf
def doubled(x: int) -> int: return x
""")
        self.assertEqual(names, ["plus", "cached", "bound", "doubled"])
        self.assertEqual([gate.call(name, [1]).values[0] for name in names], [2, 3, 4, 2])

    def test_wrappers_of_async_bodies(self):
        gate, _ = self.names("""
live = []
def outside(f):
    @functools.wraps(f)
    def inner(*a):
        assert asyncio._get_running_loop() is None
        return f(*a)
    return inner
@udf
@outside
async def tasks(x: int) -> int:
    live.append(x)
    most = len(live)
    await asyncio.sleep(0.002)
    live.remove(x)
    return max(most, len(live) + 1)
@timed
@udf(on_error="reject")
async def above(x: int) -> int:
    await asyncio.sleep(0)
    return 6 // x
@udf(mode="list")
@timed
async def listing(x: int) -> int: return x
@udf
@synchronous
async def alone(x: int) -> int:
    await asyncio.sleep(0)
    return x
@udf(io_threads=8)
@synchronous
async def threads(x: int) -> int:
    await asyncio.sleep(0.002)
    return threading.current_thread() is threading.main_thread()
""")
        self.assertEqual(max(gate.call("tasks", list(range(50))).values), 32)
        self.assertEqual(gate.call("above", [1, 2]).values, [6, 3])
        self.assertEqual(gate.call("above", [0]).error.name, "ZeroDivisionError")
        for name in ("listing", "alone"):
            self.assertEqual(gate.call(name, list(range(50))).values, list(range(50)), name)
        self.assertEqual(set(gate.call("threads", list(range(16))).values), {1})  # it has turned out by then
        self.assertEqual(gate.call("threads", list(range(16))).values[-1], 0)


class Generators(RefusedCase):
    def test_under_udf(self):
        yields = "def f(x: int) -> int: yield 1"
        self.check(f"@udf\n{yields}", "served.f: a generator function yields rows; use @udtf")
        self.check(f"@udf\nasync {yields}", "served.f: an async generator function yields rows; use @udtf")
        source = "from databend_udf import udf\n@udf(['INT'], 'INT')\ndef f(x): yield 1"
        self.check(source, "served.f: a generator function yields rows; give a list of result types")
        self.check("@udf(result_types=['INT'])\ndef f(x: int): ...", "result_types is for table functions: use @udtf")

    def test_one_does_not_stop_a_file_that_serves_by_hints(self):
        gate = self.load("""
            from typing import Iterator
            def f(x: int) -> int: return x
            def rows(x: int) -> Iterator[int]: yield x
            async def more(x: int) -> Iterator[int]: yield x
            """)
        self.assertEqual([function["name"] for function in gate.loaded["functions"]], ["f"])
        why = "it yields rows; use @udtf"
        self.assertEqual([(f["name"], f["why"]) for f in gate.loaded["skipped"]], [("rows", why), ("more", why)])

    def test_a_struct_of_one(self):
        gate = self.load("""
            from arrow_udf import udtf
            @udtf(input_types=["INT"], result_types=["INT"])
            def plain(n): yield 0
            @udtf(input_types=["INT"], result_types="INT")
            def alone(n): yield 0
            """)
        self.assertEqual(table(gate, "alone", [1]), [(0, 0)])
        text = (
            "result: wanted struct<int32>, got int 0 (a list of one type is a struct of one: yield (value,), or give "
        )
        error, _ = failure(gate, "plain", [1])
        self.assertEqual(error.text, text + 'the type alone, result_types="INT")')


if __name__ == "__main__":
    unittest.main()
