"""docs/types.md names exactly the types that the worker's tables have."""

import os
import re
import sys
import unittest

from case import WorkerCase
from tables import table

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, *[".."] * 4, "docs", "types.md")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))


class Examples(WorkerCase):
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
