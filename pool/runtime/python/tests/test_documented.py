"""docs/types.md names exactly the types that the worker's tables have."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from case import WorkerCase
from tables import table

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, *[".."] * 4, "docs", "types.md")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))


# Calls of the functions on the page: arguments by column, and what is answered.
CALLS = {
    "gcd": ([[12, 7], [18, 0]], [6, 7]),
    "head": ([["text", None], [2, 2]], ["te", None]),
    "Scorer": ([[1.5]], [4.5]),
    "rank": ([[0.5, 0.1, 0.3]], [2, 0, 1]),
    "price": ([[10.0]], [10.0]),
    "by_threads": ([[1, 2]], [1, 2]),
    "by_tasks": ([[1, 2]], [1, 2]),
    "score": ([[1, 2], ["a", None]], [2, 2]),
    "embed": ([["abc"]], [3]),
    "add": ([[1.5], [2.0]], [3.5]),
}


def blocks():
    """The Python blocks of functions.md."""
    with open(os.path.join(os.path.dirname(PAGE), "functions.md"), encoding="utf-8") as f:
        found = re.findall(r"^( *)```python\n(.*?)^ *```$", f.read(), re.M | re.S)
    return [re.sub(f"^{indent}", "", source, flags=re.M) for indent, source in found]


def run_blocks(case, wanted):
    """Load each block for which wanted(source) holds, as it stands, and call its functions; returns their names."""
    names = []
    for source in blocks():
        if "from udfgate import" not in source or not wanted(source):
            continue
        gate = case.load(source)
        for function in gate.loaded["functions"]:
            names.append(function["name"])
            if function["kind"] == "scalar":
                columns, answers = CALLS[function["name"]]
                values = gate.call(function["name"], *columns).values
                case.assertEqual(
                    getattr(values, "to_pylist", lambda values=values: values)(), answers, function["name"]
                )
    return names


class Examples(WorkerCase):
    def test_every_block_of_functions(self):
        self.assertEqual(
            sorted(run_blocks(self, lambda source: "pyarrow" not in source)),
            sorted({*CALLS, "words", "pieces"} - {"add"}),
        )

    def test_the_module_for_elsewhere(self):
        """Everything that files import of udfgate is in it, and bodies run under it as they stand."""
        (stub,) = [source for source in blocks() if "counted = Counter()" in source]
        with tempfile.TemporaryDirectory(prefix="udfgate-test-") as folder:
            with open(os.path.join(folder, "udfgate.py"), "w", encoding="utf-8") as f:
                f.write(stub)
            bodies = [source for source in blocks() if "from udfgate import" in source and "pyarrow" not in source]
            body = "import udfgate; from udfgate import Interval, context, counter, udf, udtf\n"
            body += "assert udfgate.Interval(1) == (1, 0, 0)\n"
            body += f"for source in {bodies!r}:\n    exec(compile(source, 'block', 'exec'), globals())\n"
            body += "assert gcd(12, 18) == 6 and Scorer()(1.0) == 3.0 and list(words('a b')) == ['a', 'b']\n"
            body += "assert price(-1.0) == -1.0 and udfgate.counted == {'negative': 1}\n"
            done = subprocess.run([sys.executable, "-c", body], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_table_functions(self):
        with open(os.path.join(os.path.dirname(PAGE), "functions.md"), encoding="utf-8") as f:
            _, _, section = f.read().partition("\n## Table functions\n")
        source = section.partition("```python\n")[2].partition("```")[0]
        gate = self.load(source)
        self.assertEqual(table(gate, "words", ["to be", None, "so"]), [(0, "to"), (0, "be"), (2, "so")])
        self.assertEqual(table(gate, "pieces", ["abcde"], [2]), [(0, (0, "ab")), (0, (2, "cd")), (0, (4, "e"))])


class Documented(unittest.TestCase):
    def names(self, heading):
        """The names in the first cells of the table under a heading."""
        with open(PAGE, encoding="utf-8") as f:
            lines = f.read().split(heading, 1)[1].splitlines()
        names = []
        for line in lines[4:]:
            if not line.startswith("| "):
                break
            names += re.findall(r"`([^`]+)`", line.split("|")[1])
        return names

    def test_every_type_is_there_once(self):
        from udfgate_worker import exact, kinds, strict

        names = self.names("## The table")
        self.assertEqual(sorted(names), sorted({*exact.RULES, *strict.INT_RANGES, *strict.PLAIN_RULES}))
        self.assertEqual(sorted(names), sorted(kinds.KINDS))

    def test_every_extension_is_there_once(self):
        from udfgate_worker import exact, kinds

        names = self.names("Extension types, over the type in brackets:")
        names.remove(kinds.VECTOR)  # which has the rules of its storage
        self.assertEqual(sorted(names), sorted(exact.EXTENSIONS))
        self.assertEqual(sorted(names), sorted(kinds.EXTENSIONS))

    def test_every_kind_has_a_fast_way_and_a_reader(self):
        from udfgate_worker import convert, kinds, wire

        parts = {
            "unit": "us", "precision": 5, "scale": 2, "size": 1,
            "children": (("key", "int32", False), ("value", "int32", True)),
        }  # fmt: skip
        for kind in kinds.KINDS:
            more = dict(parts, unit="s" if kind == "time32" else "us")
            if kind in kinds.LISTS:
                more["children"] = parts["children"][:1]
            elif kind not in ("struct", "map"):
                del more["children"]
            made = kinds.Type(kind, **more)
            self.assertTrue(callable(wire.to_wire(made)), kind)
            self.assertEqual(list(wire.to_wire(made)([None], True)), [None], kind)
            convert.converter(made)


if __name__ == "__main__":
    unittest.main()
