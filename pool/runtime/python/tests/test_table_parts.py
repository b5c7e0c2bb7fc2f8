"""Parts of table functions on the wire: RECODE of one, room for one, the time of one."""

import textwrap
import unittest

from case import WorkerCase
from gateway import NEED, RECODE, REFUSE, RESULT
from tables import KEEP, UNHURRIED, Parts, table
from test_tables import SOURCE, numbers


class Recode(WorkerCase):
    SOURCE = UNHURRIED + SOURCE
    BAD = "'\\ud800'"

    def test_fail(self):
        parts = Parts(self.gate, "yields_text", ["'a'", f"'b';{self.BAD};'c'", "'d'"], block=8)
        self.assertEqual(parts.result().index, [0, 1, 1, 1, 2])
        self.gate.put(RECODE, parts.call)
        (error,) = parts.result().errors
        self.assertEqual((error.row, error.kind, parts.more), (1, 2, False))
        self.assertIn("with a lone surrogate", error.text)
        self.assertEqual(table(self.gate, "series", [1]), [(0, 0)])

    def test_fail_in_the_middle_ends_the_body(self):
        parts = Parts(self.gate, "yields_text", [";".join(["'a'"] * 1000 + [self.BAD] + ["'b'"] * 1000)])
        self.assertEqual((parts.result().rows, parts.more), (1024, True))
        self.gate.put(RECODE, parts.call)
        (error,) = parts.result().errors
        self.assertEqual((error.row, parts.more), (0, False))
        self.assertEqual(table(self.gate, "series", [1]), [(0, 0)])

    def test_keep_going(self):
        inputs = ["'a'", f"'b';{self.BAD};'c'", "1/0", ";".join(["'a'"] * 1017 + [self.BAD] + ["'b'"] * 1000), "'z'"]
        parts = Parts(self.gate, "yields_text", inputs, flags=KEEP, block=64)
        self.assertEqual((parts.result().rows, parts.more), (1024, True))
        for _ in range(2):  # an answer to RECODE may be asked for again
            self.gate.put(RECODE, parts.call)
            part = parts.result()
            self.assertEqual(part.index, [0, 1, 1, 2] + [3] * 1018)
            self.assertEqual(part.values, ["a", "b", None, None] + ["a"] * 1017 + [None])
            self.assertEqual([at for at, text in enumerate(part.texts) if text], [2, 3, 1021])
        self.assertTrue(parts.more)
        parts.next()
        part = parts.read()
        self.assertEqual((part.index, part.values, part.texts, parts.more), ([4], ["z"], None, False))

    def test_a_good_part(self):
        parts = Parts(self.gate, "texts", [1500])
        first = parts.result()
        self.gate.put(RECODE, parts.call)
        again = parts.result()
        self.assertEqual((again.values, again.index, parts.more), (first.values, first.index, True))
        parts.next()
        last = parts.result()
        self.gate.put(RECODE, parts.call)
        self.assertEqual((parts.result().values, parts.more), (last.values, False))


class Room(WorkerCase):
    SOURCE = UNHURRIED + SOURCE

    def test_parts_ask_for_room(self):
        for limit in (64, 5000):
            for flags in (0, KEEP):
                got = table(self.gate, "texts", [5000], limit=limit, flags=flags)
                self.assertEqual(len(got), 5000)
        self.assertEqual(table(self.gate, "series", [3000], limit=64), numbers([3000]))

    def test_room_that_is_refused(self):
        for name, flags in (("series", 0), ("texts", 0), ("texts", KEEP)):
            gate = self.gate
            number, data = gate.call_frame(name, [3000], flags=flags, limit=8)
            gate.send(data)
            kind, _, call, payload = gate.read()
            while kind == NEED:
                gate.put(REFUSE, call, (8).to_bytes(8, "little"))
                kind, _, call, payload = gate.read()
            got = gate.parse(call, payload, "int64")
            self.assertEqual((got.segments[0].status, got.fields["flags"]), (2, 0))
            self.assertEqual(table(gate, "series", [1]), [(0, 0)])

    def test_a_part_without_room_is_cut(self):
        for name, flags in (("texts", 0), ("texts", KEEP), ("series", 0)):
            gate = self.gate
            parts = Parts(gate, name, [3000, 5], flags=flags, limit=4096)
            rows = []
            while True:
                kind, _, call, payload = gate.read()
                if kind == NEED:
                    gate.put(REFUSE, call, (4096).to_bytes(8, "little"))
                    continue
                got = gate.parse(call, payload, gate.function(name)["result"]["type"])
                (part,) = got.segments
                self.assertEqual(part.status, 0)
                rows += zip(part.index, part.values)
                if not got.fields["flags"]:
                    break
                parts.next()
            self.assertEqual(rows, table(gate, name, [3000, 5]), name)

    def test_a_misfit_in_the_half_that_waits(self):
        gate = self.gate
        inputs = [";".join(["'a' * 99"] * 700 + ["5"] + ["'b' * 99"] * 900), "'z'"]
        parts = Parts(gate, "yields_text", inputs, flags=KEEP, limit=65536)
        rows = []
        while True:
            kind, _, call, payload = gate.read()
            if kind == NEED:
                gate.put(REFUSE, call, (65536).to_bytes(8, "little"))
                continue
            got = gate.parse(call, payload, "utf8")
            (part,) = got.segments
            if 5 in part.values:
                gate.put(RECODE, call)
                continue
            rows += zip(part.index, part.values)
            if not got.fields["flags"]:
                break
            parts.next()
        self.assertEqual(rows, [(0, "a" * 99)] * 700 + [(0, None), (1, "z")])

    def test_a_cut_part_whose_row_is_over(self):
        gate, bad = self.gate, "'\\ud800'"
        inputs = [";".join(["'a' * 99"] * 70 + [bad] + ["'b' * 99"] * 900), "'z'"]
        parts = Parts(gate, "yields_text", inputs, flags=KEEP, limit=16384)
        rows, texts, gate.again = [], [], 0
        while True:
            kind, _, call, payload = gate.read()
            if kind == NEED:
                gate.put(REFUSE, call, (16384).to_bytes(8, "little"))
                continue
            if kind != RESULT or gate.again != call:
                gate.again = call
                gate.put(RECODE, call)
                continue
            gate.again = 0
            got = gate.parse(call, payload, "utf8")
            (part,) = got.segments
            self.assertEqual(part.status, 0)
            rows += zip(part.index, part.values)
            texts += part.texts or []
            if not got.fields["flags"]:
                break
            parts.next()
        self.assertEqual(rows, [(0, "a" * 99)] * 70 + [(0, None), (1, "z")])
        self.assertIn("lone surrogate", texts[70])

    def test_private_arenas(self):
        gate = self.load(SOURCE, arenas="private")
        self.assertEqual(table(gate, "series", [3000, 0, 7]), numbers([3000, 0, 7]))
        self.assertEqual(len(table(gate, "texts", [3000], flags=KEEP, limit=64)), 3000)
        parts = Parts(gate, "stubborn", ["swallows"])
        parts.read()
        parts.end()


class Asking(WorkerCase):
    def test_each_part_counts_what_it_counted(self):
        source = """
            import udfgate
            from typing import Iterator
            @udfgate.udtf
            def counted(n: int) -> Iterator[str]:
                try:
                    for i in range(n):
                        udfgate.counter("rows").add()
                        yield udfgate.context().call_id
                finally:
                    udfgate.counter("ends").add()
            """
        gate = self.load(UNHURRIED + textwrap.dedent(source))
        parts = Parts(gate, "counted", [1500, 1])
        values = [value for part in parts for value in part.values]
        self.assertEqual(len(set(values)), 1)
        self.assertEqual(gate.counted, [(parts.call, {"rows": 1024}), (parts.call, {"rows": 477, "ends": 2})])
        self.assertEqual(gate.asked, [(parts.call, 1)])
        parts = Parts(gate, "counted", [5000])
        parts.read()
        parts.end()
        self.assertEqual(gate.counted[2:], [(parts.call, {"rows": 1024}), (parts.call, {"ends": 1})])


class Phases(WorkerCase):
    SOURCE = SOURCE

    def test_each_part_has_its_own(self):
        parts = Parts(self.gate, "slow", [12], flags=1)
        sizes = [part.rows for part in parts]
        self.assertEqual(sum(sizes), 12)
        self.assertGreater(len(sizes), 1)
        for size, fields in zip(sizes, parts.fields[:-1]):
            self.assertLessEqual(fields["body"], fields["send"] - fields["recv"])  # its own, not that of all so far
            self.assertGreaterEqual(fields["body"], size * 30_000_000)  # each row sleeps for that long
            self.assertGreater(fields["body_cpu"], 0)
            self.assertLess(fields["body_cpu"], fields["body"])
        for before, after in zip(parts.fields, parts.fields[1:]):
            self.assertGreater(after["recv"], before["send"])

    def test_rows_without_results_take_their_time_in_parts_too(self):
        gate = self.load("""
            import time
            from typing import Iterator
            from udfgate import udtf
            @udtf
            def barren(n: int) -> Iterator[int]:
                time.sleep(0.03)
                return iter(())
            """)
        sizes = [part.rows for part in Parts(gate, "barren", [0] * 12)]
        self.assertEqual(sum(sizes), 0)
        self.assertGreater(len(sizes), 1)

    def test_a_worker_without_table_functions_does_not_load_them(self):
        gate = self.load("""
            import sys
            from udfgate import udf
            @udf
            def there() -> bool:
                return "udfgate_worker.table" in sys.modules
            """)
        self.assertEqual(gate.call("there", rows=1).values, [False])


if __name__ == "__main__":
    unittest.main()
