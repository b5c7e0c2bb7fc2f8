"""Table functions: how they are declared, what LOADED says of them, and what is refused."""

import unittest

from case import RefusedCase, WorkerCase
from tables import KEEP, Parts, failure, table

HEAD = """
import asyncio, collections.abc, contextvars, dataclasses
from typing import AsyncIterator, Generator, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypedDict
from udfgate import udf, udtf
"""


def members(kind):
    """(name, type, nullable) of each member of a struct."""
    return [(one["name"], one["type"], one["nullable"]) for one in kind["children"]]


class Declared(WorkerCase):
    def result(self, decorator, returns=""):
        hint = f" -> {returns}" if returns else ""
        types = {"dataclass": "@dataclasses.dataclass\nclass D:\n    a: int\n    b: 'Optional[str]'\n",
                 "N": "class N(NamedTuple):\n    a: int\n    b: str\n",
                 "T": "class T(TypedDict):\n    a: int\n"}  # fmt: skip
        source = HEAD + "".join(types.values()) + f"@udtf{decorator}\ndef f(n: int){hint}:\n    yield n\n"
        gate = self.load(source)
        self.assertEqual(gate.function("f")["kind"], "table")
        return gate.function("f")["result"]

    def test_result_types(self):
        for types, kind, nullable in (
            ("['INT']", "int32", True),
            ("'VARCHAR NOT NULL'", "utf8", False),
            ("('BIGINT NOT NULL',)", "int64", False),
            ("['BIGINT[]']", None, True),
        ):
            got = self.result(f"(input_types=['BIGINT'], result_types={types})")
            self.assertEqual((got["name"], got["nullable"]), ("f", nullable))
            self.assertEqual(got["type"] if kind else got["type"]["name"], kind or "list")

    def test_several_result_types(self):
        for types, wanted in (
            ("['INT', 'VARCHAR NOT NULL']", [("", "int32", True), ("", "utf8", False)]),
            ("[('a', 'INT'), ['b', 'VARCHAR']]", [("a", "int32", True), ("b", "utf8", True)]),
            ("[('a', 'INT')]", [("a", "int32", True)]),
        ):
            got = self.result(f"(result_types={types})")
            self.assertEqual((got["type"]["name"], got["type"]["view"], got["nullable"]), ("struct", "tuple", True))
            self.assertEqual(members(got["type"]), wanted)

    def test_hints(self):
        for hint, kind, nullable in (
            ("Iterator[int]", "int64", False),
            ("'Iterator[int | None]'", "int64", True),
            ("Iterable[str]", "utf8", False),
            ("Generator[float, None, None]", "float64", False),
            ("List[bytes]", "binary", False),
            ("list[bool]", "bool", False),
            ("Sequence[int]", "int64", False),
            ("collections.abc.Iterator[Optional[int]]", "int64", True),
            ("Optional[Iterator[int]]", "int64", False),
            ("'list[int] | None'", "int64", False),
        ):
            got = self.result("", hint)
            self.assertEqual((got["type"], got["nullable"]), (kind, nullable), hint)
        for hint, wanted, nullable in (
            ("Iterator[Tuple[int, Optional[str]]]", [("", "int64", False), ("", "utf8", True)], False),
            ("Iterator[tuple[int]]", [("", "int64", False)], False),
            ("Iterator[Optional[tuple[int, int]]]", [("", "int64", False)] * 2, True),
            ("Iterator[N]", [("a", "int64", False), ("b", "utf8", False)], False),
            ("Iterator[D]", [("a", "int64", False), ("b", "utf8", True)], False),
            ("List[T]", [("a", "int64", False)], False),
        ):
            got = self.result("", hint)
            self.assertEqual((members(got["type"]), got["nullable"]), (wanted, nullable), hint)

    def test_the_rest_of_the_entry(self):
        gate = self.load(
            HEAD
            + """
@udtf(result_types=['INT'], on_error='reject', timeout='2s', volatility='immutable', concurrency=2, max_batch_rows=7,
      null_handling='skip', io_threads=1, mode='row')
def f(n: int):
    yield n
"""
        )
        entry = gate.function("f")
        self.assertEqual((entry["kind"], entry["mode"], entry["on_error"]), ("table", "row", "reject"))
        self.assertEqual((entry["timeout_ns"], entry["volatility"], entry["concurrency"]), (2 * 10**9, "immutable", 2))
        self.assertEqual(self.load(HEAD + "@udf\ndef f(n: int) -> int: ...").function("f")["kind"], "scalar")

    def test_other_packages(self):
        gate = self.load("""
            from arrow_udf import udtf
            from databend_udf import udf
            @udtf(input_types="INT", result_types="INT")
            def one(n):
                yield from range(n)
            @udtf(input_types=["INT"], result_types=["INT", "VARCHAR"])
            def two(n):
                for i in range(n):
                    yield i, str(i)
            @udtf(input_types=["INT"], result_types=["INT"])
            def single(n):
                yield (n,)
            @udf(input_types=["INT"], result_type=["INT", ("b", "VARCHAR")])
            def three(n):
                return [(n, "x"), {"col0": 1, "b": "y"}]
            """)
        self.assertEqual(gate.function("one")["result"]["type"], "int32")
        self.assertEqual([name for name, _, _ in members(gate.function("two")["result"]["type"])], ["", ""])
        self.assertEqual([name for name, _, _ in members(gate.function("three")["result"]["type"])], ["col0", "b"])
        self.assertEqual(table(gate, "one", [2]), [(0, 0), (0, 1)])
        self.assertEqual(table(gate, "two", [2]), [(0, (0, "0")), (0, (1, "1"))])
        self.assertEqual(table(gate, "single", [2]), [(0, (2,))])
        self.assertEqual(table(gate, "three", [5]), [(0, (5, "x")), (0, (1, "y"))])


class Structs(WorkerCase):
    SOURCE = (
        HEAD
        + """
class N(NamedTuple):
    a: int
    b: str

@udtf(input_types=["VARCHAR"], result_types=["INT", "VARCHAR"])
def nameless(text):
    return eval(text)

@udtf(input_types=["VARCHAR"], result_types=[("a", "INT"), ("b", "VARCHAR NOT NULL")])
def named(text):
    return eval(text)
"""
    )

    def test_rows_of_several_values(self):
        for name in ("nameless", "named"):
            got = table(self.gate, name, ["[(1, 'x'), [2, 'y'], (None, 'z'), None, N(3, 'n')]"])
            self.assertEqual([value for _, value in got], [(1, "x"), (2, "y"), (None, "z"), None, (3, "n")], name)
        got = table(self.gate, "named", ["[{'b': 'x', 'a': 1}, {'b': 'y'}, (2, 'z')]"])
        self.assertEqual([value for _, value in got], [(1, "x"), (None, "y"), (2, "z")])

    def test_rows_that_do_not_fit(self):
        for name, row, text in (
            ("nameless", "(1,)", "got tuple (1,)"),
            ("nameless", "[1, 'x', 2]", "got list [1, 'x', 2]"),
            ("nameless", "{'': 1}", "wanted struct<int32, utf8>, got dict {'': 1}"),
            ("nameless", "{}", "got dict {}"),
            ("nameless", "(1, 2)", "result: wanted utf8 at [1], got int 2"),
            ("nameless", "5", "got int 5"),
            ("named", "(1, None)", "result: wanted utf8 at .b, got None"),
            ("named", "{'a': 1}", "without the member b"),
            ("named", "{'c': 1}", "with the unknown member 'c'"),
        ):
            error, _ = failure(self.gate, name, ["[(0, 'a')]", f"[(1, 'a'), {row}]"])
            self.assertEqual((error.row, error.kind), (1, 2), row)
            self.assertIn(text, error.text)
            got = table(self.gate, name, [f"[(1, 'a'), {row}, (2, 'b')]", "[(3, 'c')]"], flags=KEEP)
            self.assertEqual([one[:2] for one in got], [(0, (1, "a")), (0, None), (1, (3, "c"))], row)


class Async(WorkerCase):
    SOURCE = (
        HEAD
        + """
closed = []

@udtf
async def waits(n: int) -> AsyncIterator[int]:
    try:
        for i in range(n):
            await asyncio.sleep(0)
            if i == 7:
                raise ValueError("seven")
            yield i
    finally:
        closed.append(n)

@udtf
async def endless(n: int) -> AsyncIterator[int]:
    while True:
        try:
            yield n
        except GeneratorExit:
            closed.append("ended")
            if n:
                yield 1
            raise

seen = contextvars.ContextVar("seen", default=0)

@udtf
async def one_task(n: int) -> AsyncIterator[int]:
    task = asyncio.current_task()
    while seen.get() < n:
        seen.set(seen.get() + 1)
        yield seen.get() if asyncio.current_task() is task else -1

@udtf
class Both:
    async def __call__(self, n: int) -> AsyncIterator[int]:
        asyncio.get_running_loop()
        yield n

@udf
def ends() -> str:
    return repr(closed)
"""
    )

    def test_async_generators(self):
        self.assertEqual(table(self.gate, "waits", [2, 0, 3]), [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)])
        error, _ = failure(self.gate, "waits", [1, 9])
        self.assertEqual((error.row, error.name, error.text), (1, "ValueError", "seven"))
        self.assertIn("in waits", error.trace)
        got = table(self.gate, "waits", [9, 1], flags=KEEP)
        self.assertEqual([row[:2] for row in got], [*((0, i) for i in range(7)), (0, None), (1, 0)])
        self.assertEqual(table(self.gate, "Both", [3]), [(0, 3)])

    def test_a_body_keeps_its_task_and_context(self):
        rows = [(0, i) for i in range(1, 3001)]  # of several parts
        self.assertEqual(table(self.gate, "one_task", [3000]), rows)
        self.assertEqual(table(self.gate, "one_task", [2, 2]), [(0, 1), (0, 2), (1, 1), (1, 2)])

    def test_their_end(self):
        for n in (0, 1):
            parts = Parts(self.gate, "endless", [n])
            self.assertGreater(parts.read().rows, 0)
            parts.end()
            self.assertEqual(eval(self.gate.call("ends", rows=1).values[0])[-1], "ended")
        self.assertEqual(table(self.gate, "waits", [1]), [(0, 0)])


class Refused(RefusedCase):
    def test_options(self):
        for option in ("mode='arrow'", "mode='list'", "batch=True", "batch_mode=True", "io_threads=2", "elementwise=True",
                       "elementwise=False"):  # fmt: skip
            text = f"served.f: {option} is not for table functions: their bodies run row by row"
            self.check(f"@udtf({option}, result_types=['INT'])\ndef f(x: int): yield x", text, line=2)
        self.check("@udtf(native='require', result_types=['INT'])\ndef f(x: int): yield x", "is not supported yet")
        self.check("@udtf(result_type='INT')\ndef f(x: int): yield x", "result_type is for scalar functions")
        self.check("@udf(result_types=['INT'])\ndef f(x: int): ...", "result_types is for table functions")

    def test_names_of_other_columns(self):
        for name in ("row", "error"):
            text = f"served.{name}: {name} is the name of another column of a table function's answer; give it"
            self.check(f"@udtf(result_types=['INT'])\ndef {name}(): yield 1", text)
            self.check(f"@udtf(result_types=['INT'], name='{name}')\ndef f(): yield 1", text)
        loaded = self.start().load_source("from udfgate import udf\n@udf\ndef row(x: int) -> int: return x")
        self.assertEqual(loaded["functions"][0]["name"], "row")

    def test_types(self):
        head = "from typing import *\n"
        for text, returns in (
            ("result: no type hint; add one such as Iterator[int], or give result_types=[…]", ""),
            ("result: wanted Iterator[…], Iterable[…], Generator[…], AsyncIterator[…] or list[…] for a table function, "
             "got int", " -> int"),
            ("for a table function, got None", " -> None"),
            ("for a table function, got typing.Dict[int, int]", " -> Dict[int, int]"),
            ("the hint needs the type of the rows, as in Iterator[int]", " -> Iterator"),
            ("the hint needs the type of the rows", " -> list"),
            ("tuple needs the types of its members", " -> Iterator[tuple]"),
            ("tuple needs the types of its members", " -> 'Iterator[tuple[int, ...]]'"),
            ("union of several types", " -> Iterator[Union[int, str]]"),
            ("union of several types", " -> Union[Iterator[int], str]"),
        ):  # fmt: skip
            self.check(f"{head}@udtf\ndef f(x: int){returns}:\n    yield x", text, line=3)
        for text, types in (
            ("result: no type is called VARCAHR", "['INT', 'VARCAHR']"),
            ("result_types is empty", "[]"),
            ("two members are called a", "[('a', 'INT'), ('a', 'INT')]"),
            ("either all have names or none; entry 1 has none", "[('a', 'INT'), 'INT']"),
            ("wanted a type or (name, type), got ('a', 'b', 'c')", "[('a', 'b', 'c')]"),
        ):
            self.check(f"@udtf(result_types={types})\ndef f(x: int): yield x", text)

    def test_bodies(self):
        text = "an async table function yields its rows; this one has no yield"
        self.check("@udtf(result_types=['INT'])\nasync def f(x: int): ...", text)
        self.check("@udf\ndef f(x: int) -> int: yield 1", "a generator function yields rows; use @udtf")
        self.check("@udf\nasync def f(x: int) -> int: yield 1", "an async generator function yields rows; use @udtf")
        self.check("@udtf(result_types=['INT'])\nclass C: ...", "served.C: the class has no __call__")


if __name__ == "__main__":
    unittest.main()
