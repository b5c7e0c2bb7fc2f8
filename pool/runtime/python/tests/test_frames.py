"""The protocol itself: frames in pieces and in heaps, arenas, NEED, REFUSE, RECODE, and what ends a worker."""

import json
import os
import re
import select
import signal
import struct
import time
import unittest

import gateway
from case import WorkerCase
from gateway import (
    ARENA,
    BYE,
    CALL,
    DROP,
    INPUT,
    LOAD,
    NEED,
    OUTPUT,
    PING,
    PONG,
    RECODE,
    REFUSE,
    RESULT,
    STATS,
    Arena,
    frame,
)

SOURCE = """
from udfgate import udf
import time

@udf
def inc(a: int) -> int:
    return a + 1

@udf
def grow(a: int) -> str:
    return str(a) * 100

@udf(input_types=["utf8"], result_type="utf8 not null")
def whatever(s):
    return eval(s)

@udf
def maybe(s: "str | None") -> "str | None":
    return s

@udf
def slow(ms: int) -> int:
    time.sleep(ms / 1000)
    return ms
"""


class Frames(WorkerCase):
    def test_hello(self):
        gate = self.start()
        hello = gate.hello
        self.assertEqual((hello["protocol"], hello["runtime"], hello["slots"]), (1, "python", 1))
        self.assertEqual(hello["pid"], gate.pid)
        self.assertEqual(hello["forms"], ["arrow", "flat", "marshal"])
        self.assertRegex(hello["version"], r"^3\.\d+\.\d+$")
        for folder in hello["site"]:
            self.assertTrue(folder.endswith("-packages"), folder)

    def test_ping(self):
        gate = self.start()
        for payload in (b"", b"x" * 64):
            before = time.monotonic_ns()
            gate.put(PING, 9, payload)
            call, pong = gate.expect(PONG)
            self.assertEqual(call, 9)
            self.assertTrue(before <= struct.unpack("<Q", pong)[0] <= time.monotonic_ns())

    def test_stats(self):
        gate = self.load(SOURCE)
        gate.call("inc", [1] * 10)
        gate.call("inc", [1])
        gate.put(STATS, 3)
        call, payload = gate.expect(STATS)
        stats = json.loads(payload)
        self.assertEqual((call, stats["calls"], stats["rows"]), (3, 2, 11))
        self.assertGreater(stats["peak_bytes"], 1 << 20)

    def test_byte_by_byte(self):
        gate = self.start()
        file = gate.write(SOURCE)
        request = {"modules": [{"name": "m", "file": file}], "path": [], "generation": 1}
        gate.send(frame(PING, 1) + frame(LOAD, 0, json.dumps(request).encode()), pieces=1)
        gate.expect(PONG)
        gate.generation = 1
        gate.loaded = json.loads(gate.expect(5)[1])
        number, data = gate.call_frame("inc", [1, 2, 3])
        gate.send(data, pieces=1)
        self.assertEqual(gate.result("inc").values, [2, 3, 4])

    def test_several_frames_in_one_read(self):
        gate = self.load(SOURCE)
        rnd, seed = self.seeded()
        frames = []
        for at in range(60):
            gate.input.at = 0
            segment = gate.segment(gate.function("inc"), [[at]], 1, 0, 1)
            number, data = gate.call_frame("inc", segments=[segment])
            frames += [data, frame(PING, at), frame(0x55, 0, b"?" * at, 0x8000)]
        data = b"".join(frames)
        at = 0
        while at < len(data):
            step = rnd.choice((1, 15, 16, 17, 300, 5000))
            gate.send(data[at : at + step])
            at += step
        for at in range(60):
            wanted = at + 1 if gate.private else 60  # shared: every call reads the input written last
            self.assertEqual(gate.result("inc").values, [wanted], seed)
            self.assertEqual(gate.expect(PONG)[0], at, seed)

    def test_frames_longer_than_the_buffer(self):
        gate = self.start()
        file = gate.write(SOURCE + "\nVALUE = 1\n")
        modules = [{"name": "m", "file": file}]
        request = {
            "modules": modules,
            "path": ["/nowhere/" + "x" * 1000 + str(n) for n in range(2000)],
            "generation": 1,
        }
        data = frame(PING, 1) + frame(LOAD, 0, json.dumps(request).encode()) + frame(PING, 2)
        self.assertGreater(len(data), 1 << 20)
        gate.send(data)
        gate.expect(PONG)
        self.assertIn("functions", json.loads(gate.expect(5)[1]))
        gate.expect(PONG)

    def test_a_call_of_many_segments(self):
        gate = self.load(SOURCE)
        gate.input.at = 0
        segments = [gate.segment(gate.function("inc"), [[n]], 1, 0, 1) for n in range(3000)]
        got = gate.call("inc", segments=segments)  # more than the usual buffer holds
        self.assertEqual([segment.values for segment in got.segments], [[n + 1] for n in range(3000)])

    def test_unknown_frame_types(self):
        gate = self.start()
        gate.put(0x1234, 0, b"skip me", 0x8000)
        gate.put(PING)
        gate.expect(PONG)
        gate.put(0x1234, 0, b"not me")
        self.assertIn("protocol error", self.assert_gone(gate, 70))

    def test_unexpected_frames(self):
        for kind, payload in (
            (REFUSE, bytes(8)),
            (RECODE, b""),
            (NEED, bytes(8)),
            (CALL, bytes(96)),
            (DROP, b"\1\0\0\0\0\0\0\0" * 2),
        ):
            gate = self.start()
            if kind == DROP:
                gate.put(DROP, 0, struct.pack("<II", 99, 0))
            else:
                gate.put(kind, 7, payload)
            self.assertIn("protocol error", self.assert_gone(gate, 70), kind)

    def test_load_comes_once(self):
        gate = self.load(SOURCE)
        gate.put(LOAD, 0, b"{}")
        self.assertIn("protocol error", self.assert_gone(gate, 70))

    def test_frames_that_are_too_long(self):
        for kind, length in ((PING, (1 << 20) + 1), (LOAD, (16 << 20) + 1)):
            gate = self.start()
            gate.send(struct.pack("<IHHQ", length, kind, 0, 0))
            self.assertIn("protocol error", self.assert_gone(gate, 70))

    def test_broken_calls(self):
        gate = self.load(SOURCE)
        _, good = gate.call_frame("inc", [1, 2, 3])
        for cut in (48, 96, 100):  # of the payload
            broken = self.load(SOURCE)
            broken.send(frame(CALL, 1, good[16 : 16 + cut]))
            self.assertTrue(self.assert_gone(broken, 70))
        for at, value in ((20, 12), (20, 8192), (20, 0), (48 + 8, 1)):  # block_rows, row_lo
            broken = self.load(SOURCE)
            payload = bytearray(good[16:])
            struct.pack_into("<I", payload, at, value)
            broken.send(frame(CALL, 1, bytes(payload)))
            self.assertIn("protocol error", self.assert_gone(broken, 70), (at, value))

    def test_calls_that_cannot_run(self):
        gate = self.load(SOURCE)
        for options in ({"number": 99}, {"generation": 2}):
            error = gate.call("inc", [1, 2], **options).error
            self.assertEqual(error.kind, 3)
            self.assertIn("is gone", error.text)
        error = gate.call("inc", [1, 2], [3, 4]).error
        self.assertEqual((error.kind, error.text), (3, "wanted 1 columns, got 2"))
        error = gate.call("inc", [1, 2], forms=[gateway.FLAT]).error
        self.assertEqual(error.kind, 3)
        self.assertEqual(gate.call("inc", [1, 2]).values, [2, 3])

    def test_end_of_file_ends_the_worker(self):
        gate = self.load(SOURCE + "\nimport atexit\natexit.register(print, 'bye')\n")
        gate.socket.close()
        self.assertEqual(gate.wait(), 0)
        self.assertNotIn(b"bye", gate.stdout.read())

    def test_bye_runs_exit_handlers(self):
        gate = self.load(SOURCE + "\nimport atexit\natexit.register(print, 'bye')\n")
        gate.put(BYE)
        self.assertEqual(gate.wait(), 0)
        self.assertIn(b"bye", gate.stdout.read())


class Arenas(WorkerCase):
    def test_many_arenas_and_drop(self):
        gate = self.load(SOURCE)
        first, out = gate.input, gate.output
        for number in range(40):
            gate.input = gate.add_arena(INPUT, 1 << 16)
            self.assertEqual(gate.call("inc", [number]).values, [number + 1])
            gate.put(DROP, 0, struct.pack("<II", gate.input.number, 0))
        gate.input, gate.output = first, out
        self.assertEqual(gate.call("inc", [5]).values, [6])
        self.assertLess(len(self.maps(gate)), 6)

    def test_a_new_output_replaces_the_last(self):
        gate = self.load(SOURCE)
        for _ in range(10):
            gate.output = gate.add_arena(OUTPUT, 1 << 16)
            self.assertEqual(gate.call("inc", [1] * 9).values, [2] * 9)
        self.assertLess(len(self.maps(gate)), 5)

    def test_descriptors_do_not_pile_up(self):
        gate = self.load(SOURCE)
        gate.call("inc", [1])
        before = len(os.listdir(f"/proc/{gate.pid}/fd"))
        for _ in range(20):
            gate.output = gate.add_arena(OUTPUT, 1 << 16)
            gate.call("inc", [1])
        self.assertLessEqual(len(os.listdir(f"/proc/{gate.pid}/fd")), before + 1)

    def test_an_arena_without_descriptor(self):
        gate = self.start()
        gate.put(ARENA, 0, struct.pack("<IIQ", 9, INPUT, 4096))
        self.assertIn("without descriptor", self.assert_gone(gate, 70))

    def test_an_arena_smaller_than_it_says(self):
        gate = self.start()
        arena = Arena(9, INPUT, 4096)
        gate.arenas[9] = arena
        arena.size = 8192
        self.hand_over(gate, arena)
        self.assertIn("protocol error", self.assert_gone(gate, 70))

    def test_rights_that_come_with_an_earlier_frame(self):
        gate = self.load(SOURCE)
        arena = Arena(50, INPUT, 1 << 16)
        gate.arenas[50] = arena
        _, data = gate.call_frame("slow", [100])
        gate.send(data + frame(PING, 1))  # the worker finds the PING and the ARENA in one read
        self.hand_over(gate, arena)
        gate.input = arena
        self.assertEqual(gate.result("slow").values, [100])
        gate.expect(PONG)
        self.assertEqual(gate.call("inc", [1]).values, [2])

    def hand_over(self, gate, arena):
        import array
        import socket

        data = frame(ARENA, 0, struct.pack("<IIQ", arena.number, arena.role, arena.size))
        gate.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [arena.descriptor]))])

    def maps(self, gate):
        with open(f"/proc/{gate.pid}/maps", encoding="utf-8") as f:
            return [line for line in f if "memfd:arena" in line]


class Room(WorkerCase):
    """NEED and REFUSE."""

    def need(self, gate):
        kind, _, call, payload = gate.read()
        self.assertEqual(kind, NEED)
        return struct.unpack("<Q", payload)[0]

    def test_fixed_width_asks_before_the_body_runs(self):
        gate = self.load(SOURCE)
        gate.send_call("inc", list(range(5000)), limit=4096)
        self.assertGreaterEqual(self.need(gate), 40000)
        gate.output = gate.add_arena(OUTPUT, 1 << 17)
        got = gate.result("inc")
        self.assertEqual(got.values, list(range(1, 5001)))
        self.assertEqual((got.fields["out_arena"], got.fields["out_base"]), (gate.output.number, 0))

    def test_text_takes_what_it_has_written_along(self):
        gate = self.load(SOURCE)
        gate.send_call("grow", list(range(5000)), limit=1 << 16, block=64)
        asked = []
        while True:
            kind, _, call, payload = gate.read()
            if kind != NEED:
                break
            asked += struct.unpack("<Q", payload)
            gate.output = gate.add_arena(OUTPUT, -(-asked[-1] // 4096) * 4096)
        self.assertEqual(kind, RESULT)
        self.assertEqual(gate.parse(call, payload, "utf8").values, [str(a) * 100 for a in range(5000)])
        self.assertLessEqual(len(asked), 3, asked)

    def test_waiting_is_no_phase(self):
        gate = self.load(SOURCE)
        gate.send_call("inc", list(range(5000)), limit=0)
        self.need(gate)
        time.sleep(0.05)  # the delay is what is measured
        gate.output = gate.add_arena(OUTPUT, 1 << 17)
        fields = gate.result("inc").fields
        phases = fields["decode"] + fields["body"] + fields["encode"]
        self.assertGreaterEqual(fields["send"] - fields["recv"] - phases, 50_000_000)

    def test_refuse(self):
        gate = self.load(SOURCE)
        for name in ("inc", "grow"):
            gate.send_call(name, list(range(5000)), limit=4096, block=64)
            self.need(gate)
            gate.put(REFUSE, 0, struct.pack("<Q", 4096))
            got = gate.result(name)
            self.assertEqual((got.segments[0].status, got.segments[0].errors), (2, []))
            self.assertEqual(gate.call("inc", [1]).values, [2])

    def test_a_wish_refused_is_followed_by_the_need(self):
        gate = self.load(SOURCE)
        gate.send_call("grow", list(range(5000)), limit=1 << 16, block=64)
        wish = self.need(gate)
        gate.put(REFUSE, 0, struct.pack("<Q", wish - 1))
        self.assertEqual(self.need(gate), wish - 1)
        gate.output = gate.add_arena(OUTPUT, -(-wish // 4096) * 4096)
        self.assertEqual(len(gate.result("grow").values), 5000)

    def test_a_call_queued_ahead_of_the_answer(self):
        gate = self.load(SOURCE)
        old = gate.output
        gate.send_call("inc", list(range(5000)), limit=64)
        _, ahead = gate.call_frame("inc", [41], out=old, base=64)
        gate.send(ahead + frame(PING, 5)[:0])
        self.need(gate)
        gate.output = gate.add_arena(OUTPUT, 1 << 17)
        self.assertEqual(len(gate.result("inc").values), 5000)
        got = gate.result("inc")
        self.assertEqual((got.values, got.fields["out_arena"]), ([42], old.number))
        self.assertEqual(gate.call("inc", [1]).fields["out_arena"], gate.output.number)

    def test_one_row(self):
        gate = self.load(SOURCE)
        for name, wanted in (("inc", [2]), ("grow", ["1" * 100])):
            gate.send_call(name, [1], limit=0)
            self.need(gate)
            gate.output = gate.add_arena(OUTPUT, 1 << 16)
            self.assertEqual(gate.result(name).values, wanted)


class Recode(WorkerCase):
    def test_rows_are_named(self):
        gate = self.load(SOURCE)
        for bad, name, text in (
            ("None", "TypeError", "result: wanted utf8, got None"),
            ("5", "TypeError", "result: wanted utf8, got int 5"),
            ("b'x'", "TypeError", "result: wanted utf8, got bytes b'x'"),
            ("['a']", "TypeError", "result: wanted utf8, got list ['a']"),
            ("'\\ud800'", "ValueError", "result: wanted utf8, got str '\\ud800' with a lone surrogate"),
        ):
            for rows, at in ((1, 0), (30, 17)):
                got = gate.call("whatever", ["'x'"] * at + [bad] + ["'y'"] * (rows - at - 1), block=8)
                if got.segments[0].status == 0:
                    gate.put(RECODE, got.call)
                    got = gate.result("whatever")
                error = got.error
                self.assertEqual((error.row, error.kind, error.name, error.text), (at, 2, name, text))

    def test_a_good_answer_stays_as_it_is(self):
        gate = self.load(SOURCE)
        values = ["yes", None, "Zoë"] * 50
        got = gate.call("maybe", values, block=8)
        for _ in range(2):
            gate.put(RECODE, got.call)
            again = gate.result("maybe")
            self.assertEqual((again.values, again.call), (values, got.call))

    def test_the_answer_before_the_last(self):
        gate = self.load(SOURCE)
        first = gate.call("whatever", ["1"] * 9, limit=4096)
        gate.call("maybe", ["b"] * 9, base=4096)
        gate.put(RECODE, first.call)
        self.assertEqual(gate.result("whatever").error.row, 0)

    def test_an_answer_in_an_arena_that_was_replaced(self):
        gate = self.load(SOURCE)
        first = gate.call("maybe", ["a"] * 9)
        gate.output = gate.add_arena(OUTPUT, 1 << 16)
        gate.call("maybe", ["b"] * 9)
        gate.put(RECODE, first.call)
        self.assertEqual(gate.result("maybe").values, ["a"] * 9)

    def test_segments_that_failed_stay_failed(self):
        gate = self.load(SOURCE)
        function = gate.function("whatever")
        gate.input.at = 0
        segments = [
            gate.segment(function, [rows], len(rows), 0, len(rows)) for rows in (["1/0"], ["'a'", "7"], ["'b'"])
        ]
        got = gate.call("whatever", segments=segments)
        self.assertEqual([segment.status for segment in got.segments], [1, 0, 0])
        gate.put(RECODE, got.call)
        got = gate.result("whatever")
        self.assertEqual([segment.status for segment in got.segments], [1, 1, 0])
        self.assertEqual(got.segments[0].errors[0].name, "ZeroDivisionError")
        self.assertEqual(got.segments[1].errors[0].row, 1)

    def test_an_answer_that_is_gone(self):
        gate = self.load(SOURCE)
        call = gate.call("maybe", ["a"]).call
        for _ in range(3):
            gate.call("maybe", ["b"])
        gate.put(RECODE, call)
        self.assertIn("is gone", self.assert_gone(gate, 70))


class Times(WorkerCase):
    SOURCE = SOURCE

    def test_phases(self):
        before = time.monotonic_ns()
        fields = self.gate.call("slow", [20, 30]).fields
        self.assertGreaterEqual(fields["body"], 50_000_000)
        self.assertTrue(before < fields["recv"] < fields["send"] < time.monotonic_ns())
        self.assertEqual(fields["body_cpu"], 0)

    def test_processor_time(self):
        """The flag of the CALL decides, whatever the number of rows."""
        for rows in (1, 2, 5000):
            self.assertEqual(self.gate.call("inc", [1] * rows).fields["body_cpu"], 0)
            fields = self.gate.call("inc", [1] * rows, flags=1).fields
            self.assertTrue(0 < fields["body_cpu"] <= fields["body"] * 1.5 + 20_000, fields)

    def test_peak(self):
        self.assertGreater(self.gate.call("inc", [1]).fields["peak"], 1 << 20)
        self.assertGreater(self.gate.call("slow", [3]).fields["peak"], 1 << 20)


class Signals(WorkerCase):
    def test_stacks_on_request(self):
        gate = self.load(SOURCE)
        os.set_blocking(gate.stderr.fileno(), False)
        for ms in (1500, 6000, 24000):  # on a busy machine the body may be over before it is asked
            gate.send_call("slow", [ms])
            text = b""
            deadline = time.monotonic() + ms / 1000 * 0.8
            while b"in slow" not in text and time.monotonic() < deadline:
                os.kill(gate.pid, signal.SIGUSR1)
                select.select([gate.stderr], [], [], 0.1)
                text += gate.stderr.read() or b""
            self.assertEqual(gate.result("slow").values, [ms])
            if b"in slow" in text:
                break
        self.assertTrue(re.search(rb'File ".*served.py", line \d+ in slow', text), text)

    def test_interrupts_are_ignored(self):
        gate = self.load(SOURCE)
        os.kill(gate.pid, signal.SIGINT)
        self.assertEqual(gate.call("inc", [1]).values, [2])


if __name__ == "__main__":
    unittest.main()
