"""LOAD: what cannot be served is refused with a text that says why and where."""

import unittest

from case import RefusedCase


class Refused(RefusedCase):
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
        for option in ("init='shared'", "native='require'", "affinity='stream'"):
            self.check(f"@udf({option})\ndef f(x: int) -> int: ...", f"{option} is not supported yet", line=2)
        self.check("@udaf(input_types=['INT'], result_type='INT')\nclass F: ...", "aggregate functions (@udaf)")

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
