"""Private arenas: what the worker does with DATA. UDFGATE_TEST_ARENAS=private runs all other tests over them too."""

import struct
import unittest

from case import WorkerCase
from gateway import DATA, DROP, INPUT, NEED, OUTPUT, RECODE, RESULT, data_head

SOURCE = """
from typing import Optional
from udfgate import udf

@udf
def inc(x: int) -> int:
    return x + 1

@udf
def shout(s: Optional[str]) -> Optional[str]:
    return None if s is None else s.upper()

@udf
def big(n: int) -> str:
    return "x" * n

@udf
def stop(n: int) -> int:
    raise StopIteration("the message")
"""
BROKEN = 70


class Private(WorkerCase):
    def gateway(self, **options):
        return self.load(SOURCE, arenas="private", **options)

    def test_hello_offers_both(self):
        self.assertEqual(self.start().hello["arenas"], ["shared", "private"])

    def test_values(self):
        gate = self.gateway(out_size=4 << 20)
        for rows in (1, 7, 8, 4097, 100_000):
            self.assertEqual(gate.call("inc", list(range(rows))).values, list(range(1, rows + 1)))
            texts = [None if at % 5 == 0 else f"text {at}" for at in range(rows)]
            wanted = [None if text is None else text.upper() for text in texts]
            self.assertEqual(gate.call("shout", texts).values, wanted)

    def test_answer_comes_right_before_its_result(self):
        gate = self.gateway()
        for rows, most in ((1, 1), (20_000, 10)):
            call = gate.send_call("inc", [5] * rows)
            offset = 0
            for _ in range(most):
                kind, flags, of, payload = raw_read(gate)
                if kind == RESULT:
                    break
                arena, _, at = struct.unpack_from("<IIQ", payload)
                self.assertEqual((kind, flags, of, arena, at), (DATA, 0, call, gate.output.number, offset))
                self.assertLessEqual(len(payload), 1 << 20)
                offset += len(payload) - 16
            else:
                kind, flags, of, payload = raw_read(gate)
            self.assertEqual((kind, of), (RESULT, call))
            (used,) = struct.unpack_from("<Q", payload, 72)
            self.assertEqual(offset, used)

    def test_one_row_takes_the_same_way_as_shared(self):
        gate = self.gateway()
        gate.call("inc", [1])  # the first call into an arena takes the long way
        error = gate.call("stop", [1]).error  # of a block the message would be lost
        self.assertEqual((error.name, error.text), ("StopIteration", "the message"))

    def test_need_and_recode(self):
        gate = self.gateway(out_size=4096)
        values = gate.call("big", [3, 50_000, 0, 200_000]).values
        self.assertEqual(values, ["x" * n for n in (3, 50_000, 0, 200_000)])
        gate.put(RECODE, gate.next_call - 1)
        self.assertEqual(gate.result("big").values, values)

    def test_call_queued_in_front_of_the_answer_to_need(self):
        gate = self.gateway(out_size=4096)
        segment = gate.segment(gate.function("big"), [[10_000]], 1, 0, 1)
        first, one = gate.call_frame("big", segments=[segment])
        segment = gate.segment(gate.function("inc"), [[41]], 1, 0, 1)
        small, two = gate.output, gate.call_frame("inc", segments=[segment], limit=64)[1]
        gate.send(one + two)  # the second and its DATA lie in front of the ARENA
        kind, _, _, payload = gate.read()
        self.assertEqual(kind, NEED)
        gate.output = gate.add_arena(OUTPUT, struct.unpack("<Q", payload)[0] + 4096)
        result = gate.result("big")
        self.assertEqual((result.call, result.values), (first, ["x" * 10_000]))
        self.assertIs(gate.arenas[small.number], small)
        self.assertEqual(gate.result("inc").values, [42])

    def test_data_for_an_arena_that_was_dropped(self):
        gate = self.gateway()
        extra = gate.add_arena(INPUT, 4096)
        gate.put(DROP, 0, struct.pack("<II", extra.number, 0))
        gate.put(DATA, 0, data_head(extra.number, 0) + b"x")
        self.assertIn("which is no private input", self.assert_gone(gate, BROKEN))

    def test_broken_data_ends_the_worker(self):
        for payload, said in (
            (b"short", "DATA of 5 bytes"),
            (data_head(99, 0) + b"x", "DATA of arena 99"),
            (data_head(2, 0) + b"x", "DATA of arena 2"),  # the output
            (data_head(1, 8 << 20) + b"x", "DATA of 1 bytes at 8388608"),
            (data_head(1, (8 << 20) - 4) + b"12345678", "DATA of 8 bytes at 8388604"),
            (data_head(1, (1 << 64) - 4) + b"12345678", "DATA of 8 bytes at 18446744073709551612"),
        ):
            with self.subTest(said):
                gate = self.gateway()
                gate.put(DATA, 0, payload)
                self.assertIn(said, self.assert_gone(gate, BROKEN))

    def test_data_of_a_shared_arena_ends_the_worker(self):
        gate = self.load(SOURCE, arenas="shared")
        gate.put(DATA, 0, data_head(gate.input.number, 0) + b"x")
        self.assertIn("which is no private input", self.assert_gone(gate, BROKEN))

    def test_arguments_cannot_be_written(self):
        gate = self.load("""
            import gc
            from udfgate import udf

            @udf
            def writable(n: int) -> int:
                views = [v for v in gc.get_objects() if type(v).__name__ == "Arenas"]
                return sum(not view.readonly for a in views for view in a.raw.values())
        """, arenas="private")  # fmt: skip
        self.assertEqual(gate.call("writable", [1]).values, [1])  # the output

    def test_frames_in_pieces(self):
        gate = self.gateway()
        for pieces in (1, 17):
            self.assertEqual(gate.call("inc", [1, 2], pieces=pieces).values, [2, 3])


def raw_read(gate):
    """The next frame, DATA too."""
    gate.private = False
    try:
        return gate.read()
    finally:
        gate.private = True


if __name__ == "__main__":
    unittest.main()
