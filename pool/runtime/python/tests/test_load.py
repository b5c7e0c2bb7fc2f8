"""LOAD: what is found, what its signature is, and how a module that cannot be served says so."""

import os
import sys
import tempfile
import unittest
import venv

from case import WorkerCase


def signature(function):
    args = ", ".join(f"{arg['name']} {arg['type']}{'?' * arg['nullable']}" for arg in function["args"])
    result = function["result"]
    return f"{function['name']}({args}) -> {result['type']}{'?' * result['nullable']}"


class Found(WorkerCase):
    def served(self, source, **options):
        gate = self.load(source, **options)
        return [signature(function) for function in gate.loaded["functions"]]

    def test_hints(self):
        got = self.served("""
            import functools
            from typing import Optional, Union
            from udfgate import udf

            @udf
            def a(i: int, f: float, b: bool, s: str, y: bytes) -> str: ...
            @udf()
            def b(i: Optional[int], s: "str", o: "Optional[bytes]", u: Union[None, float]) -> Optional[bool]: ...
            @udf(name="c")
            def other(i: int, rest=5) -> int: ...
            @udf
            def d(i: int, rest: int = 5) -> int: ...
            @udf
            @functools.lru_cache
            def e(i: int) -> int: ...
            def wrapping(f):
                @functools.wraps(f)
                def inner(*args, **kwargs):
                    return f(*args, **kwargs)
                return inner
            @udf
            @wrapping
            @wrapping
            def f(s: Optional["str"]) -> str: ...
            """)
        self.assertEqual(
            got,
            [
                "a(i int64, f float64, b bool, s utf8, y binary) -> utf8",
                "b(i int64?, s utf8, o binary?, u float64?) -> bool?",
                "c(i int64) -> int64",
                "d(i int64, rest int64) -> int64",
                "e(i int64) -> int64",
                "f(s utf8?) -> utf8",
            ],
        )

    def test_postponed_annotations(self):
        got = self.served("""
            from __future__ import annotations
            import typing as t
            from udfgate import udf
            Id = int

            @udf
            def a(i: Id, s: str | None, n: None | bytes, o: t.Optional[float]) -> Id | None: ...
            """)
        self.assertEqual(got, ["a(i int64, s utf8?, n binary?, o float64?) -> int64?"])

    @unittest.skipIf(sys.version_info < (3, 10), "no int | None before 3.10")
    def test_unions_and_aliases(self):
        got = self.served("""
            from typing import Annotated, NewType
            from udfgate import udf
            Id = NewType("Id", int)

            @udf
            def a(i: int | None, s: Annotated[str, "x"], n: Id) -> "bytes | None": ...
            """)
        self.assertEqual(got, ["a(i int64?, s utf8, n int64) -> binary?"])

    def test_type_names(self):
        names = {
            "bool": "BOOLEAN bool Bool logical",
            "int8": "TINYINT int8",
            "int16": "SMALLINT INT2 int16 INT16 int2",
            "int32": "INT INTEGER INT4 INT32 int32 int integer",
            "int64": "BIGINT INT8 INT64 int64 bigint",
            "uint8": "UINT8 uint8",
            "uint16": "UINT16",
            "uint32": "uint32",
            "uint64": "UBIGINT UINT64",
            "float32": "REAL FLOAT4 FLOAT32 float32",
            "float64": "DOUBLE FLOAT8 FLOAT64 double float8",
            "utf8": "VARCHAR TEXT STRING CHAR string utf8 varchar",
            "binary": "BYTEA BINARY VARBINARY BLOB binary",
        }
        spelled = [(name, kind) for kind, many in names.items() for name in many.split()]
        spelled += [("double   precision", "float64"), ("character varying", "utf8"), ("bigint unsigned", "uint64")]
        given = [name for name, _ in spelled] + [
            "INT NOT NULL",
            "INT not  null",
            "INT NULL",
            "double precision NOT NULL",
        ]
        gate = self.load(f"""
            from udfgate import udf
            f = udf(name="f", input_types={given!r}, result_type="int8 not null")(lambda *x: 1)
            """)
        function = gate.function("f")
        got = [(arg["type"], arg["nullable"]) for arg in function["args"]]
        wanted = [(kind, True) for _, kind in spelled]
        wanted += [("int32", False), ("int32", False), ("int32", True), ("float64", False)]
        self.assertEqual(got, wanted)
        self.assertEqual(function["result"], {"name": "f", "type": "int8", "nullable": False})

    def test_pyarrow_types(self):
        got = self.served("""
            from udfgate import udf
            class Type:
                def __init__(self, name): self.name = name
                def __str__(self): return self.name
            Type.__module__ = "pyarrow.lib"
            f = udf(name="f", input_types=[Type("int8"), Type("float"), Type("string")], result_type=Type("double"))(
                lambda a, b, c: 1.0)
            """)
        self.assertEqual(got, ["f(a int8?, b float32?, c utf8?) -> float64?"])

    def test_bodies_of_all_kinds(self):
        gate = self.load("""
            import functools, math, operator
            from udfgate import udf

            class Adder:
                def __init__(self, n): self.n = n
                def __call__(self, x: int) -> int: return x + self.n
                def method(self, x: int) -> int: return x * self.n

            gcd = udf(input_types=["BIGINT", "BIGINT"], result_type="BIGINT")(math.gcd)
            add3 = udf(Adder(3), name="add3")
            times4 = udf(name="times4")(Adder(4).method)
            twice = udf(name="twice", input_types=["INT"], result_type="INT")(lambda x: x * 2)
            half = udf(name="half", input_types=["INT"], result_type="INT")(functools.partial(operator.floordiv, 100))
            def three(a: int, b: int, c: int) -> int: return a * 100 + b * 10 + c
            left = udf(functools.partial(three, 1), name="left")
            right = udf(functools.partial(three, c=3), name="right")

            @udf
            class Scorer:
                made = 0
                def __init__(self):
                    Scorer.made += 1
                    self.base = 10
                def __call__(self, x: int) -> int:
                    return self.base * x + Scorer.made

            @udf(name="sub")
            class Sub(Scorer):
                def __init__(self):
                    super().__init__()
                    assert isinstance(self, Sub) and isinstance(self, Scorer)
            again = udf(gcd, name="again", input_types=["BIGINT NOT NULL"] * 2, result_type="BIGINT NOT NULL")
            """)
        got = [signature(function) for function in gate.loaded["functions"]]
        self.assertEqual(
            got,
            [
                "gcd(arg0 int64?, arg1 int64?) -> int64?",
                "add3(x int64) -> int64",
                "times4(x int64) -> int64",
                "twice(x int32?) -> int32?",
                "half(arg0 int32?) -> int32?",
                "left(b int64, c int64) -> int64",
                "right(a int64, b int64) -> int64",
                "Scorer(x int64) -> int64",
                "sub(x int64) -> int64",
                "again(arg0 int64, arg1 int64) -> int64",
            ],
        )
        self.assertEqual(gate.call("gcd", [12], [18]).values, [6])
        self.assertEqual(gate.call("add3", [1, 2]).values, [4, 5])
        self.assertEqual(gate.call("times4", [1, 2]).values, [4, 8])
        self.assertEqual(gate.call("half", [7]).values, [14])
        self.assertEqual(gate.call("left", [2], [3]).values, [123])
        self.assertEqual(gate.call("right", [1], [2]).values, [123])
        self.assertEqual(gate.call("Scorer", [1, 2]).values, [12, 22])
        self.assertEqual(gate.call("sub", [1]).values, [12])

    def test_each_object_once_in_order(self):
        got = self.served("""
            from udfgate import udf
            @udf
            def b() -> int: return 1
            @udf
            def a() -> int: return 2
            alias = b
            hidden = {"c": udf(lambda: 1, name="c")}
            def helper(x: int) -> int: ...
            """)
        self.assertEqual(got, ["b() -> int64", "a() -> int64"])

    def test_bodies_from_elsewhere(self):
        gate = self.start()
        gate.write("from udfgate import udf\n@udf\ndef f(a: int) -> int: return a\ndef g(a): return a\n", "other")
        loaded = gate.load_source("""
            from other import f, g
            from udfgate import udf
            for name in ("x", "y"):
                globals()[name] = udf(name=name, input_types=["INT"], result_type="INT")(g)
            """)
        self.assertEqual([function["name"] for function in loaded["functions"]], ["f", "x", "y"])
        self.assertEqual({function["module"] for function in loaded["functions"]}, {"served"})

    def test_a_module_without_decorators(self):
        got = self.served("""
            import functools
            from math import gcd
            from os.path import join
            def f(a: int, b: "str | None" = None) -> int: return a
            def _private(a: int) -> int: return a
            def half(a: int): return a
            def unhinted(a) -> int: return a
            def main() -> None: ...
            async def later(a) -> int: ...
            class C:
                def method(self, a: int) -> int: return a
            @functools.lru_cache
            def cached(a: float) -> float: return a
            if __name__ == "__main__":
                raise RuntimeError
            """)
        self.assertEqual(got, ["f(a int64, b utf8?) -> int64", "cached(a float64) -> float64"])

    def test_what_cannot_be_called_by_position_is_passed_over(self):
        got = self.served("""
            import functools
            def f(a: int) -> int: return a
            def keyword(a: int, *, b: int) -> int: return a
            def deep(a: int) -> int: return a
            for _ in range(70):
                deep = functools.wraps(deep)(lambda a, inner=deep: inner(a))
            """)
        self.assertEqual(got, ["f(a int64) -> int64"])

    def test_options(self):
        gate = self.load("""
            from udfgate import udf
            @udf(volatility="IMMUTABLE", timeout="1m30.5s", elementwise=False, concurrency=4, max_workers=2,
                 native="off", affinity="none", mode="row", null_handling="call", on_error="fail",
                 init="worker", io_threads=1, max_batch_rows=10, skip_null=False, batch_mode=False,
                 max_concurrency=3)
            def a(x: int) -> int: return x
            @udf(volatility="stable", idempotent=True, timeout=0.5)
            def b(x: int) -> int: return x
            @udf(timeout=2)
            def c(x: int) -> int: return x
            """)
        keys = ("mode", "kind", "volatility", "elementwise", "idempotent", "timeout_ns")
        got = [tuple(function[key] for key in keys) for function in gate.loaded["functions"]]
        self.assertEqual(
            got,
            [
                ("row", "scalar", "immutable", False, True, 90_500_000_000),
                ("row", "scalar", "stable", True, True, 500_000_000),
                ("row", "scalar", "volatile", True, False, 2_000_000_000),
            ],
        )

    def test_modes(self):
        gate = self.load("""
            from udfgate import udf
            @udf(mode="list", on_error="null")
            def a(x: int) -> int: return x
            @udf(batch=True, elementwise=True, on_error="reject")
            def b(x: int) -> int: return x
            @udf(batch_mode=True, batch=True, mode="LIST", on_error=None)
            def c(x: int) -> int: return x
            @udf(batch=False, null_handling="skip")
            def d(x: int) -> int: return x
            @udf(skip_null=True, null_handling="skip", mode="list")
            def e(x: int) -> int: return x
            """)
        self.assertEqual(
            [(f["mode"], f["elementwise"], f["on_error"], f["result"]["nullable"]) for f in gate.loaded["functions"]],
            [
                ("list", False, "null", False),
                ("list", True, "reject", False),
                ("list", False, "fail", False),
                ("row", True, "fail", True),
                ("list", False, "fail", True),
            ],
        )

    def test_several_modules(self):
        gate = self.start()
        one = gate.write("import two\nfrom udfgate import udf\n@udf\ndef f() -> int: return two.VALUE\n", "one")
        two = gate.write("from udfgate import udf\nVALUE = 5\n@udf\ndef f() -> int: return 2\n", "two")
        gate.write("", "pkg/__init__")
        gate.write(
            "from udfgate import udf\nfrom . import __name__ as p\n@udf\ndef h() -> str: return p + __name__\n",
            "pkg/mod",
        )
        folder = os.path.dirname(one)
        modules = [{"name": "one", "file": one}, {"name": "two", "file": two}, {"name": "pkg.mod"}]
        loaded = gate.load(modules, [folder], generation=7)
        got = [(f["number"], f["module"], f["name"]) for f in loaded["functions"]]
        self.assertEqual([line["message"] for line in gate.logs], [f"importing {f}" for f in (one, two, "pkg.mod")])
        self.assertEqual(got, [(0, "one", "f"), (1, "two", "f"), (2, "pkg.mod", "h")])
        self.assertEqual(gate.call("h", rows=1).values, ["pkgpkg.mod"])
        self.assertEqual(gate.call("f", rows=1, number=1).values, [2])

    def test_the_module_is_a_real_one(self):
        gate = self.load("""
            import pickle, sys
            from udfgate import udf
            @udf
            def about() -> str:
                module = sys.modules[__name__]
                assert pickle.loads(pickle.dumps(about)) is about
                assert module.about is about and about.__name__ == "about" and callable(about.__wrapped__)
                return f"{__name__} {module.__file__ == __file__} {module.__spec__.name} {about.__module__}"
            @udf
            def fact(n: int) -> int:
                return 1 if n < 2 else n * fact(n - 1)
            """)
        self.assertEqual(gate.call("about", rows=1).values, ["served True served served"])
        self.assertEqual(gate.call("fact", [5, 20]).values, [120, 2432902008176640000])

    def test_installed_packages_can_be_imported(self):
        gate = self.load("""
            import sys
            from udfgate import udf
            @udf
            def path() -> str: return repr(sys.path)
            @udf
            def leave() -> int: exit(3)
            """)
        path = eval(gate.call("path", rows=1).values[0])
        self.assertEqual(path[0], gate.folder.name)
        for folder in gate.hello["site"]:
            self.assertIn(folder, path)
        self.assertEqual(gate.call("leave", rows=1).error.name, "SystemExit")

    def test_a_virtual_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=False, symlinks=True)
            python = os.path.join(folder, "bin", "python")
            version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
            packages = os.path.join(folder, "lib", version, "site-packages")
            with open(os.path.join(packages, "only_here.py"), "w", encoding="utf-8") as f:
                f.write("VALUE = 5\n")
            gate = self.load(
                """
                from only_here import VALUE
                from udfgate import udf
                @udf
                def value() -> int: return VALUE
                """,
                python=python,
            )
            self.assertIn(packages, [os.path.realpath(site) for site in gate.hello["site"]])
            self.assertEqual(gate.call("value", rows=1).values, [5])

    def test_hints_that_look_forgotten(self):
        gate = self.load("""
            import functools
            def served(x: int, y=3) -> int: ...
            def half(x, y: int) -> int: ...
            def nothing(x: int): ...
            def main() -> None: ...
            def _private(x): ...
            def any(*x) -> int: ...
            """)
        self.assertEqual([function["name"] for function in gate.loaded["functions"]], ["served"])
        self.assertEqual(
            [(f["module"], f["name"], f["why"]) for f in gate.loaded["skipped"]],
            [
                ("served", "half", "no type hint on parameter x"),
                ("served", "nothing", "no type hint on the result"),
            ],
        )
        gate = self.load("""
            from udfgate import udf
            @udf
            def f(x: int) -> int: ...
            def helper(x): ...
            """)
        self.assertNotIn("skipped", gate.loaded)


class Refused(WorkerCase):
    def check(self, source, text, name="LoadError", line=None):
        error = self.refused("from udfgate import udf, udtf, udaf\n" + source)
        self.assertEqual(error["class"], name, error)
        self.assertIn(text, error["message"])
        if line is not None:
            self.assertEqual(error["line"], line, error)
            self.assertTrue(error["file"].endswith("served.py"), error)
        return error

    def test_a_class_without_call(self):
        text = "served.K: the class has no __call__"
        self.check("@udf\nclass K:\n    def score(self, x: int) -> int: ...", text, line=4)
        self.check("@udf\nclass K: ...", text, line=0)

    def test_types_that_are_none(self):
        for name, text in (
            ("FLOAT", "REAL or DOUBLE"),
            ("float", "REAL or DOUBLE"),
            ("Int8", "TINYINT or BIGINT"),
            ("VARCHAR(20)", "write VARCHAR"),
            ("VARCAHR", "did you mean VARCHAR"),
            ("", "no type is called nothing"),
            ("NOT NULL", "no type"),
        ):
            self.check(f"@udf(input_types=[{name!r}], result_type='INT')\ndef f(x): ...", text)
        self.check("@udf(input_types=[int], result_type='INT')\ndef f(x): ...", "wanted a type name")
        self.check("@udf\ndef f(x: object) -> int: ...", "object is not supported; wanted int, float, bool, str, bytes")
        self.check("from typing import Union\n@udf\ndef f(x: Union[int, str]) -> int: ...", "union of several types")
        self.check("@udf\ndef f(x: 'Missing') -> int: ...", "NameError")
        self.check("@udf\ndef f(x: int) -> None: ...", "result: None alone is no type")

    def test_signatures_that_do_not_fit(self):
        self.check("@udf\ndef f(x, y: int) -> int: ...", "parameter x: no type hint", line=2)
        self.check("@udf\ndef f(x: int): ...", "result: no type hint; add one or give result_type")
        self.check(
            "@udf(input_types=['INT'], result_type='INT')\ndef f(x, y): ...",
            "input_types has 1 types, the body takes 2",
        )
        self.check("@udf(input_types=['INT'] * 3, result_type='INT')\ndef f(x, y=1): ...", "the body takes 1 to 2")
        self.check("@udf\ndef f(*x: int) -> int: ...", "*x takes any number of arguments")
        self.check("@udf\ndef f(x: int, *, y: int) -> int: ...", "parameter y can only be given by keyword")
        self.check("import math\nf = udf(math.gcd)", "give input_types")
        self.check("f = udf(lambda x: x)", "a lambda needs name=")
        self.check("import functools\nf = udf(functools.partial(print, 1))", "partial needs name=")
        self.check("@udf\nclass C: ...", "served.C: the class has no __call__")
        source = "@udf\nclass C:\n    def __init__(self, n): ...\n    def __call__(self, x: int) -> int: ..."
        self.check(source, "served.C: ", line=4)

    def test_what_is_not_built(self):
        for option in ("io_threads=2", "init='shared'", "warmup=1", "native='require'", "affinity='stream'"):
            self.check(f"@udf({option})\ndef f(x: int) -> int: ...", f"{option} is not supported yet", line=2)
        self.check("@udf\ndef f(x: int) -> int: yield 1", "generator functions are not supported yet")
        self.check("@udf\nasync def f(x: int) -> int: ...", "async functions are not supported yet")
        self.check(
            "@udtf(input_types=['INT'], result_types=['INT'])\ndef f(x): yield 1",
            "table functions (@udtf) are not supported yet",
        )
        self.check("@udaf(input_types=['INT'], result_type='INT')\nclass F: ...", "aggregate functions (@udaf)")
        for name in ("context", "counter"):
            self.check(f"from udfgate import {name}", f"cannot import name '{name}' from 'udfgate'", "ImportError", 2)
            self.check(f"import udfgate\nudfgate.{name}", f"'udfgate' has no attribute '{name}'", "AttributeError", 3)

    def test_options_that_contradict_each_other(self):
        for options, text in (
            ("mode='row', batch=True", "batch=True and mode='row' contradict each other"),
            ("batch=True, batch_mode=False", "batch=True and batch_mode=False contradict each other"),
            ("skip_null=True, null_handling='call'", "skip_null=True and null_handling='call' contradict each other"),
        ):
            self.check(f"@udf({options})\ndef f(x: int) -> int: ...", f"served.f: {text}", line=2)

    def test_options_that_cannot_be_meant(self):
        for option, text in (
            ("timout='2s'", "no option is called timout; did you mean timeout?"),
            ("volatility='none'", "volatility: wanted 'immutable' or 'stable' or 'volatile', got 'none'"),
            ("elementwise=1", "elementwise: wanted True or False, got 1"),
            ("timeout='2 parsecs'", "timeout: wanted a time above 0"),
            ("timeout=-1", "timeout: wanted a time"),
            ("timeout=True", "timeout: wanted a time"),
            ("concurrency=0", "concurrency: wanted a number from 1"),
            ("name='a b'", "name: wanted a name"),
            ("input_types=5", "input_types: wanted a list of types"),
            ("mode='rows'", "mode: wanted"),
        ):
            self.check(f"@udf({option})\ndef f(x: int) -> int: ...", text, "TypeError", 2)
        self.check("udf('name')", "udf: wanted a function or a class, got str", "TypeError", 2)

    def test_nothing_to_serve(self):
        for source in ("", "x = 1", "def f(a): return a", "def _f(a: int) -> int: return a"):
            self.check(source, "served: nothing to serve: decorate functions with @udf")

    def test_two_functions_of_one_name(self):
        self.check("@udf\ndef f() -> int: ...\ng = udf(name='f')(f)", "served: two functions are called f")


if __name__ == "__main__":
    unittest.main()
