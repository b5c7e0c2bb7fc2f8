"""Every type that is not plain, in both directions: what a body sees, what goes back, rows that fail."""

import decimal
import itertools
import json
import struct
import unittest

import forms
from case import WorkerCase

KEEP = 2
DAY = 86_400_000
UUID_BYTES = bytes(range(16))

# declaration, then value form and the expression of what a body sees
TYPES = {
    "date": ("DATE", (0, "date(1970, 1, 1)"), (-719162, "date.min"), (2932896, "date.max"), (20000, "date(2024, 10, 4)")),
    "date64": ("date64[ms]", (DAY, "date(1970, 1, 2)"), (-719162 * DAY, "date.min"), (2932896 * DAY, "date.max")),
    "time_s": ("time32[s]", (0, "time(0, 0)"), (86399, "time(23, 59, 59)")),
    "time_ms": ("time32[ms]", (86399999, "time(23, 59, 59, 999000)"), (1, "time(0, 0, 0, 1000)")),
    "time": ("TIME", (86399999999, "time.max"), (1, "time(0, 0, 0, 1)"), (3_600_000_000, "time(1, 0)")),
    "time_ns": ("time64[ns]", (86399999999000, "time.max"), (1000, "time(0, 0, 0, 1)")),
    "ts_s": ("timestamp[s]", (-1, "datetime(1969, 12, 31, 23, 59, 59)"), (253402300799, "datetime(9999, 12, 31, 23, 59, 59)")),
    "ts_ms": ("timestamp[ms]", (-1, "datetime(1969, 12, 31, 23, 59, 59, 999000)"), (0, "datetime(1970, 1, 1)")),
    "ts": ("TIMESTAMP", (-62135596800000000, "datetime.min"), (253402300799999999, "datetime.max"), (-1, "datetime(1969, 12, 31, 23, 59, 59, 999999)")),
    "ts_ns": ("timestamp[ns]", (1000, "datetime(1970, 1, 1, 0, 0, 0, 1)"), (-1000, "datetime(1969, 12, 31, 23, 59, 59, 999999)")),
    "tstz": ("TIMESTAMPTZ", (1_700_000_000_000_001, "datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=timezone.utc)"),),
    "ts_offset": ("timestamp[ms, tz=+05:30]", (0, "datetime(1970, 1, 1, 5, 30, tzinfo=timezone(timedelta(seconds=19800)))"),),
    "ts_zone": ("timestamp[s, tz=Europe/Berlin]",
                (1698541200, "datetime(2023, 10, 29, 2, 0, fold=1, tzinfo=ZoneInfo('Europe/Berlin'))"),
                (1698537600, "datetime(2023, 10, 29, 2, 0, tzinfo=ZoneInfo('Europe/Berlin'))")),
    "duration": ("duration[us]", (0, "timedelta(0)"), (-1, "timedelta(microseconds=-1)"), (2**63 - 1, "timedelta(microseconds=2**63 - 1)")),
    "duration_s": ("duration[s]", (-5, "timedelta(seconds=-5)"), (86399999999999, "timedelta(days=999999999, seconds=86399)")),
    "duration_ns": ("duration[ns]", (-9223372036854775000, "timedelta(microseconds=-9223372036854775)"),),
    "half": ("float16", (0.5, "0.5"), (-0.0, "-0.0"), (65504.0, "65504.0"), (float("inf"), "inf"), (2.0**-24, "2.0**-24")),
    "decimal": ("DECIMAL(10, 2)", ("0.00", "Decimal('0.00')"), ("-12345678.90", "Decimal('-12345678.90')")),
    "decimal32": ("decimal32(9, 4)", ("99999.9999", "Decimal('99999.9999')"),),
    "decimal64": ("decimal64(18, 0)", ("-999999999999999999", "Decimal('-999999999999999999')"),),
    "decimal256": ("decimal256(76, 38)", ("9" * 38 + "." + "9" * 38, f"Decimal('{'9' * 38}.{'9' * 38}')"),),
    "decimal_tens": ("decimal128(3, -2)", ("123E+2", "Decimal('1.23E+4')"),),
    "plain_decimal": ("extension<arrowudf.decimal>", ("123456789.123456789123456789123456789123456789", "Decimal('123456789.123456789123456789123456789123456789')"), ("-0.1", "Decimal('-0.1')")),
    "json": ("JSONB", ('{"a": [1, 2.5, null, true, "é"]}', "{'a': [1, 2.5, None, True, 'é']}"), ('"x"', "'x'"), ("[]", "[]"), ("12345678901234567890", "12345678901234567890")),
    "arrow_json": ("extension<arrow.json>", ("{}", "{}"),),
    "uuid": ("UUID", (UUID_BYTES, "UUID('00010203-0405-0607-0809-0a0b0c0d0e0f')"),),
    "fixed": ("fixed_size_binary[3]", (b"abc", "b'abc'"), (b"\0\xff\0", "bytes([0, 255, 0])")),
    "empty_fixed": ("fixed_size_binary[0]", (b"", "b''"),),
    "large_text": ("LARGE_STRING", ("Zoë", "'Zoë'"), ("", "''")),
    "large_bytes": ("large_binary", (b"\xff", "bytes([255])"),),
    "months": ("month_interval", ((-7,), "Interval(-7, 0, 0)"), ((2**31 - 1,), "Interval(2**31 - 1, 0, 0)")),
    "days": ("day_time_interval", ((3, -4), "Interval(0, 3, -4_000_000)"),),
    "interval": ("INTERVAL", ((1, -2, 2**63 - 1), "Interval(1, -2, 2**63 - 1)"), ((0, 0, 0), "Interval()")),
    "ints": ("BIGINT[]", ([], "[]"), ([1, None, -(2**63)], "[1, None, -(2**63)]"), ([7] * 300, "[7] * 300")),
    "texts": ("LIST(VARCHAR)", (["a", "Zoë", None, "a"], "['a', 'Zoë', None, 'a']"),),
    "large_list": ("large_list<item: double>", ([0.5], "[0.5]"),),
    "vector": ("fixed_size_list<item: float>[3]", ([0.5, 1.0, -2.0], "[0.5, 1.0, -2.0]"),),
    "dates": ("DATE[]", ([0, None, 1], "[date(1970, 1, 1), None, date(1970, 1, 2)]"), ([], "[]")),
    "deep": ("DECIMAL(4, 1)[][]", ([[], ["1.5", None], None], "[[], [Decimal('1.5'), None], None]"),),
    "struct": ("STRUCT<a INT, b: VARCHAR>", ({"a": 1, "b": None}, "{'a': 1, 'b': None}"), ({"a": None, "b": "x"}, "{'a': None, 'b': 'x'}")),
    "record": ("STRUCT(d DATE, l STRUCT(u UUID, t TIME[]))", ({"d": 0, "l": {"u": UUID_BYTES, "t": [0, None]}}, "{'d': date(1970, 1, 1), 'l': {'u': UUID(bytes=bytes(range(16))), 't': [time(0, 0), None]}}"), ({"d": None, "l": None}, "{'d': None, 'l': None}")),
    "map": ("MAP(VARCHAR, BIGINT)", ({"a": 1, "b": None}, "{'a': 1, 'b': None}"), ({}, "{}")),
    "map_of_dates": ("MAP(DATE, JSON)", ({0: "[1]", 1: None}, "{date(1970, 1, 1): [1], date(1970, 1, 2): None}"), ({}, "{}")),
    "maps": ("MAP(INT, STRUCT<x DECIMAL(3, 1)>)[]", ([{1: {"x": "0.5"}, 2: None}, {}, None], "[{1: {'x': Decimal('0.5')}, 2: None}, {}, None]"),),
    "flags": ("ARRAY(BOOLEAN)", ([True, False, None], "[True, False, None]"),),
    "nothing": ("NULL",),
}  # fmt: skip

SOURCE = """
from udfgate import udf
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID
from udfgate import Interval
inf = float("inf")

TABLE = %r
EXPRESSIONS = %r

def check(key, value):
    # eval gives what a body should see; the class too
    wanted = None if key < 0 else EXPRESSIONS[key]
    good = value is None if wanted is None else same(value, wanted) and repr(value) == repr(wanted)
    return "" if good else "%%r, wanted %%r" %% (value, wanted)

def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return a == b

from zoneinfo import ZoneInfo
EXPRESSIONS = [eval(one) for one in EXPRESSIONS]

for name, declared in TABLE.items():
    globals()["check_" + name] = udf(name="check_" + name, input_types=["INT", declared], result_type="VARCHAR")(check)
    globals()["same_" + name] = udf(name="same_" + name, input_types=[declared], result_type=declared)(lambda x: x)
    globals()["list_" + name] = udf(name="list_" + name, input_types=[declared], result_type=declared, mode="list")(
        lambda x: x)
    globals()["skip_" + name] = udf(name="skip_" + name, input_types=[declared], result_type=declared, skip_null=True)(
        lambda x: x)
"""
_ALL = [(name, value, text) for name, (_, *values) in TYPES.items() for value, text in values]
_KEYS = {(name, text): number for number, (name, _, text) in enumerate(_ALL)}
SOURCE = SOURCE % ({name: given for name, (given, *_) in TYPES.items()}, [text for _, _, text in _ALL])


class Types(WorkerCase):
    SOURCE = SOURCE

    def values(self, rnd, name, rows, nulls):
        values = TYPES[name][1:]
        if not values:
            return [(-1, None)] * rows
        return [
            (-1, None) if rnd.random() < nulls else (_KEYS[name, text], value)
            for value, text in (rnd.choice(values) for _ in range(rows))
        ]

    def form(self, name, value):
        return forms.plainly(self.gate.function("same_" + name)["result"]["type"], value)

    def test_what_a_body_sees(self):
        rnd, seed = self.seeded()
        for name in TYPES:
            for rows, nulls in itertools.product((0, 1, 7, 300), (0, 0.3, 1)):
                keys, values = zip(*self.values(rnd, name, rows, nulls)) if rows else ((), ())
                got = self.gate.call("check_" + name, list(keys), list(values), block=64).values
                self.assertEqual(got, [""] * rows, (name, seed))

    def test_what_goes_back(self):
        rnd, seed = self.seeded()
        for name in TYPES:
            for rows, nulls in itertools.product((0, 1, 9, 300), (0, 0.3, 1)):
                values = [value for _, value in self.values(rnd, name, rows, nulls)]
                wanted = [self.form(name, value) for value in values]
                for way in ("same", "list", "skip"):
                    for flags in (0, KEEP):
                        got = self.gate.call(f"{way}_{name}", values, block=64, flags=flags).values
                        self.assertEqual(self.told(name, got), self.told(name, wanted), (name, way, seed))

    def told(self, name, values):
        """Decimals and JSON go back as other texts of the same value."""
        kind = TYPES[name][0]
        if kind == "JSONB" or "json" in kind:
            return [None if value is None else json.loads(value) for value in values]
        if kind.lower().startswith("decimal") and not kind.endswith("]"):
            return [None if value is None else decimal.Decimal(value) for value in values]
        return repr(values)

    def test_many_rows(self):
        rnd, seed = self.seeded()
        for name in ("date", "tstz", "decimal", "json", "dates", "map_of_dates", "half"):
            for rows in (4095, 4097) if name != "date" else (4096, 65537):
                values = [value for _, value in self.values(rnd, name, rows, 0.1)]
                got = self.gate.call("same_" + name, values).values
                wanted = [self.form(name, value) for value in values]
                self.assertEqual(self.told(name, got), self.told(name, wanted), (name, rows, seed))

    def test_ranges_of_a_batch(self):
        rnd, seed = self.seeded()
        for name in ("date", "half", "ts_zone", "decimal", "record"):
            values = [value for _, value in self.values(rnd, name, 200, 0.1)]
            for lo, hi in ((0, 8), (8, 9), (64, 200), (104, 104)):
                got = self.gate.call("same_" + name, values, lo=lo, hi=hi, block=64).values
                wanted = [self.form(name, value) for value in values[lo:hi]]
                self.assertEqual(self.told(name, got), self.told(name, wanted), (name, seed))

    def test_loaded(self):
        described = {name: self.gate.function("same_" + name)["args"][0]["type"] for name in TYPES}
        self.assertEqual(described["date"], "date32")
        self.assertEqual(described["half"], "float16")
        self.assertEqual(described["nothing"], "null")
        self.assertEqual(described["large_text"], "large_utf8")
        self.assertEqual(described["interval"], "month_day_nano_interval")
        self.assertEqual(described["tstz"], {"name": "timestamp", "unit": "us", "zone": "UTC"})
        self.assertEqual(described["decimal"], {"name": "decimal128", "precision": 10, "scale": 2})
        self.assertEqual(described["uuid"], {"name": "fixed_size_binary", "size": 16, "extension": "arrow.uuid"})
        self.assertEqual(described["json"], {"name": "utf8", "extension": "arrowudf.json"})
        item = {"name": "item", "type": "float32", "nullable": True}
        self.assertEqual(described["vector"], {"name": "fixed_size_list", "size": 3, "children": [item]})
        members = [{"name": "a", "type": "int32", "nullable": True}, {"name": "b", "type": "utf8", "nullable": True}]
        self.assertEqual(described["struct"], {"name": "struct", "children": members})
        members = [
            {"name": "key", "type": "utf8", "nullable": False},
            {"name": "value", "type": "int64", "nullable": True},
        ]
        self.assertEqual(described["map"], {"name": "map", "children": members})

    def test_half_precision(self):
        halves = [struct.unpack("<e", struct.pack("<H", bits))[0] for bits in range(0, 1 << 16, 7)]
        got = self.gate.call("same_half", halves, block=512).values
        self.assertEqual(repr(got), repr(halves))


if __name__ == "__main__":
    unittest.main()
