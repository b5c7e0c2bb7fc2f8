"""Files written for arrow-udf's and databend-udf's Python servers load unchanged, or say what is not built."""

import os
import subprocess
import sys
import tempfile
import unittest

from case import WorkerCase
from tables import table

ARROW = """
import sys
from typing import List, Optional

from arrow_udf import udf, udtf, UdfServer


@udf(input_types=["INT", "INT"], result_type="INT")
def greatest_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@udf(input_types="VARCHAR", result_type="BIGINT", name="letters", io_threads=16)
def count_letters(text: Optional[str]):
    return None if text is None else sum(map(str.isalpha, text))


@udf(["float64", "double precision", "REAL"], "DOUBLE", batch=True)
def mean(a: List[float], b: List[float], c: List[float]) -> List[float]:
    return [(x + y + z) / 3 for x, y, z in zip(a, b, c)]


@udf(input_types=["bytea"], result_type="boolean", skip_null=True)
def has_zero(data):
    return 0 in data


@udf(input_types=[], result_type="smallint")
def answer():
    return 42


@udf(input_types=["tinyint", "uint8", "uint16", "uint32", "uint64", "int8"], result_type="string")
def show(*numbers):
    return " ".join(map(str, numbers))


server = UdfServer(location="0.0.0.0:8815")
server.add_function(greatest_divisor)
for function in (count_letters, mean):
    server.add_function(function)

if __name__ == "__main__":
    server.serve()
    sys.exit(3)
"""

DATABEND = """
import logging

from databend_udf import udf, UDFServer
from databend_udf.udf import Headers, QueryCancelledError
from databend_udf.client import create_client

logging.basicConfig(level=logging.WARNING)


@udf(input_types=["INT", "INT NOT NULL"], result_type="INT", skip_null=True)
def divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@udf(
    input_types=["VARCHAR", "NULLABLE(STRING)", "TEXT NOT NULL"],
    result_type="VARCHAR NOT NULL",
    max_concurrency=3,
    concurrency_timeout=2.5,
)
def joined(a, b, c):
    return (a or "") + (b or "") + c


@udf(input_types=["FLOAT", "DOUBLE", "BINARY NULL"], result_type="DOUBLE", batch_mode=True, skip_null=True)
def lengths(x, y, z):
    return [len(data or b"") * 1.0 for data in z]


@udf(["TINYINT UNSIGNED", "UINT64", "BOOLEAN"], "bigint unsigned", io_threads=None)
def pick(a, b, second):
    return b if second else a


if __name__ == "__main__":
    server = UDFServer("0.0.0.0:8815", metric_location="0.0.0.0:8816")
    server.add_function(divisor)
    server.serve()
"""

BUILT_IN = ["builtin_echo(large_utf8?) large_utf8? row", "builtin_healthy() int32? row"]


def shown(gate):
    """The functions of a worker, one text each."""

    def column(field):
        return field["type"] + ("?" if field["nullable"] else "")

    return [
        f"{f['name']}({', '.join(map(column, f['args']))}) {column(f['result'])} {f['mode']}"
        for f in gate.loaded["functions"]
    ]


class Guests(WorkerCase):
    def test_a_file_of_arrow_udf(self):
        gate = self.load(ARROW)
        self.assertEqual(
            shown(gate),
            [
                "greatest_divisor(int32?, int32?) int32? row",
                "letters(utf8?) int64? row",
                "mean(float64?, float64?, float32?) float64? list",
                "has_zero(binary?) bool? row",
                "answer() int16? row",
                "show(int8?, uint8?, uint16?, uint32?, uint64?, int8?) utf8? row",
            ],
        )
        self.assertEqual(gate.call("greatest_divisor", [12, 7], [18, 21]).values, [6, 7])
        self.assertEqual(gate.call("letters", ["a1b", None]).values, [2, None])
        self.assertEqual(gate.call("mean", [1.0, 2.0], [2.0, 3.0], [3.0, 4.0]).values, [2.0, 3.0])
        self.assertEqual(gate.call("has_zero", [b"a\0", None, b""]).values, [True, None, False])
        self.assertEqual(gate.call("answer", rows=3).values, [42] * 3)
        self.assertEqual(gate.call("show", *[[n] for n in range(6)]).values, ["0 1 2 3 4 5"])

    def test_a_file_of_databend_udf(self):
        gate = self.load(DATABEND)
        self.assertEqual(
            shown(gate),
            [
                "divisor(int32?, int32) int32? row",
                "joined(large_utf8?, large_utf8?, large_utf8) large_utf8 row",
                "lengths(float32?, float64?, large_binary?) float64? list",
                "pick(uint8?, uint64?, bool?) uint64? row",
                *BUILT_IN,
            ],
        )
        self.assertEqual(gate.call("divisor", [12, None, 9], [18, 1, 6]).values, [6, None, 3])
        self.assertEqual(gate.call("joined", ["a", None], [None, "b"], ["c", "c"]).values, ["ac", "bc"])
        self.assertEqual(gate.call("lengths", [1.0, 1.0], [1.0, 1.0], [b"ab", None]).values, [2.0, 0.0])
        self.assertEqual(gate.call("pick", [1, 1], [2**63, 5], [True, False]).values, [2**63, 1])

    def test_types_go_by_the_packages_own_names(self):
        for package, taken, refused in (
            ("arrow_udf", {"FLOAT64": "float64", "int8": "int8", "INT8": "int8"},
             ("FLOAT8", "FLOAT", "TEXT", "INT2", "INT NOT NULL", "VARCHAR(20)")),
            ("databend_udf", {"FLOAT": "float32", "CHAR": "large_utf8", "Int8": "int8"},
             ("REAL", "BYTEA", "FLOAT8", "DOUBLE PRECISION", "VARCHAR(20)", "UINTEGER")),
        ):  # fmt: skip
            for name, kind in taken.items():
                gate = self.load(f"from {package} import udf\n@udf(input_types=[{name!r}], result_type='INT')\n"
                                 "def f(x): return 1\n")  # fmt: skip
                self.assertEqual(gate.loaded["functions"][0]["args"][0]["type"], kind)
            for name in refused:
                self.check(package, f"[{name!r}], 'INT'", f"parameter x: {package} has no type called {name}")
                self.check(package, f"['INT'], {name!r}", f"result: {package} has no type called {name}")
        self.check("arrow_udf", "['FLOAT46'], 'INT'", "has no type called FLOAT46; did you mean FLOAT64?")

    def test_pyarrow_types(self):
        for package, want in (
            ("arrow_udf", "f(int8?, float32?, utf8?) binary? row"),
            ("databend_udf", "f(int8, float32, utf8) binary row"),  # NOT NULL there
        ):
            gate = self.load(f"""
                from {package} import udf
                class Type:
                    def __init__(self, name): self.name = name
                    def __str__(self): return self.name
                Type.__module__ = "pyarrow.lib"
                f = udf([Type("int8"), Type("float"), Type("string")], Type("binary"), name="f")(lambda a, b, c: b"")
                """)
            self.assertEqual(shown(gate), [want, *(BUILT_IN if package == "databend_udf" else [])])
        source = "class T:\n    def __str__(self): return {!r}\nT.__module__ = 'pyarrow.lib'\n"
        source += "@udf([T()], 'INT')\ndef f(x): return 1\n"
        self.load("from databend_udf import udf\n" + source.format("large_string"))
        gate = self.load("from arrow_udf import udf\n" + source.format("large_string"))
        self.assertEqual(gate.function("f")["args"][0]["type"], "large_utf8")

    def test_types_that_are_none(self):
        for package, name, text in (
            ("arrow_udf", "MAP(INT, INT)", "arrow_udf has no type called MAP(INT, INT)"),
            ("arrow_udf", "STRUCT<a:INT, b:MONEY>", "arrow_udf has no type called STRUCT<a:INT, b:MONEY>"),
            ("arrow_udf", "INT[", "INT[: wanted a number, got the end"),
            ("databend_udf", "UUID", "databend_udf has no type called UUID"),
            ("databend_udf", "DECIMAL", "DECIMAL: wanted DECIMAL(precision, scale)"),
            ("databend_udf", "DECIMAL(77, 1)", "DECIMAL(77, 1): precision 77 is not from 1 to 76"),
            ("databend_udf", "ARRAY(INT", "ARRAY(INT: wanted ), got the end"),
        ):
            self.check(package, f"[{name!r}], 'INT'", f"parameter x: {text}")
        self.check("arrow_udf", "[UdfServer()], 'INT'", "parameter x: UdfServer is not supported", "udf, UdfServer")
        self.check("arrow_udf", "[5], 'INT'", "parameter x: wanted a type name such as 'INT' or 'VARCHAR', got int")

    def test_what_is_not_built(self):
        self.check("databend_udf", "['INT'], 'INT NOT NULL', skip_null=True", "skip_null=True needs a result_type")
        for package, name in (("arrow_udf", "ScalarFunction"), ("databend_udf", "HeadersMiddleware")):
            error = self.refused(f"from {package} import udf, {name}\n")
            self.assertEqual(error["message"], f"{package}.{name} is not supported yet, or does not exist")
            self.assertEqual((error["class"], error["line"]), ("ImportError", 1))
        self.check("arrow_udf", "['INT', 'INT'], 'INT'", "input_types has 2 types, the body takes 1 parameters (x)")
        self.check("arrow_udf", "['INT'], 'INT', timeout=3", "unexpected keyword argument 'timeout'")

    def test_parameters_that_are_no_columns(self):
        """Headers by name or hint, stages by hint or stage_refs; what is left are the columns."""
        imports = "from databend_udf import udf, Headers, StageLocation\nfrom typing import List, Optional\n"
        for options, parameters, columns in (
            ("", "x, headers", "x"),
            ("", "x, headers=None", "x"),
            ("", "h: Headers, x", "x"),
            ("", "x, h: 'databend_udf.Headers | None'", "x"),
            ("", "x, h: Optional[Headers] = None", "x"),
            ("", "x, h: 'Optional[Headers]' = None", "x"),
            ("", "x, h: Optional['Headers'] = None", "x"),
            ("", "x: List[Headers], headers", "x"),
            ("", "x: 'List[Headers]', headers", "x"),
            ("", "s: StageLocation, x, headers", "x"),
            (", stage_refs=['a', 'b']", "s: StageLocation, x, t: 'StageLocation'", "x"),
            (", stage_refs=['s']", "s, x", "x"),
        ):
            source = f"{imports}@udf(['INT'], 'INT'{options})\ndef f({parameters}): return 1\n"
            args = self.load(source).function("f")["args"]
            self.assertEqual([arg["name"] for arg in args], columns.split(), source)
        for options, parameters, text in (
            (", stage_refs=['a']", "x", "stage_refs=['a']: wanted a name for each of the 0 parameters with the hint"),
            (", stage_refs=['s', 's']", "s: StageLocation, x", "stage_refs=['s', 's']: wanted a name for each"),
            ("", "x, y, headers", "input_types has 1 types, the body takes 2 columns (x, y)"),
            ("", "x, y=2, headers=None", "input_types has 1 types, the body takes 2 columns (x, y)"),
        ):
            error = self.refused(f"{imports}@udf(['INT'], 'INT'{options})\ndef f({parameters}): return 1\n")
            self.assertIn(text, error["message"])

    def test_classes_of_databend_udf(self):
        gate = self.load("""
            from databend_udf import udf
            from databend_udf.udf import StageLocation
            @udf(input_types=["INT"], result_type="VARCHAR")
            class Tenant:
                def __init__(self):
                    self.times = 3
                def __call__(self, x, headers):
                    return headers.get("x-tenant") * self.times * x
            @udf(input_types=["INT"], result_type="VARCHAR", stage_refs=["place"])
            class Staged:
                def __call__(self, place: StageLocation, x):
                    return place.stage_name
            @udf(input_types=["INT"], result_type=[("a", "INT"), ("b", "VARCHAR")])
            class Rows:
                def __call__(self, x, headers):
                    for i in range(x):
                        yield {"b": headers.get("x-tenant"), "a": i}
            """)
        self.assertEqual(gate.call("Tenant", [1, 2]).values, ["aaa", "aaaaaa"])
        self.assertIn("Missing stage mapping for parameter(s): place", gate.call("Staged", [1]).error.text)
        members = [(0, "a"), (1, "a")]
        self.assertEqual([row for _, row in table(gate, "Rows", [2])], members)

    def test_built_in_functions(self):
        gate = self.load("from databend_udf import UDFServer\n")  # a server without functions has these
        self.assertEqual(shown(gate), BUILT_IN)
        self.assertEqual(gate.call("builtin_echo", ["a", None]).values, ["a", None])
        self.assertEqual(gate.call("builtin_healthy", rows=1).values, [1])
        gate = self.load("from databend_udf import udf\n@udf([], 'BIGINT')\ndef builtin_healthy(): return 2\n")
        self.assertEqual(shown(gate), ["builtin_healthy() int64? row", BUILT_IN[0]])
        self.assertEqual(gate.loaded["functions"][1]["module"], "databend_udf")
        self.refused("import databend_udf\n")

    def test_a_server_is_not_started(self):
        for package, name in (("arrow_udf", "UdfServer"), ("databend_udf", "UDFServer")):
            error = self.refused(f"""
                from {package} import udf, {name}
                @udf(input_types=['INT'], result_type='INT')
                def f(x): return x
                server = {name}(location='127.0.0.1:1')
                server.add_function(f)
                server.serve()
                """)
            self.assertIn("the gateway serves this file", error["message"])
            self.assertEqual((error["class"], error["line"]), ("RuntimeError", 7))

    def test_ours_win_over_installed_packages(self):
        with tempfile.TemporaryDirectory(prefix="udfgate-test-") as folder:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
            python = os.path.join(folder, "bin", "python")
            site = subprocess.run(
                [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                check=True,
                capture_output=True,
            )
            for package in ("arrow_udf", "databend_udf"):
                os.makedirs(os.path.join(site.stdout.decode().strip(), package))
                with open(os.path.join(site.stdout.decode().strip(), package, "__init__.py"), "w") as f:
                    f.write("raise ImportError('the installed one')\n")
            for source in (ARROW, DATABEND):
                self.load(source, python=python)

    def check(self, package, options, text, names="udf", parameters="x"):
        source = f"from {package} import {names}\n@udf({options})\ndef f({parameters}): return 1\n"
        error = self.refused(source)
        self.assertIn(text, error["message"])
        self.assertEqual(error["line"], 2 if error["class"] != "ImportError" else 1)


if __name__ == "__main__":
    unittest.main()
