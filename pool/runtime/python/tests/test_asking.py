"""udfgate.context() and udfgate.counter(): what a body may ask and tell, in every way that it may be run."""

import socket
import subprocess
import sys
import unittest

from case import WorkerCase
from gateway import BYE, CONTEXT, PING, PONG, RESULT
from tables import table

SOURCE = """
import os, signal, threading, time
import udfgate
from udfgate import context, counter, udf

@udf
def run(source: str) -> str:
    names = {}
    exec(source, globals(), names)
    return str(names.get("out"))

@udf(on_error="reject", io_threads=8)
def threads(source: str) -> str:
    time.sleep(0.001)
    names = {}
    exec(source, globals(), names)
    return str(names.get("out"))

@udf
async def task(source: str) -> str:
    names = {}
    exec(source, globals(), names)
    return str(names.get("out"))

@udf(mode="list")
def listing(source: str) -> str:
    names = {}
    exec(source[0], globals(), names)
    return [str(names.get("out"))] * len(source)

def halved(x):
    counter("rows").add(len(x))
    if 11 in x:
        raise ValueError(x)
    counter("answers").add(len(x))
    return x

@udf(mode="list", elementwise=True)
def halved_whole(x: int) -> int:
    return halved(x)

@udf(mode="list", elementwise=True, max_batch_rows=6)
def halved_cut(x: int) -> int:
    return halved(x)

@udf
def number(x: int) -> int:
    counter("seen").add()
    return 7 if x >= 0 else None

kept, told = [], []
"""
FACTS = """
c = context()
h = c.headers
out = [c.call_id, c.batch, c.function, c.principal, dict(h), h.get_all("X-Tag"), h.get("no"), "x-TENANT" in h]
"""
TOLD = "['17', 3, 'served.{}', '10.0.0.7', {{'x-tenant': 'a', 'x-tag': '1, 2'}}, ['1', '2'], None, True]"
KEEPING_GOING = 2
ENDED = "for the call that it was made in, which has ended"


class Asking(WorkerCase):
    SOURCE = SOURCE

    def setUp(self):
        for heard in (self.gate.asked, self.gate.counted, self.gate.logged):
            heard.clear()
        self.gate.caller["cancelled"] = False

    def run_in(self, name, source, rows=1, **options):
        return self.gate.call(name, [source] * rows, **options).values

    def raised(self, source, name="run", rows=1):
        error = self.gate.call(name, [source] * rows).error
        return f"{error.name}: {error.text}"

    def test_who_calls(self):
        for name in ("run", "threads", "task", "listing"):
            for rows in (1, 5):
                self.gate.asked.clear()
                self.assertEqual(self.run_in(name, FACTS, rows), [TOLD.format(name)] * rows)
                self.assertEqual(self.gate.asked, [(self.gate.next_call - 1, 1)], "once per call")

    def test_nothing_is_asked_without_need(self):
        source = "c = context(); out = c.function, c.remaining(), c is context()"
        self.assertEqual(self.run_in("run", source), ["('served.run', None, True)"])
        self.run_in("run", "counter('x').add(2)")
        self.assertEqual(self.gate.asked, [])

    def test_headers_are_read_only(self):
        self.assertIn("TypeError", self.raised("context().headers['a'] = 1"))
        self.assertIn("KeyError", self.raised("context().headers['a']"))

    def test_headers_that_were_cut(self):
        self.gate.caller["cut"] = True
        try:
            self.assertIn(
                "more than 65536 bytes of headers (CONTEXT_HEADERS_BYTES_MAX), or one that is not UTF-8",
                self.raised("context().headers"),
            )
            self.assertEqual(self.run_in("run", "out = context().principal"), ["10.0.0.7"])
        finally:
            del self.gate.caller["cut"]

    def test_time_left(self):
        for rows in (1, 3):
            seconds = self.run_in("run", "out = context().remaining()", rows, remaining=1000 * 10**9)
            self.assertTrue(all(900 < float(one) <= 1000 for one in seconds), seconds)
        self.assertEqual(self.run_in("run", "time.sleep(0.002); out = context().remaining()", remaining=10**6), ["0.0"])

    def test_cancelled(self):
        source = "c = context(); out = [c.cancelled()]\nfor _ in range(1000): out[1:] = [c.cancelled()]"
        timed = "began = time.monotonic_ns(); " + source + "\nout.append(time.monotonic_ns() - began)"
        ((*said, took),) = map(eval, self.run_in("run", timed))
        self.assertEqual(said, [False, False])
        self.assertLessEqual(len(self.gate.asked), 1 + took // 10**7, "at most every 10 ms, of 1,001 questions")
        self.gate.caller["cancelled"] = True
        self.assertEqual(self.run_in("run", source, 2), ["[True, True]"] * 2)
        wait = "c = context(); n = 0\nwhile not c.cancelled(): n += 1\nout = 'seen'"
        self.gate.caller["cancelled"] = False
        self.gate.send_call("run", [wait])
        while len(self.gate.asked) < 5:
            try:
                self.gate.socket.settimeout(0.02)
                self.gate.read()
            except socket.timeout:
                continue
        self.gate.socket.settimeout(30)
        self.gate.caller["cancelled"] = True
        self.assertEqual(self.gate.result("run").values, ["seen"])

    def test_counters(self):
        for name in ("run", "threads", "task"):
            for rows in (1, 40):
                self.gate.counted.clear()
                self.run_in(name, "counter('a_1').add(); counter('b').add(n=2**40)", rows)
                self.assertEqual(self.gate.counted, [(self.gate.next_call - 1, {"a_1": rows, "b": rows * 2**40})])
        self.gate.counted.clear()
        self.gate.call("number", [1])
        self.gate.call("number", [1, 2])
        self.assertEqual([counts for _, counts in self.gate.counted], [{"seen": 1}, {"seen": 2}])

    def test_counters_of_an_answer_that_fails_are_forgotten(self):
        for rows in (1, 2):
            self.raised("counter('lost').add(); 1/0", rows=rows)
            self.assertEqual(self.gate.call("number", [-1] * rows).error.name, "TypeError")
            self.assertEqual(self.gate.counted, [])
            self.run_in("run", "counter('found').add()", rows)
            self.assertEqual([counts for _, counts in self.gate.counted], [{"found": rows}])
            self.gate.counted.clear()
        got = self.gate.call("run", ["counter('kept').add()", "counter('kept').add(); 1/0"], flags=KEEPING_GOING)
        self.assertEqual(got.segments[0].texts[1], "ZeroDivisionError: division by zero")
        self.assertEqual([counts for _, counts in self.gate.counted], [{"kept": 2}])

    def test_rows_that_run_again_count_once(self):
        for name in ("halved_whole", "halved_cut"):
            self.gate.counted.clear()
            self.gate.call(name, list(range(16)), flags=KEEPING_GOING)
            (counts,) = [counts for _, counts in self.gate.counted]
            self.assertEqual(counts, {"rows": 16, "answers": 15}, name)  # row 11: what it counted before it raised

    def test_counters_that_cannot_be_meant(self):
        for source, text in (
            ("counter('a').add(-1)", "ValueError: counter 'a': wanted a number from 0, got -1"),
            ("counter('a').add(1.0)", "TypeError: counter 'a': wanted an int, got float"),
            ("counter('a').add(True)", "TypeError"),
            ("counter('a').add('x')", "TypeError"),
            ("counter('a').add(2**53 + 1)", "ValueError: counter 'a': at most 2^53 in one call"),
            ("counter('a').add(2**53); counter('a').add()", "ValueError"),
            ("counter('1a')", "ValueError: counter: wanted at most 64 letters, digits and _, no digit first, got '1a'"),
            ("counter('')", "ValueError"),
            ("counter('a-b')", "ValueError"),
            ("counter('a\\n')", "ValueError"),
            ("counter('é')", "ValueError"),
            ("counter('a' * 65)", "ValueError"),
            ("counter(7)", "TypeError: counter: wanted a name, got int"),
        ):
            self.assertIn(text, self.raised(source), source)
        before = len(self.gate.counted)
        self.run_in("run", "counter('nothing').add(0)")
        self.assertEqual(len(self.gate.counted), before)
        self.run_in("run", "counter('a' * 64).add(2**53)")
        self.assertEqual(self.gate.counted[-1][1], {"a" * 64: 2**53})

    def test_a_33rd_counter(self):
        gate = self.load(SOURCE)
        for at in range(0, 32, 8):
            self.assertEqual(gate.call("run", [f"for i in range(8): counter(f'n{{{at} + i}}').add()"]).values, ["None"])
        for source in ("counter('n32').add()", "counter('n31').add(); counter('more').add()"):
            error = gate.call("run", [source]).error
            self.assertEqual(error.name, "ValueError")
            self.assertIn("a function has at most 32 counters", error.text)
        gate.call("run", ["counter('n31').add()"])
        gate.call("number", [1])
        self.assertEqual([counts for _, counts in gate.counted[-2:]], [{"n31": 1}, {"seen": 1}])

    def test_parts_of_a_table_function(self):
        source = SOURCE + (
            "@udfgate.udtf\n"
            "def parts(n: int) -> 'list[str]':\n"
            "    c = context()\n"
            "    for at in range(n):\n"
            "        counter('rows').add()\n"
            "        yield '%s %s %s' % (c.principal, c is context(), c.cancelled())\n"
        )
        gate = self.load(source)
        values = [value for _, value in table(gate, "parts", [3000])]
        self.assertEqual(values, ["10.0.0.7 True False"] * 3000)
        self.assertEqual(sum(counts["rows"] for _, counts in gate.counted), 3000)
        self.assertGreaterEqual(len(gate.counted), 3, "each part has its own")
        self.assertEqual(len([what for _, what in gate.asked if what == 1]), 1)

    def test_logger(self):
        source = (
            "log = context().logger\n"
            "log.debug('d'); log.info('%d of %d', 1, 2); log.warning('w'); log.error('e' * 100000); log.critical('c')\n"
            "try: 1/0\nexcept ZeroDivisionError: log.exception('it broke')\n"
            "out = log.name"
        )
        for name in ("run", "task"):
            self.gate.logged.clear()
            self.assertEqual(self.run_in(name, source), ["served." + name])
            lines = [line for _, line in self.gate.logged]
            self.assertEqual({line["function"] for line in lines}, {"served." + name})
            self.assertEqual(
                [(line["level"], line["message"][:6], len(line["message"])) for line in lines[:5]],
                [
                    ("debug", "d", 1),
                    ("info", "1 of 2", 6),
                    ("warning", "w", 1),
                    ("error", "eeeeee", 65536),
                    ("critical", "c", 1),
                ],
            )
            self.assertIn("ZeroDivisionError: division by zero", lines[5]["message"])


class Outside(WorkerCase):
    def test_while_a_file_loads(self):
        head = "import udfgate\nfrom udfgate import udf\n@udf\ndef f() -> int: return 1\n"
        for source, who in (
            ("udfgate.context()", "context()"),
            ("udfgate.counter('a').add()", "counter('a').add()"),
        ):
            error = self.refused(head + source)
            text = f"udfgate.{who} is for bodies: no call is running"
            self.assertEqual((error["class"], error["message"], error["line"]), ("RuntimeError", text, 5))
        gate = self.load(head + "seen = udfgate.counter('seen')\n@udf\ndef g() -> int:\n    seen.add()\n    return 1\n")
        gate.call("g", rows=1)
        self.assertEqual(gate.counted[0][1], {"seen": 1})

    def test_a_context_kept_beyond_its_call(self):
        gate = self.load(SOURCE)
        keep = "c = context(); kept[:] = [c, c.logger]; out = c.principal"
        gate.call("run", [keep])
        for rows in (1, 2):
            source = "c = kept[0]; out = c.principal, c.batch, c.function, c is context()"
            self.assertEqual(gate.call("run", [source] * rows).values[0], "('10.0.0.7', 3, 'served.run', False)")
            for part in ("remaining()", "cancelled()", "logger"):
                error = gate.call("run", [f"kept[0].{part}"] * rows).error
                self.assertEqual(error.name, "RuntimeError")
                self.assertIn(ENDED, error.text)
            self.assertIn(ENDED, gate.call("run", ["kept[1].warning('late')"] * rows).error.text)
        gate.call("run", ["kept[0] = context()"])
        self.assertIn(ENDED, gate.call("run", ["kept[0].principal"]).error.text)
        self.assertEqual(gate.logged, [])

    def test_a_thread_that_was_left_behind(self):
        gate = self.load(SOURCE)
        left = (
            "def late(c):\n"
            "    go.wait()\n"
            "    for ask in (lambda: counter('late').add(), context, lambda: c.headers, c.cancelled, c.remaining,\n"
            "                lambda: log.info('late')):\n"
            "        try: told.append(ask())\n"
            "        except RuntimeError as e: told.append(str(e))\n"
            "    done.set()\n"
            "global go, done, log\n"
            "go, done, log = threading.Event(), threading.Event(), context().logger\n"
            "def soon():\n"
            "    while (Calls.only.received or Calls.only.instant()) == mine: time.sleep(0.0005)\n"
            "    go.set()\n"
            "global Calls, mine\n"
            "from udfgate_worker.call import Calls\n"
            "mine = Calls.only.received or Calls.only.instant()\n"
            "threading.Thread(target=late, args=(context(),)).start()\n"
            "threading.Thread(target=soon).start()\n"
        )
        for rows in (1, 2):
            gate.call("run", [left] + ["pass"] * (rows - 1))
            gate.put(PING)
            gate.expect(PONG)
            # Whether the thread is done by now or not: it has been told at the end of the call, or is told in this one.
            said = gate.call("run", ["go.wait(); done.wait(); out = told[:]; told.clear()"]).values[0]
            self.assertEqual(
                said.count("no call is running") + said.count(ENDED) + said.count("None") + said.count("<udfgate"),
                6,
                said,
            )
        gate.put(BYE)
        self.assertEqual(gate.wait(), 0)

    def test_threads_that_ask_without_end(self):
        """They race every step of the worker: no frame may be lost, and none may stand in another."""
        gate = self.load(SOURCE)
        busy = (
            "def ask():\n"
            "    while True:\n"
            "        try:\n"
            "            c = context(); c.headers; c.logger.info('x' * 300); counter('n').add()\n"
            "            c._asking.ask(c._running, 2, 'test')\n"
            "        except RuntimeError: pass\n"
            "for _ in range(2): threading.Thread(target=ask, daemon=True).start()\n"
        )
        gate.call("run", [busy])
        long = "out = 'x' * 100000"
        for _ in range(12):
            self.assertEqual(gate.call("run", ["out = 1"]).values, ["1"])
            self.assertEqual(gate.call("run", [long] * 30, block=8).values, ["x" * 100000] * 30)
        gate.put(PING)
        gate.expect(PONG)

    def test_a_call_that_is_queued_ahead(self):
        gate = self.load(SOURCE)
        gate.deaf = True
        first = gate.send_call("run", ["out = context().principal"], limit=4096)
        gate.socket.settimeout(0.05)
        while not gate.asked:
            try:
                gate.read()
            except socket.timeout:
                pass
        gate.socket.settimeout(30)
        gate.send_call("number", [1, 2, 3], base=4096)
        gate.put(CONTEXT, first, b'{"principal":"late"}')
        self.assertEqual(gate.result("run").values, ["late"])
        self.assertEqual(gate.result("number").values, [7, 7, 7])

    def test_a_signal_that_breaks_into_a_question(self):
        gate = self.load(SOURCE)
        gate.deaf = True
        source = (
            "def stop(*_): raise ValueError('enough')\n"
            "signal.signal(signal.SIGALRM, stop); signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
            "context().headers"
        )
        for rows in (1, 2):
            call = gate.send_call("run", [source] * rows)
            kind, _, about, payload = gate.read()
            self.assertEqual((kind, about), (RESULT, call))
            self.assertEqual(gate.parse(call, payload, "utf8").error.text, "enough")
            gate.put(CONTEXT, call, b'{"principal":"too late"}')
            gate.deaf = False
            self.assertEqual(gate.call("run", ["out = context().principal"]).values, ["10.0.0.7"])
            gate.deaf = True
        call = gate.send_call("run", [source])
        gate.read()
        gate.deaf = False
        other = gate.send_call("run", ["out = context().principal"])
        gate.put(CONTEXT, call, b'{"principal":"too late"}')
        self.assertEqual(gate.result("run").values, ["10.0.0.7"])
        self.assertEqual(gate.asked[-1], (other, 1))

    def test_a_child_of_a_fork_has_no_call(self):
        gate = self.load(SOURCE)
        source = (
            "r, w = os.pipe()\n"
            "context().headers\n"
            "if not os.fork():\n"
            "    try: context().cancelled()\n"
            "    except RuntimeError as e: os.write(w, str(e).encode())\n"
            "    os._exit(0)\n"
            "os.close(w)\n"
            "out = os.read(r, 1000).decode()\n"
            "os.close(r)"
        )
        for rows in (1, 2):
            self.assertIn("no call is running", gate.call("run", [source] * rows).values[0])

    def test_an_answer_that_is_no_object(self):
        gate = self.load(SOURCE)
        gate.caller = [1]
        call = gate.send_call("run", ["context().principal"])
        kind, _, about, payload = gate.read()
        self.assertEqual((kind, about), (RESULT, call))
        self.assertIn("wanted an object", gate.parse(call, payload, "utf8").error.text)

    def test_a_worker_that_asks_nothing_loads_nothing_for_it(self):
        source = "import sys\nfrom udfgate import udf\n@udf\ndef loaded() -> str: return ' '.join(sys.modules)\n"
        loaded = set(self.load(source).call("loaded", rows=1).values[0].split())
        loaded -= set(
            subprocess.check_output([sys.executable, "-I", "-c", "import sys; print(*sys.modules)"]).decode().split()
        )
        late = {"udfgate.context", "logging", "threading", "asyncio"}
        late |= {f"udfgate_worker.{name}" for name in ("asking", "steps", "tasks", "threads", "waiting")}
        self.assertEqual(loaded & late, set())


if __name__ == "__main__":
    unittest.main()
