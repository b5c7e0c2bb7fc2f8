"""Bodies that wait: rows at once in threads (io_threads) and as tasks (async def), and what bodies do to both."""

import os
import signal
import time
import unittest

from case import WorkerCase
from gateway import BYE, PING, PONG

SOURCE = """
import asyncio, contextvars, os, sys, threading, time
from udfgate import udf
from udfgate_worker import tasks as of_tasks, threads as of_threads, waiting

together, most, lock = 0, 0, threading.Lock()
mark = contextvars.ContextVar("mark", default="none")
begun, failed = [], []

class Block(waiting.Block):
    def fail(self, at, error):
        super().fail(at, error)
        failed.append(self.next)  # rows that have been given out, and no more will be

of_tasks.Block = of_threads.Block = Block

def enter():
    global together, most
    with lock:
        together += 1
        most = max(most, together)

def leave():
    global together
    with lock:
        together -= 1

def until(n):
    end = time.monotonic() + 20
    while most < n and time.monotonic() < end:
        time.sleep(0.001)

def act(x, source):
    begun.append(x)
    if source:
        exec(source, {**globals(), "x": x})

@udf(input_types=["INT", "VARCHAR"], result_type="VARCHAR", io_threads=8)
def threads(x, source):
    enter()
    try:
        time.sleep(0.002)
        act(x, source)
        was = mark.get()
        mark.set(str(x))
        return "%d %s" % (x, was)
    finally:
        leave()

@udf(input_types=["INT", "VARCHAR"], result_type="VARCHAR", io_threads=8)
async def tasks(x, source):
    enter()
    try:
        await asyncio.sleep(0.002)
        act(x, source)
        was = mark.get()
        mark.set(str(x))
        return "%d %s" % (x, was)
    finally:
        leave()

@udf(input_types=["INT", "VARCHAR"], result_type="VARCHAR", io_threads=8)
def busy(x, source):
    act(x, source)
    was = mark.get()
    mark.set(str(x))
    return "%d %s" % (x, was)

@udf(input_types=["INT", "VARCHAR"], result_type="INT", io_threads=8, null_handling="skip")
def skipping(x, source):
    time.sleep(0.001)
    act(x, source)
    return x if x % 7 else None if x % 2 else "seven"

@udf(input_types=["INT", "VARCHAR"], result_type="INT NOT NULL", null_handling="skip")
async def skipping_tasks(x, source):
    await asyncio.sleep(0)
    act(x, source)
    return x if x % 7 else None if x % 2 else "seven"

@udf(io_threads=4)
class Object:
    def __init__(self):
        self.factor = 2
    async def __call__(self, x: int) -> int:
        await asyncio.sleep(0)
        return x * self.factor

@udf
async def wide(x: int) -> int:
    enter()
    await asyncio.sleep(0.002)
    leave()
    return x

@udf(mode="list")
async def listing(x: int) -> int:
    await asyncio.sleep(0)
    if 13 in x:
        raise ValueError("thirteen")
    return [one + 1 for one in x]

@udf(mode="list", elementwise=True)
async def elementwise(x: int) -> int:
    await asyncio.sleep(0)
    if 13 in x:
        raise ValueError("thirteen")
    return [one + 1 for one in x]

@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def look(source):
    return str(eval(source))

@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def do(source):
    exec(source, globals())
    return "done"
"""
# The clocks of a machine on which nobody else computes: elsewhere what computes may look as if it waited.
ALONE = "of_threads.thread_time_ns = of_threads.monotonic_ns\n"
KEEP, MEASURE = 2, 1
WAITING = ("threads", "tasks", "busy")
RAISES = [
    ("raise ValueError('bad')", "ValueError", "bad"),
    ("sys.exit(3)", "SystemExit", "3"),
    ("raise KeyboardInterrupt('k')", "KeyboardInterrupt", "k"),
    ("raise asyncio.CancelledError('c')", "CancelledError", "c"),
    ("raise GeneratorExit", "GeneratorExit", ""),
    ("raise MemoryError('m')", "MemoryError", "m"),
    ("raise type('Base', (BaseException,), {})('b')", "Base", "b"),
]


class Waiting(WorkerCase):
    SOURCE = SOURCE

    def rows(self, name, count, at=None, source="", **options):
        sources = [""] * count
        for one in [] if at is None else at if isinstance(at, list) else [at]:
            sources[one] = source
        return self.gate.call(name, list(range(count)), sources, **options)

    def look(self, source):
        return self.gate.call("look", [source]).values[0]

    def test_rows_in_order_each_in_a_context_of_its_own(self):
        for name in WAITING:
            for count in (0, 1, 2, 7, 8, 100):
                want = [f"{x} none" for x in range(count)]
                self.assertEqual(self.rows(name, count).values, want, (name, count))
                self.assertEqual(self.rows(name, count, block=8).values, want, (name, count))
                self.assertEqual(self.rows(name, count, flags=KEEP).values, want, (name, count))
        self.assertEqual(self.look("mark.get()"), "none")

    def test_so_many_rows_at_once(self):
        for name, wanted in (("threads", 8), ("tasks", 8), ("wide", 32)):
            self.gate.call("do", ["most = 0"])
            if name == "wide":
                self.assertEqual(self.gate.call(name, list(range(100))).values, list(range(100)))
            else:
                # With the last rows nobody is left who could be waited for in vain.
                self.rows(name, 100, list(range(92, 100)), "until(8)" if name == "threads" else "")
            self.assertEqual(self.look("most, together"), f"({wanted}, 0)", name)

    def test_what_computes_gets_no_threads(self):
        gate = self.load(SOURCE + ALONE)
        gate.call("busy", list(range(4096)), [""] * 4096)
        self.assertEqual(gate.call("look", ["threading.active_count()"]).values, ["1"])

    def test_what_begins_to_wait_late(self):
        """Rows of a cache first, then 2,000 that wait: hardly more than a slice of them is run one after the other."""
        gate = self.load(SOURCE)
        source = "alone.append(threading.current_thread() is threading.main_thread()); time.sleep(0.001)"
        for quick in (1023, 2047):
            gate.call("do", ["alone = []"])
            got = gate.call("busy", list(range(quick + 2000)), [""] * quick + [source] * 2000)
            self.assertEqual(len(got.values), quick + 2000)
            alone = eval(gate.call("look", ["alone"]).values[0])
            self.assertEqual(len(alone), 2000)
            self.assertLessEqual(sum(alone), 32)

    def test_a_slice_is_run_once(self):
        """Rows that are run one after the other in growing slices: 1, 2, 4, 8, 16, the rest. Whichever fails, none before
        it runs again.
        """
        gate = self.load(SOURCE + ALONE)
        for at in range(40):
            gate.call("do", ["begun.clear()"])
            sources = ["1/0" if x == at else "" for x in range(40)]
            error = gate.call("busy", list(range(40)), sources).error
            self.assertEqual((error.row, error.name), (at, "ZeroDivisionError"))
            self.assertEqual(eval(gate.call("look", ["begun"]).values[0]), list(range(at + 1)))
            gate.call("do", ["begun.clear()"])
            gate.call("busy", list(range(40)), sources, flags=KEEP)
            self.assertEqual(eval(gate.call("look", ["begun"]).values[0]), list(range(40)))

    def test_the_smallest_row_that_fails_wins(self):
        for name in WAITING:
            for source, its, text in RAISES:
                for count, at in ((1, 0), (60, [59]), (60, [20, 21, 22, 40]), (60, [0, 30])):
                    at = at if isinstance(at, list) else [at]
                    self.gate.call("do", ["begun.clear(), failed.clear()"])
                    error = self.rows(name, count, at, source).error
                    self.assertEqual((error.row, error.name, error.text), (at[0], its, text), (name, source, at))
                    self.assertNotIn("udfgate_worker", error.trace)
                    # Those begun before it failed are awaited, and no further ones begin. A single row is in no block.
                    begun, given = eval(self.look("sorted(begun), max(failed[:1], default=0)"))
                    self.assertEqual(begun, list(range(max(given, at[0] + 1))))
                    if name == "tasks":  # threads may go on for as long as one that failed has not said so
                        self.assertLessEqual(len(begun), at[0] + 16)
                    self.assertEqual(self.look("together"), "0")

    def test_stop_iteration(self):
        for name in WAITING:
            for count, at in ((1, 0), (60, 1), (60, 50)):
                error = self.rows(name, count, at, "raise StopIteration").error
                self.assertEqual(error.row, at)
                self.assertEqual(error.name, "RuntimeError" if name == "tasks" else "StopIteration")
                texts = self.rows(name, count, at, "raise StopIteration", flags=KEEP).segments[0].texts
                self.assertEqual([row for row, text in enumerate(texts) if text], [at])

    def test_keep_going(self):
        for name in WAITING:
            for source, its, text in RAISES:
                only = self.rows(name, 60, [0, 1, 30, 59], source, flags=KEEP).segments[0]
                failed = {row: one for row, one in enumerate(only.texts) if one}
                self.assertEqual(failed, dict.fromkeys([0, 1, 30, 59], f"{its}: {text}" if text else its))
                good = [f"{x} none" for x in range(60) if x not in failed]
                self.assertEqual([value for value in only.values if value is not None], good)

    def test_row_numbers_are_those_of_the_batch(self):
        for name in WAITING:
            self.assertEqual(self.rows(name, 100, 77, "1/0", lo=64, block=8).error.row, 77)
            self.assertEqual(self.rows(name, 100, 10, "1/0", lo=64).values[0], "64 none")

    def test_nulls_are_skipped(self):
        for name in ("skipping", "skipping_tasks"):
            xs = [None if x % 3 == 0 else x for x in range(1, 61)]
            got = self.gate.call(name, xs, [""] * 60, flags=KEEP).segments[0]
            for x, value, text in zip(xs, got.values, got.texts):
                self.assertEqual(value, x if x is not None and x % 7 else None, (name, x))
                bad = x is not None and x % 14 == 0
                self.assertEqual(text, "TypeError: result: wanted int32, got str 'seven'" if bad else None)
            error = self.gate.call(name, xs, [""] * 60).error
            self.assertEqual((error.row, error.name), (13, "TypeError"))  # x = 14
            error = self.gate.call(name, xs, ["1/0" if x in (20, 40) else "" for x in range(1, 61)]).error
            self.assertEqual((error.row, error.name), (13, "TypeError"))
            error = self.gate.call(name, xs, ["1/0" if x in (5, 40) else "" for x in range(1, 61)]).error
            self.assertEqual((error.row, error.name), (4, "ZeroDivisionError"))

    def test_objects_and_columns(self):
        self.assertEqual(self.gate.call("Object", [1, 2, 3]).values, [2, 4, 6])
        for name in ("listing", "elementwise"):
            self.assertEqual(self.gate.call(name, [1, 2, 3]).values, [2, 3, 4])
        self.assertEqual(self.gate.call("listing", [1, 13]).error.text, "thirteen")
        error = self.gate.call("elementwise", [1, 2, 13, 4]).error
        self.assertEqual((error.row, error.text), (2, "thirteen"))

    def test_times(self):
        for name in ("threads", "tasks"):
            fields = self.rows(name, 64, flags=MEASURE).fields
            self.assertGreater(fields["body"], 15_000_000, name)  # 64 rows of 2 ms, 8 at once
            self.assertGreater(fields["body_cpu"], 0)
        work = "sum(range(200000))"
        fields = self.rows("threads", 32, list(range(32)), work, flags=MEASURE).fields
        alone = min(self.gate.call("do", [work], flags=MEASURE | KEEP).fields["body_cpu"] for _ in range(5))
        self.assertGreater(fields["body_cpu"], 16 * alone, "the threads' processor time is missing")


class Hostile(WorkerCase):
    def works(self, gate):
        for name in WAITING:
            self.assertEqual(gate.call(name, list(range(40)), [""] * 40).values, [f"{x} none" for x in range(40)], name)
        gate.put(PING)
        gate.expect(PONG)

    def test_bodies_that_break_the_loop(self):
        for source in (
            "asyncio.get_running_loop().stop()",
            "asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)",
            "asyncio.set_event_loop_policy(None)",
            "asyncio.set_event_loop(None)",
            "asyncio.get_running_loop().set_task_factory(lambda *a: 1 / 0)",
            "asyncio.get_running_loop().create_task(asyncio.sleep(1e6))",
            "asyncio.get_running_loop().call_soon(sys.exit, 3)",
            "asyncio.get_running_loop().call_soon(lambda: 1 / 0)",
            "threading.Thread(target=lambda: time.sleep(3), daemon=True).start()",
            "asyncio.get_running_loop().set_exception_handler(lambda *a: sys.exit(4))",
            "asyncio.tasks.Task = asyncio.Task = asyncio.CancelledError = None",
        ):
            gate = self.load(SOURCE)
            for _ in range(2):
                got = gate.call("tasks", list(range(40)), ["" if x % 9 else source for x in range(40)]).values
                self.assertEqual(got, [f"{x} none" for x in range(40)], source)
            self.works(gate)
            gate.put(BYE)
            self.assertEqual(gate.wait(), 0, source)

    def test_a_loop_that_is_closed(self):
        gate = self.load(SOURCE)
        self.assertEqual(gate.call("tasks", [1], ["asyncio.get_running_loop().close()"]).error.name, "RuntimeError")
        close = (
            "loop = asyncio.get_running_loop()\n"
            "def end():\n"
            "    while loop.is_running(): pass\n"
            "    loop.close()\n"
            "threading.Thread(target=end).start()\n"
        )
        # Between the stop and its next turn the loop is closed, or the call ends first: both are survived.
        for _ in range(3):
            segment = gate.call("tasks", list(range(20)), [close + "loop.stop()"] + [""] * 19).segments[0]
            if segment.status:
                self.assertIn("the event loop of async functions", segment.errors[0].text)
            # The threads of rows stay; how many there are depends on who else computes on this machine.
            gate.call("do", ["while sum(t.name != 'udfgate row' for t in threading.enumerate()) > 1: pass"])
            self.works(gate)

    def test_cancelling_every_task(self):
        gate = self.load(SOURCE)
        source = "for task in asyncio.all_tasks(): task.cancel()"
        only = gate.call("tasks", list(range(40)), [source] + [""] * 39, flags=KEEP).segments[0]
        failed = [row for row, text in enumerate(only.texts) if text]
        self.assertTrue(failed)
        self.assertEqual({only.texts[row] for row in failed}, {"CancelledError"})
        self.works(gate)

    def test_cancelling_oneself(self):
        """A task that was told to end and returns has a value: CPython counts it as cancelled all the same."""
        gate = self.load(SOURCE)
        cancel = "asyncio.current_task().cancel()"
        sources = [cancel, "", cancel + "; raise ValueError('its own')", cancel] + [""] * 36
        only = gate.call("tasks", list(range(40)), sources, flags=KEEP).segments[0]
        self.assertEqual({row: text for row, text in enumerate(only.texts) if text}, {2: "ValueError: its own"})
        self.assertEqual(only.values, [None if x == 2 else f"{x} none" for x in range(40)])
        sources[2] = ""
        got = gate.call("tasks", list(range(40)), sources).values
        self.assertEqual(got, [f"{x} none" for x in range(40)])
        sources[1] = cancel + "; 1/0"
        error = gate.call("tasks", list(range(40)), sources).error
        self.assertEqual((error.row, error.name), (1, "ZeroDivisionError"))
        self.works(gate)

    def test_a_loop_within(self):
        gate = self.load(SOURCE)
        nested = "async def one(): return 5\nassert asyncio.run(one()) == 5"
        self.assertEqual(gate.call("do", [nested]).values, ["done"])
        for name in ("threads", "busy"):
            sources = [nested.replace("assert", "\nassert")] * 20
            self.assertEqual(gate.call(name, list(range(20)), sources).values, [f"{x} none" for x in range(20)])
        error = gate.call("tasks", [1, 2], ["", "c = asyncio.sleep(0)\ntry: asyncio.run(c)\nfinally: c.close()"]).error
        self.assertEqual((error.row, error.name), (1, "RuntimeError"))
        self.works(gate)
        gate.call("do", ["asyncio._set_running_loop(asyncio.new_event_loop())"])
        self.works(gate)

    def test_a_policy_that_a_body_has_changed(self):
        gate = self.load(SOURCE)
        source = (
            "import warnings\nwarnings.simplefilter('ignore')\n"
            "class Bad(asyncio.DefaultEventLoopPolicy):\n"
            "    def new_event_loop(self): raise ValueError('no loop')\n"
            "asyncio.set_event_loop_policy(Bad())"
        )
        gate.call("do", [source])
        self.works(gate)

    def test_what_does_not_end(self):
        gate = self.load(SOURCE)
        gate.send_call("tasks", [1, 2], ["", "while True: time.sleep(0.01)"], remaining=10**8)
        until = time.monotonic() + 20
        stacks = b""
        os.set_blocking(gate.stderr.fileno(), False)
        while b"in act" not in stacks and time.monotonic() < until:
            os.kill(gate.pid, signal.SIGUSR1)
            time.sleep(0.01)
            stacks += gate.stderr.read() or b""
        self.assertIn(b"in act", stacks)
        os.kill(gate.pid, signal.SIGKILL)
        self.assertEqual(gate.wait(), -9)

    def test_forks(self):
        fork = "r, w = os.pipe()\nif not os.fork():\n    os.close(w)\n    ENDING\nelse:\n    os.close(r)"
        for ending in ("os._exit(5)", "pass", "raise ValueError", "sys.exit(1)"):
            gate = self.load(SOURCE)
            for name in WAITING:
                for rows, at in ((1, 0), (30, 0), (30, 25)):
                    sources = [""] * rows
                    sources[at] = fork.replace("ENDING", ending)
                    got = gate.call(name, list(range(rows)), sources).values
                    self.assertEqual(got, [f"{x} none" for x in range(rows)], (name, ending))
            self.works(gate)
            gate.put(BYE)
            self.assertEqual(gate.wait(), 0, ending)

    def test_no_more_descriptors(self):
        gate = self.load(SOURCE)
        source = (
            "import resource\n"
            "def limit(n): resource.setrlimit(resource.RLIMIT_NOFILE, (n, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
            "was = resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
            "limit(5)"
        )
        gate.call("do", [source])
        only = gate.call("tasks", [1, 2, 3], [""] * 3, flags=KEEP).segments[0]
        self.assertEqual([text[:8] for text in only.texts], ["OSError:"] * 3)
        self.assertEqual(gate.call("tasks", [1, 2, 3], [""] * 3).error.row, 0)
        gate.call("do", ["limit(was)"])
        self.works(gate)

    def test_no_more_threads(self):
        gate = self.load(SOURCE)
        source = 'def no(*a, **k): raise RuntimeError("can\'t start new thread")\nthreading.Thread.start = no'
        gate.call("do", [source])
        self.works(gate)
        self.assertEqual(gate.call("threads", list(range(20)), [""] * 12 + ["1/0"] * 8).error.row, 12)


if __name__ == "__main__":
    unittest.main()
