"""Random types: what comes in goes back, and the fast way and the strict rules make the same of a value."""

import datetime
import decimal
import os
import struct
import sys
import unittest
import uuid

import forms
from case import WorkerCase
from gateway import RECODE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

LEAVES = (
    "BOOLEAN", "TINYINT", "BIGINT", "UBIGINT", "DOUBLE", "REAL", "HALF", "VARCHAR", "BYTEA", "LARGE_STRING", "DATE",
    "date64[ms]", "TIME", "time32[s]", "TIMESTAMP", "timestamp[ms]", "TIMESTAMPTZ", "duration[us]", "DECIMAL(12, 3)",
    "UUID", "JSON", "INTERVAL", "month_interval", "fixed_size_binary[2]", "extension<arrowudf.decimal>",
)  # fmt: skip
KEYS = ("TINYINT", "BIGINT", "VARCHAR", "DATE", "UUID", "TIMESTAMP", "DECIMAL(12, 3)", "BOOLEAN")
DAY_MS = 86_400_000


def declared(rnd, depth=0):
    """The name of a random type."""
    pick = rnd.random()
    if depth > 3 or pick < 0.4:
        return rnd.choice(LEAVES)
    null = "" if rnd.random() < 0.7 else " NOT NULL"
    if pick < 0.6:
        return f"ARRAY({declared(rnd, depth + 1)}{null})"
    if pick < 0.65:
        return f"fixed_size_list<{declared(rnd, depth + 1)}{null}>[{rnd.randrange(1, 4)}]"
    if pick < 0.8:
        return f"MAP({rnd.choice(KEYS)}, {declared(rnd, depth + 1)}{null})"
    members = [f"m{at} {declared(rnd, depth + 1)}{rnd.choice((null, ''))}" for at in range(rnd.randint(1, 4))]
    return f"STRUCT<{', '.join(members)}>"


def value_of(rnd, type_, nulls=0.2):
    """A random value of a type in its value form, never None itself."""
    kind = forms.kind_of(type_)
    extension = type_.get("extension") if isinstance(type_, dict) else None
    if extension == "arrowudf.json":
        return rnd.choice(('{"a": [1, null, "é"]}', "[]", "1.5", '"x"', "true"))
    if extension == "arrowudf.decimal" or kind == "decimal128":
        return f"{rnd.randrange(-(10**6), 10**6)}.{rnd.randrange(1000):03d}"
    if kind in forms.INTS:
        least, most = forms.INTS[kind]
        return rnd.choice((least, most, 0, rnd.randint(least, most)))
    if kind in ("float16", "float32", "float64"):
        code = {"float16": "<e", "float32": "<f", "float64": "<d"}[kind]
        return struct.unpack(code, struct.pack(code, rnd.choice((0.0, -0.0, 1e4, rnd.uniform(-100, 100)))))[0]
    if kind in ("list", "fixed_size_list"):
        (item,) = type_["children"]
        return [maybe(rnd, item, nulls) for _ in range(type_["size"] if "size" in type_ else rnd.randrange(4))]
    if kind == "struct":
        return {member["name"]: maybe(rnd, member, nulls) for member in type_["children"]}
    if kind == "map":
        key, item = type_["children"]
        return {value_of(rnd, key["type"]): maybe(rnd, item, nulls) for _ in range(rnd.randrange(3))}
    make = {
        "bool": lambda: rnd.random() < 0.5,
        "utf8": lambda: rnd.choice(("", "a", "Zoë", "x" * 300)),
        "large_utf8": lambda: rnd.choice(("", "b")),
        "binary": lambda: rnd.choice((b"", b"s\xff", bytes(300))),
        "fixed_size_binary": lambda: bytes(rnd.randrange(256) for _ in range(type_["size"])),
        "date32": lambda: rnd.choice((-719162, 2932896, rnd.randrange(20000))),
        "date64": lambda: rnd.randrange(-20000, 20000) * DAY_MS,
        "time32": lambda: rnd.randrange(86400),
        "time64": lambda: rnd.randrange(86400 * 10**6),
        "timestamp": lambda: rnd.choice((-1, 0, rnd.randrange(-(10**13), 10**13))),
        "duration": lambda: rnd.randint(-(2**63), 2**63 - 1),
        "month_interval": lambda: (rnd.randrange(-9, 9),),
        "month_day_nano_interval": lambda: (rnd.randrange(-9, 9), 5, rnd.randint(-(2**63), 2**63 - 1)),
    }
    return make[kind]()


def maybe(rnd, field, nulls):
    if field["nullable"] and rnd.random() < nulls:
        return None
    return value_of(rnd, field["type"], nulls)


def told(type_, value):
    """A value form with decimals as numbers and JSON parsed, which have several texts."""
    kind = forms.kind_of(type_)
    extension = type_.get("extension") if isinstance(type_, dict) else None
    if value is None:
        return None
    if extension == "arrowudf.json":
        return value.replace(" ", "")
    if extension == "arrowudf.decimal" or kind == "decimal128":
        return decimal.Decimal(value).normalize() or decimal.Decimal(0)
    if kind in ("list", "fixed_size_list"):
        return [told(type_["children"][0]["type"], one) for one in value]
    if kind == "struct":
        return tuple(told(member["type"], one) for member, one in zip(type_["children"], value))
    if kind == "map":
        key, item = type_["children"]
        return [(told(key["type"], one), told(item["type"], other)) for one, other in value]
    return repr(value)


class Trees(WorkerCase):
    def test_what_comes_in_goes_back(self):
        rnd, seed = self.seeded()
        names = [declared(rnd) for _ in range(60)]
        gate = self.load(
            f"from udfgate import udf\nfor at, name in enumerate({names!r}):\n"
            "    for mode in ('row', 'list'):\n"
            "        globals()[mode + str(at)] = udf(name=mode + str(at), input_types=[name], result_type=name, mode=mode)(\n"
            "            lambda x: x)\n"
        )
        for at, name in enumerate(names):
            type_ = gate.function(f"row{at}")["result"]["type"]
            for rows in (0, 1, 40):
                values = [maybe(rnd, {"type": type_, "nullable": True}, 0.2) for _ in range(rows)]
                wanted = [told(type_, forms.plainly(type_, value)) for value in values]
                for mode in ("row", "list"):
                    got = gate.call(f"{mode}{at}", values, block=16).values
                    got = [told(type_, forms.plainly(type_, value)) for value in got]
                    self.assertEqual(got, wanted, (name, seed))

    def test_dicts_that_go_as_they_are(self):
        gate = self.load("""
            from udfgate import udf
            @udf(input_types=["VARCHAR"], result_type="STRUCT<a BIGINT, s STRUCT<b VARCHAR, l BIGINT[]>>")
            def f(source):
                return eval(source)
            @udf(input_types=["VARCHAR"], result_type="STRUCT<a BIGINT, d DATE, s STRUCT<b VARCHAR>>")
            def g(source):
                import datetime
                return eval(source)
            """)
        good = {"a": 1, "s": {"b": "x", "l": [1, 2]}}
        texts = [repr(good), "None", "{'a': 2, 's': None}", "{'s': {'l': []}}", "{'s': {'l': [], 'b': 'y'}, 'a': 3}"]
        wanted = [good, None, {"a": 2, "s": None}, {"a": None, "s": {"b": None, "l": []}},
                  {"a": 3, "s": {"b": "y", "l": []}}]  # fmt: skip
        described = gate.function("f")["result"]["type"]
        wanted = [told(described, forms.plainly(described, one)) for one in wanted]
        for flags in (0, 2):
            got = gate.call("f", texts, block=8, flags=flags)
            self.assertEqual([told(described, forms.plainly(described, one)) for one in got.values], wanted)
            call = got.call
            gate.put(RECODE, call)
            again = gate.result("f")
            self.assertEqual([told(described, forms.plainly(described, one)) for one in again.values], wanted)
        for name, bad in (("f", "{'a': 1, 's': {'b': '\\ud800'}}"),
                          ("g", "{'a': 2**70, 'd': datetime.date(2020, 1, 1), 's': {'b': 'x'}}"),
                          ("g", "{'a': 1, 'd': None, 's': {'b': '\\ud800'}}")):  # fmt: skip
            error = gate.call(name, ["{'a': 1}"] * 9 + [bad], block=8).error
            self.assertEqual((error.row, error.kind), (9, 2), error)

    def test_the_fast_way_and_the_strict_rules_agree(self):
        from udfgate_worker import convert, exact, kinds, strict, typenames, wire

        rnd, seed = self.seeded()
        odd = (0, 2**70, True, 0.5, "x", b"x", None, datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), (), [1],
               {}, {"m0": 1}, decimal.Decimal("1.5"), uuid.UUID(int=1), datetime.timedelta(1), [[]], {1: 2},
               datetime.time(1), 1e300, float("nan"), "\ud800")  # fmt: skip
        taken = slow = 0
        for _ in range(300):
            name = declared(rnd)
            type_ = kinds.as_type(typenames.column_type(name)[0])
            described = type_.described()
            fast, back, rule = wire.to_wire(type_), convert.converter(type_), exact.rich_rule(type_)
            for _ in range(10):
                value = value_of(rnd, described)
                value = value if back is None else back([value])[0]
                if rnd.random() < 0.5:
                    value = self.spoiled(rnd, value, odd)
                strictly = self.strictly(strict, rule, type_, value)
                try:
                    made = fast([value], False)[0]
                except Exception:
                    slow += 1
                    continue
                if not forms.fits(described, False, made):  # the gateway asks to RECODE
                    self.assertIsInstance(strictly, strict.Misfit, (name, value, seed))
                    continue
                taken += 1
                self.assertNotIsInstance(strictly, strict.Misfit, (name, value, getattr(strictly, "text", ""), seed))
                self.assertTrue(forms.fits(described, False, strictly), (name, value, strictly, seed))
                pair = [repr(told(described, forms.plainly(described, self.rounded(described, one))))
                        for one in (made, strictly)]  # fmt: skip
                self.assertEqual(*pair, (name, value, seed))
        self.assertGreater(taken, 500)
        self.assertGreater(slow, 50)

    def rounded(self, type_, value):
        """Floats as the gateway will hold them."""
        kind = forms.kind_of(type_)
        if value is None:
            return None
        if kind in ("float16", "float32"):
            code = "<e" if kind == "float16" else "<f"
            return struct.unpack(code, struct.pack(code, value))[0]
        if kind in ("list", "fixed_size_list"):
            return [self.rounded(type_["children"][0]["type"], one) for one in value]
        if kind == "struct":
            members = type_["children"]
            ones = map(value.get, [member["name"] for member in members]) if type(value) is dict else value
            return tuple(self.rounded(member["type"], one) for member, one in zip(members, ones))
        if kind == "map":
            pairs = value.items() if isinstance(value, dict) else value
            return [(one, self.rounded(type_["children"][1]["type"], other)) for one, other in pairs]
        return value

    def strictly(self, strict, rule, type_, value):
        try:
            return rule(type_, value)
        except strict.Misfit as misfit:
            return misfit
        except Exception:
            return strict.unfit(type_, value)

    def spoiled(self, rnd, value, odd):
        """The value with something else in one place of it."""
        if isinstance(value, list) and value and rnd.random() < 0.8:
            value = list(value)
            at = rnd.randrange(len(value))
            value[at] = self.spoiled(rnd, value[at], odd)
            return value
        if isinstance(value, dict) and value and rnd.random() < 0.8:
            value = dict(value)
            key = rnd.choice(list(value))
            if rnd.random() < 0.1:
                del value[key]
            elif rnd.random() < 0.1:
                value["more"] = 1
            else:
                value[key] = self.spoiled(rnd, value[key], odd)
            return value
        return rnd.choice(odd)


if __name__ == "__main__":
    unittest.main()
