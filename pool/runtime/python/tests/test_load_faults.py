"""LOAD: files that cannot be imported, or whose import does its worst, are named."""

import sys
import unittest

from case import RefusedCase
from gateway import Gone


class Faults(RefusedCase):
    def test_broken_files(self):
        error = self.check("x = 1\ndef f(:\n", "", "SyntaxError", 3)
        self.assertIn("served.py", error["traceback"])
        self.check("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'", "ModuleNotFoundError", 2)
        self.check("def deep():\n    raise KeyError('x')\ndeep()", "'x'", "KeyError", 3)
        self.check("import sys\nsys.exit('no')", "no", "SystemExit", 3)
        self.check("raise KeyboardInterrupt", "", "KeyboardInterrupt", 2)
        self.check("import json\njson.loads('{')", "Expecting property name", "JSONDecodeError", 3)
        init = "    def __init__(self):\n        open('/nowhere/x')\n"
        source = f"@udf\nclass C:\n{init}    def __call__(self, x: int) -> int: ..."
        error = self.check(source, "No such file", "FileNotFoundError", 5)
        self.assertNotIn("udfgate_worker", error["traceback"])
        self.assertNotIn("importlib", error["traceback"])
        error = self.check(
            "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('outer') from e", "outer", "ValueError", 5
        )
        self.assertIn("ZeroDivisionError", error["traceback"])

    def test_files_with_a_nul_byte(self):
        error = self.check("x = 1\0", "null bytes", "ValueError" if sys.version_info < (3, 11, 4) else "SyntaxError")
        self.assertTrue(error["file"].endswith("served.py"), error)

    def test_modules_that_replace_themselves(self):
        for value, got in (("5", "int"), ("None", "NoneType"), ("type('K', (), {})()", "K")):
            source = f"import sys\nsys.modules[__name__] = {value}"
            self.check(source, f"served: wanted a module in sys.modules, got {got}", line=0)
        self.load("""
            import sys, types
            from udfgate import udf
            m = sys.modules[__name__] = types.ModuleType("m")
            m.f = udf(result_type="INT", input_types=[])(len)
            """)

    def test_modules_that_end_the_process(self):
        gate = self.start()
        files = [gate.write("def f() -> int: ...", "one"), gate.write("import os\nos._exit(0)", "two")]
        with self.assertRaises(Gone):
            gate.load([{"name": "one", "file": files[0]}, {"name": "two", "file": files[1]}], [gate.folder.name])
        self.assertEqual(gate.logs[-1], {"level": "debug", "message": f"importing {files[1]}", "function": ""})
        self.assertEqual(gate.wait(), 0)

    def test_raises_that_are_hostile(self):
        hostile = """
            class E(SyntaxError):
                @property
                def {}(self):
                    raise SystemExit("hostile")
            raise E("text")
            """
        for name in ("__traceback__", "__class__", "__cause__", "filename", "__dict__"):
            error = self.start().load_source(hostile.format(name))["error"]
            self.assertEqual((error["class"], error["message"]), ("E", "text"), name)
            self.assertTrue(error["file"].endswith("served.py"), (name, error))
        error = self.refused("e = SyntaxError('t')\ne.filename, e.lineno, e.msg = 5, [], {}\nraise e")
        self.assertEqual((error["class"], error["line"]), ("SyntaxError", 3))
        error = self.refused("raise type('C' * 300, (Exception,), {})('x' * 10**6)")
        self.assertEqual((len(error["class"]), len(error["message"])), (256, 4096))

    def test_a_served_file_named_like_a_library(self):
        for shadow in ("difflib", "traceback"):
            gate = self.start()
            gate.write("raise SystemExit('I am no library')", shadow)
            wrong = "from udfgate import udf\n@udf(timout='2s')\ndef f(x: int) -> int: ..."
            error = gate.load_source(wrong)["error"]
            self.assertEqual(error["message"], "udf: no option is called timout; did you mean timeout?")
            gate = self.start()
            wrong = "from udfgate import udf\n@udf(input_types=['VARCAHR'], result_type='INT')\ndef f(x): ..."
            file = gate.write(wrong, shadow)
            error = gate.load([{"name": shadow, "file": file}], [gate.folder.name])["error"]
            self.assertTrue(error["message"].startswith(f"{shadow}.f: parameter x: no type is called VARCAHR"), error)

    def test_files_that_are_not_there(self):
        gate = self.start()
        loaded = gate.load([{"name": "m", "file": "/nowhere/m.py"}])
        self.assertEqual((loaded["error"]["class"], loaded["error"]["file"]), ("FileNotFoundError", "/nowhere/m.py"))
        loaded = self.start().load([{"name": "no.such"}])
        self.assertEqual(loaded["error"]["class"], "ModuleNotFoundError")

    def test_module_names_that_are_taken(self):
        for name in ("udfgate", "sys", "os", "udfgate_worker"):
            gate = self.start()
            loaded = gate.load_source("from udfgate import udf\n", name)
            self.assertIn(f"module name {name} is taken", loaded["error"]["message"])


if __name__ == "__main__":
    unittest.main()
