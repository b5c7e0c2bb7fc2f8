"""Rows of table functions that share an object, and rows that are large."""

import unittest

from case import WorkerCase
from gateway import NEED, REFUSE
from tables import KEEP, UNHURRIED, Parts, failure, table

SOURCE = """
import asyncio, time
from dataclasses import dataclass
from typing import AsyncIterator, Iterator, NamedTuple, TypedDict
from udfgate import udtf

class Member(TypedDict):
    a: int

class Whole(TypedDict):
    a: int
    inner: Member
    items: list[int]

@dataclass
class Data:
    a: int

@udtf
def filled(n: int) -> Iterator[Member]:
    row = {}
    for i in range(n):
        row["a"] = i
        yield row

@udtf
async def filled_later(n: int) -> AsyncIterator[Member]:
    row = {}
    for i in range(n):
        row["a"] = i
        yield row

@udtf
def returned(n: int) -> list[Member]:
    shared["a"] = n
    return [shared]

shared = {}

@udtf
def instance(n: int) -> Iterator[Data]:
    row = Data(0)
    for i in range(n):
        row.a = i
        yield row

@udtf
def deep(n: int) -> Iterator[Whole]:
    row = {"a": 0, "inner": {"a": 0}, "items": []}
    for i in range(n):
        row["a"] = row["inner"]["a"] = i
        row["items"].append(i)
        yield row

@udtf
def items(n: int) -> Iterator[list[int]]:
    row = [0, 0]
    for i in range(n):
        row[0] = i
        yield row

@udtf(input_types=["BIGINT"], result_types=["INT", "ARRAY(INT)"])
def pairs(n):
    items = []
    row = [0, items]
    for i in range(n):
        row[0] = i
        items.append(i)
        yield row

@udtf
def mapping(n: int) -> Iterator[dict[str, list[int]]]:
    row = {"a": []}
    for i in range(n):
        row["a"].append(i)
        yield row

@udtf(input_types=["BIGINT"], result_types=["JSON"])
def json(n):
    row = {"a": [{}]}
    for i in range(n):
        row["a"][0]["b"] = i
        yield row

@udtf
def buffer(n: int) -> Iterator[bytes]:
    row = bytearray(1)
    for i in range(n):
        row[0] = i
        yield row

@udtf
def itself(n: int) -> Iterator[list[list[int]]]:
    row = []
    row.append(row)
    yield row

@udtf
def large(size: int, n: int) -> Iterator[str]:
    for i in range(n):
        yield "%d" % i * size

@udtf
async def large_later(size: int, n: int) -> AsyncIterator[str]:
    for i in range(n):
        yield "%d" % i * size

@udtf
def large_list(size: int, n: int) -> list[str]:
    return ["%d" % i * size for i in range(n)]

@udtf
def large_rows(size: int) -> Iterator[str]:
    yield "x" * size

@udtf
def large_members(size: int, n: int) -> Iterator[tuple[int, str]]:
    for i in range(n):
        yield i, "%d" % (i % 10) * size

@udtf
async def cancels(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
    asyncio.current_task().cancel()
"""


class Shared(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def check(self, name, want, count=4):
        for flags in (0, KEEP):
            got = [value for _, value in table(self.gate, name, [count], flags=flags)]
            self.assertEqual(got, [want(i) for i in range(count)], name)

    def test_a_dict_that_is_filled_anew(self):
        for name in ("filled", "filled_later", "instance"):
            self.check(name, lambda i: (i,))
        self.assertEqual(table(self.gate, "returned", [1, 2, 3]), [(0, (1,)), (1, (2,)), (2, (3,))])

    def test_what_nests(self):
        self.check("deep", lambda i: (i, (i,), list(range(i + 1))))
        self.check("items", lambda i: [i, 0])
        self.check("pairs", lambda i: (i, list(range(i + 1))))
        self.check("mapping", lambda i: [("a", list(range(i + 1)))])
        self.check("json", lambda i: '{"a": [{"b": %d}]}' % i)
        self.check("buffer", lambda i: bytes([i]))

    def test_a_list_in_itself(self):
        error, _ = failure(self.gate, "itself", [1])
        self.assertEqual((error.row, error.name), (0, "TypeError"))
        self.check("filled", lambda i: (i,))


class Large(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def test_a_part_has_so_many_bytes(self):
        size, most = 1 << 20, 8 << 20
        for name in ("large", "large_later", "large_list"):
            parts = [part.values for part in Parts(self.gate, name, [size], [30])]
            rows = [value for values in parts for value in values]
            self.assertEqual(len(rows), 30)
            self.assertEqual([row[:1] for row in rows], [str(i)[:1] for i in range(30)])
            for values in parts:
                self.assertLessEqual(sum(map(len, values[:-1])), most)
            self.assertGreater(len(parts), 4)
        sizes = [len(part.values) for part in Parts(self.gate, "large_rows", [size] * 30)]
        self.assertEqual(sum(sizes), 30)
        self.assertLessEqual(max(sizes), 16)
        sizes = [part.rows for part in Parts(self.gate, "large_members", [size], [30])]
        self.assertEqual(sum(sizes), 30)
        self.assertLessEqual(max(sizes), 24)  # weighed once in a millisecond

    def test_parts_begin_with_what_had_room(self):
        """The room that is refused: one question for each halving, and later one for each attempt at more."""
        for name in ("large", "large_list"):
            parts, rows, refused, sizes = Parts(self.gate, name, [1000], [900], limit=32768), 0, 0, []
            while True:
                kind, _, call, payload = self.gate.read()
                if kind == NEED:
                    refused += 1
                    self.gate.put(REFUSE, call, (32768).to_bytes(8, "little"))
                    continue
                got = self.gate.parse(call, payload, "utf8")
                self.assertEqual(got.segments[0].status, 0)
                sizes.append(got.segments[0].rows)
                rows += sizes[-1]
                if not got.fields["flags"]:
                    break
                parts.next()
            self.assertEqual(rows, 900)
            self.assertLess(refused, 10 + len(sizes) // 3, (name, sizes))
            self.assertLess(len(sizes), 900 // 5, (name, sizes))


class Cancelled(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def test_a_body_that_cancels_its_task_at_its_end(self):
        self.assertEqual(table(self.gate, "cancels", [3, 1]), [(0, 0), (0, 1), (0, 2), (1, 0)])


if __name__ == "__main__":
    unittest.main()
