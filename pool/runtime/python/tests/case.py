"""Base of the tests that talk to a worker."""

import random
import unittest

from gateway import BYE, Gateway, Gone

BLOCK_ROWS = (0, 1, 7, 8, 4095, 4096, 4097, 65537)


class WorkerCase(unittest.TestCase):
    """A class with SOURCE shares one worker among its tests; others start their own with self.start()."""

    SOURCE = ""
    gate: Gateway

    @classmethod
    def setUpClass(cls):
        if cls.SOURCE:
            cls.gate = Gateway(in_size=64 << 20, out_size=4 << 20)
            cls.addClassCleanup(cls.gate.close) if hasattr(cls, "addClassCleanup") else None
            loaded = cls.gate.load_source(cls.SOURCE)
            if "error" in loaded:
                raise AssertionError(loaded["error"]["traceback"] or loaded["error"])

    @classmethod
    def tearDownClass(cls):
        if cls.SOURCE:
            cls.gate.put(BYE)
            status = cls.gate.wait()
            if status != 0:
                raise AssertionError(f"worker ended with {status}: {cls.gate.stderr.read().decode()}")

    def start(self, **options):
        """A worker of one's own, ended with the test."""
        gate = Gateway(**options)
        self.addCleanup(gate.close)
        return gate

    def load(self, source, **options):
        """A worker of one's own that has loaded a source."""
        gate = self.start(**options)
        loaded = gate.load_source(source)
        self.assertNotIn("error", loaded, loaded)
        return gate

    def refused(self, source, **options):
        """The error of a source that does not load."""
        loaded = self.start(**options).load_source(source)
        self.assertIn("error", loaded, loaded)
        return loaded["error"]

    def assert_gone(self, gate, status):
        """The worker ended by itself with a status; its stderr."""
        with self.assertRaises(Gone):
            gate.read()
        self.assertEqual(gate.wait(), status)
        return gate.stderr.read().decode()

    def seeded(self):
        """A random generator whose seed is in the test's output if it fails."""
        seed = random.SystemRandom().randrange(2**32)
        self.addCleanup(lambda: self._failed() and print(f"\n{self.id()}: seed {seed}"))
        return random.Random(seed), f"seed {seed}"

    def _failed(self):
        outcome = getattr(self, "_outcome", None)
        return not getattr(outcome, "success", True)


class RefusedCase(WorkerCase):
    """Sources that do not load."""

    def check(self, source, text, name="LoadError", line=None):
        """The error of a source after one line of imports: its class, a part of its message, its line."""
        error = self.refused("from udfgate import udf, udtf, udaf\n" + source)
        self.assertEqual(error["class"], name, error)
        self.assertIn(text, error["message"])
        if line is not None:
            self.assertEqual(error["line"], line, error)
            self.assertTrue(error["file"].endswith("served.py"), error)
        return error
