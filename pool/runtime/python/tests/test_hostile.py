"""Bodies that raise whatever they like, end or fork their process, or break the interpreter around them."""

import os
import unittest

from case import WorkerCase
from gateway import BYE, PING, PONG

RAISES = """
import sys
from udfgate import udf

class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Meta(type):
    __name__ = property(lambda cls: 1 / 0)

class Nameless(Exception, metaclass=Meta):
    pass

class Base(BaseException):
    pass

class Untraced(Exception):
    @property
    def __traceback__(self):
        raise SystemExit("no traceback")

class Unclassed(Exception):
    @property
    def __class__(self):
        raise SystemExit("no class")

class Name(str):
    def __getitem__(self, part):
        raise SystemExit("no part")

class Named(Exception):
    pass

vars(type)["__name__"].__set__(Named, Name("Named"))

def deep(n):
    return deep(n + 1)

def inner():
    raise ValueError("first\\nsecond")

@udf(input_types=["INT", "VARCHAR"], result_type="VARCHAR")
def f(number, source):
    if source:
        exec(source, globals())
    return "%d" % number

@udf(input_types=["VARCHAR"], result_type="INT")
def g(source):
    exec(source, globals())
    return 1

@udf(input_types=[], result_type="INT")
def stop():
    raise StopIteration
"""

CASES = [
    ("raise ValueError('bad')", "ValueError", "bad"),
    ("inner()", "ValueError", "first\nsecond"),
    ("sys.exit(3)", "SystemExit", "3"),
    ("raise SystemExit", "SystemExit", ""),
    ("raise KeyboardInterrupt('x')", "KeyboardInterrupt", "x"),
    ("raise GeneratorExit", "GeneratorExit", ""),
    ("raise MemoryError('none left')", "MemoryError", "none left"),
    ("bytearray(2**62)", "MemoryError", None),
    ("deep(0)", "RecursionError", None),
    ("raise Base('b')", "Base", "b"),
    ("raise Odd", "Odd", "(no text: RuntimeError)"),
    ("raise Nameless('n')", "Nameless", "n"),
    ("raise KeyError('k')", "KeyError", "'k'"),
    ("raise Untraced('u')", "Untraced", "u"),
    ("raise ValueError('v') from Untraced('u')", "ValueError", "v"),
    ("raise Unclassed('u')", "Unclassed", "u"),
    ("raise Named('n')", "Named", "n"),
    ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
    ("raise ValueError('é' * 5000)", "ValueError", "é" * 2048),
    ("raise type('C' * 300, (Exception,), {})('x')", "C" * 256, "x"),
    ("import nothing_like_it", "ModuleNotFoundError", "No module named 'nothing_like_it'"),
]


NO_BUILTINS = """
import builtins
for name in ('len', 'map', 'min', 'set', 'type', 'zip', 'isinstance', 'str', 'list', 'dict'):
    delattr(builtins, name)
"""
BUSY_THREAD = """
import threading
threading.Thread(target=lambda: [sum(range(999)) for _ in range(2000)], daemon=True).start()
"""
FORK = """
import os, sys
r, w = os.pipe()
if not os.fork():
    os.close(w)
    ENDING
else:
    os.close(r)
"""
INHERITED = """
import subprocess
listing = subprocess.run(['ls', '-l', '/proc/self/fd'], stdout=-1, close_fds=False).stdout.decode()
assert 'socket' not in listing
"""


class Raises(WorkerCase):
    SOURCE = RAISES

    def test_the_row_is_named(self):
        for source, name, text in CASES:
            for rows, at in ((1, 0), (2, 1), (5000, 4096), (5000, 4095), (40, 8)):
                sources = [""] * rows
                sources[at] = source
                got = self.gate.call("f", list(range(rows)), sources, block=8 if rows < 100 else 4096)
                error = got.error
                self.assertEqual((error.row, error.kind, error.name), (at, 1, name), (source, error))
                if text is not None:
                    self.assertEqual(error.text, text, source)
        self.assertEqual(self.gate.call("f", [7], [""]).values, ["7"])

    def test_stop_iteration(self):
        for rows, at in ((1, 0), (2, 0), (10, 9), (10, 8)):
            sources = [""] * rows
            sources[at] = "raise StopIteration('x')"
            error = self.gate.call("f", list(range(rows)), sources, block=8).error
            self.assertEqual((error.row, error.kind, error.name), (at, 1, "StopIteration"))
            self.assertIn("StopIteration: x" if rows == 1 else "call the row alone to see them", error.trace)
        for rows in (1, 3):
            error = self.gate.call("stop", rows=rows).error
            self.assertEqual((error.row, error.name), (0, "StopIteration"))

    def test_rows_are_those_of_the_batch(self):
        sources = [""] * 100
        sources[77] = "1/0"
        self.assertEqual(self.gate.call("f", list(range(100)), sources, lo=64, block=8).error.row, 77)
        self.assertEqual(self.gate.call("f", list(range(100)), sources, lo=72, hi=78, block=8).error.row, 77)
        self.assertEqual(len(self.gate.call("f", list(range(100)), sources, lo=80, block=8).values), 20)

    def test_traceback_is_the_users_own(self):
        for rows in (1, 3):
            trace = self.gate.call("f", [1] * rows, [""] * (rows - 1) + ["inner()"]).error.trace
            self.assertTrue(trace.startswith("Traceback (most recent call last):\n"), trace)
            self.assertIn("in inner\n    raise ValueError(", trace)
            self.assertTrue(trace.endswith("ValueError: first\nsecond\n"), trace)
            self.assertNotIn("udfgate_worker", trace)

    def test_traceback_that_raises(self):
        for rows in (1, 3):
            trace = self.gate.call("f", [1] * rows, ["raise Untraced('u')"] * rows).error.trace
            self.assertIn('File "<string>", line 1, in <module>', trace)
            self.assertTrue(trace.endswith("Untraced: u\n"), trace)
            self.assertNotIn("udfgate_worker", trace)

    def test_chained_tracebacks(self):
        source = "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e"
        trace = self.gate.call("f", [1], [source]).error.trace
        self.assertIn("ZeroDivisionError: division by zero\n\nThe above exception was the direct cause", trace)

    def test_long_tracebacks_keep_their_end(self):
        source = "raise ValueError('x' * 40000 + 'end')"
        error = self.gate.call("f", [1], [source]).error
        self.assertEqual((len(error.trace), error.trace[-4:], len(error.text)), (16 << 10, "end\n", 4096))


class Breaks(WorkerCase):
    """Each body does its worst in a worker of its own; the next call must be answered all the same."""

    def still_works(self, source, value=1, after="pass"):
        gate = self.load(RAISES)
        self.assertEqual(gate.call("g", [source]).values, [value], source)
        for rows in (1, 3, 5000):
            self.assertEqual(gate.call("g", [after] * rows).values, [1] * rows, source)
        error = gate.call("g", [after, "raise ValueError('v')"]).error
        self.assertEqual((error.row, error.name, error.text), (1, "ValueError", "v"), source)
        self.assertIn("ValueError: v", error.trace)
        error = gate.call("f", [1, 2], [after, "raise ValueError('v')"]).error
        self.assertEqual((error.row, error.name), (1, "ValueError"), source)
        gate.put(PING)
        gate.expect(PONG)
        return gate

    def test_builtins(self):
        self.still_works(NO_BUILTINS)
        self.still_works("import builtins\nbuiltins.map = builtins.range = builtins.bytes = None")
        self.still_works("import builtins\nbuiltins.__import__ = None", after="1")

    def test_modules(self):
        self.still_works("import sys\nsys.path[:] = []")
        self.still_works("import sys\nsys.path = None", after="1")
        self.still_works("import sys\nsys.modules.clear()", after="1")
        self.still_works(
            "import time, marshal, os\ntime.monotonic_ns = marshal.dumps = marshal.loads = os._exit = None"
        )
        self.still_works("import traceback\ntraceback.TracebackException = None")
        self.still_works("import sys, types\nsys.modules['traceback'] = types.ModuleType('traceback')")

    def test_descriptors(self):
        self.still_works("import os\nfor n in range(3, 256):\n    try: os.close(n)\n    except OSError: pass")
        self.still_works("import os\nos.close(0)")
        self.still_works("import sys\nsys.stdout.close(); sys.stderr.close()")
        self.still_works("import sys\nsys.stdout = sys.stderr = None")

    def test_limits_and_hooks(self):
        self.still_works("import sys\nsys.setrecursionlimit(60)")
        self.still_works("import sys\nsys.settrace(lambda *a: None); sys.setprofile(lambda *a: None)")
        self.still_works("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL); signal.alarm(0)")
        self.still_works("import gc\ngc.disable(); gc.set_threshold(0)")
        self.still_works("import warnings\nwarnings.simplefilter('error')")
        self.still_works("import os\nos.chdir('/')")

    def test_a_timer_that_is_left_behind(self):
        source = (
            "import signal\n"
            "def late(*_): raise TimeoutError('too late')\n"
            "signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.2)"
        )
        gate = self.load(RAISES)
        for _ in range(3):
            self.assertEqual(gate.call("g", [source]).values, [1])
            told = b""
            while b"TimeoutError: too late" not in told:  # the worker waits for a frame meanwhile
                told += os.read(gate.stderr.fileno(), 1 << 16) or self.fail("the worker has ended")
            gate.put(PING)
            gate.expect(PONG)

    def test_threads(self):
        self.still_works(BUSY_THREAD)
        gate = self.still_works("import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()")
        gate.put(BYE)
        self.assertEqual(gate.wait(), 0)

    def test_forks(self):
        for ending in (
            "os._exit(5)",
            "pass",
            "raise ValueError",
            "sys.exit(1)",
            "while True: os.read(r, 1) or os._exit(0)",
        ):
            source = FORK.replace("ENDING", ending)
            gate = self.load(RAISES)
            for rows in (1, 2, 300):
                self.assertEqual(gate.call("g", [source] + ["pass"] * (rows - 1)).values, [1] * rows, ending)
            self.assertEqual(gate.call("f", [4], [source]).values, ["4"], ending)
            gate.put(PING)
            gate.expect(PONG)
            gate.put(BYE)
            self.assertEqual(gate.wait(), 0, ending)

    def test_a_forked_child_does_not_hold_the_socket(self):
        gate = self.load(RAISES)
        self.assertEqual(
            gate.call("g", ["import os, time\nif not os.fork():\n    time.sleep(3)\n    os._exit(0)"]).values, [1]
        )
        self.assertEqual(gate.call("g", ["import subprocess\nsubprocess.Popen(['sleep', '3'])"]).values, [1])
        gate.send_call("g", ["import os\nos._exit(9)"])
        self.assert_gone(gate, 9)

    def test_subprocesses_do_not_get_the_socket(self):
        gate = self.load(RAISES)
        self.assertEqual(gate.call("g", [INHERITED]).values, [1])

    def test_exit(self):
        gate = self.load(RAISES)
        gate.send_call("g", ["import os\nos._exit(9)"])
        self.assertEqual(self.assert_gone(gate, 9), "")

    def test_crash(self):
        gate = self.load(RAISES)
        gate.send_call("g", ["import faulthandler\nfaulthandler._sigsegv()"])
        self.assertIn("served.py", self.assert_gone(gate, -11))

    def test_output(self):
        gate = self.load(RAISES)
        gate.call("g", ["print('to stdout', '\\ud800', flush=False)"])
        gate.call("g", ["import sys; print('to stderr', file=sys.stderr)"])
        self.assertEqual(os.read(gate.stdout.fileno(), 100), b"to stdout \\ud800\n")
        self.assertEqual(os.read(gate.stderr.fileno(), 100), b"to stderr\n")
        self.assertEqual(gate.call("g", ["assert input.__name__ and __import__('sys').stdin.read() == ''"]).values, [1])


if __name__ == "__main__":
    unittest.main()
