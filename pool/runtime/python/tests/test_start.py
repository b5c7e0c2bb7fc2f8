"""The start of a worker from a folder of its own, as the gateway writes it: who compiles, and that it does not matter."""

import glob
import os
import shutil
import tempfile
import unittest

from case import WorkerCase
from gateway import WORKER

SOURCE = "def inc(x: int) -> int: return x + 1\n"


class Start(WorkerCase):
    def folder(self):
        """A worker's sources, never run."""
        folder = tempfile.mkdtemp(prefix="udfgate-test-")
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(WORKER, folder)
        lib = os.path.join(os.path.dirname(WORKER), "lib")
        shutil.copytree(lib, os.path.join(folder, "lib"), ignore=shutil.ignore_patterns("__pycache__"))
        return folder

    def works(self, folder):
        gate = self.load(SOURCE, worker=os.path.join(folder, "worker.py"))
        self.assertEqual(gate.call("inc", [1, 2]).values, [2, 3])

    def compiled(self, folder):
        """When each compiled module was written."""
        files = glob.glob(os.path.join(folder, "lib", "*", "__pycache__", "*.pyc"))
        return {file: os.stat(file).st_mtime_ns for file in files}

    def test_twice_in_a_fresh_folder(self):
        folder = self.folder()
        self.works(folder)
        first = self.compiled(folder)
        self.assertTrue(any(os.path.basename(file).startswith("load.") for file in first), first)
        self.works(folder)
        self.assertEqual(self.compiled(folder), first)

    def test_a_folder_that_is_read_only(self):
        folder = self.folder()
        folders = [folder, *glob.glob(os.path.join(folder, "lib")), *glob.glob(os.path.join(folder, "lib", "*"))]
        for one in folders:
            os.chmod(one, 0o555)
            self.addCleanup(os.chmod, one, 0o755)
        for _ in range(2):
            self.works(folder)
        if os.geteuid():  # root may write all the same
            self.assertEqual(self.compiled(folder), {})

    def test_compiled_files_that_cannot_be_kept(self):
        folder = self.folder()
        for package in ("udfgate", "udfgate_worker"):  # a file where the folder would go: root cannot write either
            open(os.path.join(folder, "lib", package, "__pycache__"), "w").close()
        for _ in range(2):
            self.works(folder)
        self.assertEqual(self.compiled(folder), {})

    def test_plain_functions_import_no_more_than_they_need(self):
        source = SOURCE + "import sys\ndef loaded() -> str: return ' '.join(sys.modules)\n"
        gate = self.load(source)
        gate.call("inc", [1])
        loaded = set(gate.call("loaded", rows=1).values[0].split())
        late = ("kinds", "convert", "wire", "exact", "rich", "moments", "hints", "typeparser", "guesttypes", "modes")
        self.assertEqual(loaded & {f"udfgate_worker.{name}" for name in late}, set())
        self.assertEqual(loaded & {"datetime", "decimal", "json", "uuid", "zoneinfo", "udfgate.interval"}, set())


if __name__ == "__main__":
    unittest.main()
