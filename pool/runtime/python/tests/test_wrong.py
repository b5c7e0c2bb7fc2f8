"""Values that do not fit types that are not plain: the exact text of each, and those that fit in odd ways."""

import decimal
import unittest

from case import WorkerCase

KEEP = 2
SOURCE = '''
import array, collections, dataclasses, math, typing, uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
import decimal
from udfgate import udf, Interval

UTC = timezone.utc
inf, nan = math.inf, math.nan
Loop = []
Loop.append(Loop)

@dataclasses.dataclass
class Data:
    a: object
    b: object = "x"

@dataclasses.dataclass
class More(Data):
    c: int = 3

class Named(typing.NamedTuple):
    a: object
    b: object = "x"

class Index:
    def __index__(self):
        return 5

    def __repr__(self):
        return "Index()"

class Bad:
    def __index__(self):
        raise SystemExit("no index")

    def __repr__(self):
        return "Bad()"

class MyDate(date):
    pass

class MyDict(dict):
    def items(self):
        raise SystemExit("no items")

class MyList(list):
    def __iter__(self):
        raise SystemExit("no items")

class Stamp(datetime):
    """Like pandas.Timestamp."""
    nanosecond = 7

class ndarray:
    """Looks like numpy's."""
    ndim = 1
    def __init__(self, *items):
        self.items = items
    def __iter__(self):
        return iter(self.items)
ndarray.__module__ = "numpy"

def body(text):
    return eval(text)

TYPES = %r
for name, declared in TYPES.items():
    globals()["to_" + name] = udf(name="to_" + name, input_types=["utf8"], result_type=declared + " NOT NULL")(body)
    globals()["nullable_" + name] = udf(name="nullable_" + name, input_types=["utf8"], result_type=declared)(body)
'''
TYPES = {
    "date": "DATE", "date64": "date64[ms]", "time": "TIME", "time_s": "time32[s]", "time_ns": "time64[ns]",
    "ts": "TIMESTAMP", "ts_s": "timestamp[s]", "ts_ns": "timestamp[ns]", "tstz": "TIMESTAMPTZ",
    "duration": "duration[us]", "duration_ms": "duration[ms]", "half": "float16",
    "decimal": "DECIMAL(5, 2)", "udf_decimal": "extension<arrowudf.decimal>", "tens": "decimal128(3, -2)",
    "json": "JSON", "uuid": "UUID", "fixed": "fixed_size_binary[2]", "months": "month_interval",
    "days": "day_time_interval", "interval": "INTERVAL", "text": "LARGE_STRING", "nothing": "NULL",
    "ints": "BIGINT[]", "bytes": "INT[]", "pair": "fixed_size_list<item: int32>[2]", "exact": "ARRAY(INT NOT NULL)",
    "decimals": "DECIMAL(5, 2)[]", "struct": "STRUCT<a INT, b VARCHAR>", "strict": "STRUCT<a INT NOT NULL, b VARCHAR>",
    "nested": 'STRUCT<a STRUCT<"odd name": INT[]>[], b DATE>', "map": "MAP(VARCHAR, INT)", "by_date": "MAP(DATE, FLOAT8[])",
}  # fmt: skip
GOOD = {
    "date": "date(2020, 1, 1)", "date64": "date(2020, 1, 1)", "time": "time(1)", "time_s": "time(1)", "time_ns": "time(1)",
    "ts": "datetime(2020, 1, 1)", "ts_s": "datetime(2020, 1, 1)", "ts_ns": "datetime(2020, 1, 1)",
    "tstz": "datetime(2020, 1, 1, tzinfo=UTC)", "duration": "timedelta(1)", "duration_ms": "timedelta(1)", "half": "0.5",
    "decimal": "Decimal('1.5')", "udf_decimal": "Decimal('1.5')", "tens": "Decimal(100)", "json": "{'a': 1}",
    "uuid": "uuid.UUID(int=7)", "fixed": "b'ab'", "months": "Interval(1)", "days": "Interval(0, 1)",
    "interval": "Interval(1, 2, 3)", "text": "'x'", "ints": "[1, 2]", "bytes": "[3]", "pair": "[1, 2]", "exact": "[1]",
    "decimals": "[Decimal(1), None]", "struct": "{'a': 1, 'b': 'x'}", "strict": "{'a': 1, 'b': 'x'}",
    "nested": "{'a': [{'odd name': [1]}], 'b': None}", "map": "{'a': 1}", "by_date": "{date(2020, 1, 1): [0.5]}",
}  # fmt: skip

T, V, O = "TypeError", "ValueError", "OverflowError"  # noqa: E741
REFUSED = [
    ("date", "datetime(2020, 1, 1)", T, "result: wanted date32, got datetime datetime.datetime(2020, 1, 1, 0, 0)"),
    ("date", "'2020-01-01'", T, "result: wanted date32, got str '2020-01-01'"),
    ("date", "3.5", T, "result: wanted date32, got float 3.5"),
    ("date", "5", T, "result: wanted date32, got int 5"),
    ("date", "None", T, "result: wanted date32, got None"),
    ("time", "time(1, tzinfo=UTC)", T,
     "result: wanted time64[us], got time datetime.time(1, 0, tzinfo=datetime.timezone.utc) with a time zone"),
    ("time_s", "time(1, 0, 0, 1)", V, "result: datetime.time(1, 0, 0, 1) is not exact in time32[s]"),
    ("ts", "date(2020, 1, 1)", T, "result: wanted timestamp[us], got date datetime.date(2020, 1, 1)"),
    ("ts", "datetime(2020, 1, 1, tzinfo=UTC)", T, "result: wanted timestamp[us], got datetime "
     "datetime.datetime(2020, 1, 1, 0, 0, tzinfo=datetime.timezone.utc) with a time zone"),
    ("tstz", "datetime(2020, 1, 1)", T,
     "result: wanted timestamp[us, UTC], got datetime datetime.datetime(2020, 1, 1, 0, 0) without a time zone"),
    ("ts_s", "datetime(2020, 1, 1, 0, 0, 0, 5)", V,
     "result: datetime.datetime(2020, 1, 1, 0, 0, 0, 5) is not exact in timestamp[s]"),
    ("ts_ns", "datetime(9999, 1, 1)", O, "result: wanted timestamp[ns], got datetime datetime.datetime(9999, 1, 1, 0, 0)"),
    ("ts", "Stamp(2020, 1, 1)", V, "result: Stamp(2020, 1, 1, 0, 0) is not exact in timestamp[us]"),
    ("duration", "5", T, "result: wanted duration[us], got int 5"),
    ("duration_ms", "timedelta(microseconds=1)", V, "result: datetime.timedelta(microseconds=1) is not exact in duration[ms]"),
    ("duration", "timedelta.max", O, None),
    ("half", "70000.0", O, "result: wanted float16, got float 70000.0"),
    ("half", "2049", V, "result: 2049 is not exact in float16"),
    ("half", "True", T, "result: wanted float16, got bool True"),
    ("decimal", "Decimal('1.001')", V, "result: Decimal('1.001') is not exact in decimal128(5, 2)"),
    ("decimal", "Decimal('1000')", O, "result: wanted decimal128(5, 2), got Decimal Decimal('1000')"),
    ("decimal", "Decimal('1E+9999999')", O, "result: wanted decimal128(5, 2), got Decimal Decimal('1E+9999999')"),
    ("decimal", "Decimal('1E-9999999')", V, None),
    ("decimal", "Decimal('NaN')", V, "result: wanted decimal128(5, 2), got Decimal Decimal('NaN')"),
    ("decimal", "Decimal('sNaN')", V, "result: wanted decimal128(5, 2), got Decimal Decimal('sNaN')"),
    ("decimal", "inf", V, "result: wanted decimal128(5, 2), got float inf"),
    ("decimal", "0.125", V, "result: 0.125 is not exact in decimal128(5, 2)"),
    ("decimal", "10**5000", O, None),
    ("decimal", "True", T, "result: wanted decimal128(5, 2), got bool True"),
    ("decimal", "'1.5'", T, "result: wanted decimal128(5, 2), got str '1.5'"),
    ("tens", "Decimal(50)", V, "result: Decimal('50') is not exact in decimal128(3, -2)"),
    ("udf_decimal", "Decimal('1E+5000')", O, None),
    ("udf_decimal", "'1'", T, "result: wanted utf8 as arrowudf.decimal, got str '1'"),
    ("json", "nan", V, None),
    ("json", "None", T, "result: wanted utf8 as arrowudf.json, got None"),
    ("json", "Loop", V, "result: wanted utf8 as arrowudf.json, got list [[...]] (Circular reference detected)"),
    ("json", "{'a': {1}}", T,
     "result: wanted utf8 as arrowudf.json, got dict {'a': {1}} (Object of type set is not JSON serializable)"),
    ("json", "{'a': '\\ud800'}", V, "result: wanted utf8 as arrowudf.json, got dict {'a': '\\ud800'} with a lone surrogate"),
    ("uuid", "'00010203-0405-0607-0809-0a0b0c0d0e0f'", T, None),
    ("uuid", "b'123'", V, "result: wanted fixed_size_binary[16] as arrow.uuid, got bytes b'123' of 3 bytes"),
    ("fixed", "b'abc'", V, "result: wanted fixed_size_binary[2], got bytes b'abc' of 3 bytes"),
    ("fixed", "'ab'", T, "result: wanted fixed_size_binary[2], got str 'ab'"),
    ("months", "Interval(1, 1)", V,
     "result: Interval(months=1, days=1, nanoseconds=0) is not exact in month_interval"),
    ("days", "Interval(0, 0, 5)", V, None),
    ("interval", "5", T, "result: wanted month_day_nano_interval, got int 5"),
    ("interval", "Interval(2**31)", O, None),
    ("interval", "(1, 2)", T, "result: wanted month_day_nano_interval, got tuple (1, 2)"),
    ("interval", "(1, 2, 0.5)", T, "result: wanted month_day_nano_interval, got tuple (1, 2, 0.5)"),
    ("text", "'a\\ud800'", V, "result: wanted large_utf8, got str 'a\\ud800' with a lone surrogate"),
    ("ints", "'ab'", T, "result: wanted list<int64>, got str 'ab'"),
    ("ints", "b'ab'", T, "result: wanted list<int64>, got bytes b'ab'"),
    ("ints", "bytearray(b'ab')", T, "result: wanted list<int64>, got bytearray bytearray(b'ab')"),
    ("ints", "{1: 2}", T, "result: wanted list<int64>, got dict {1: 2}"),
    ("ints", "{1}", T, "result: wanted list<int64>, got set {1}"),
    ("ints", "Bad()", T, "result: wanted list<int64>, got Bad Bad()"),
    ("ints", "range(3)", T, "result: wanted list<int64>, got range range(0, 3)"),
    ("ints", "[1, 'x']", T, "result: wanted int64 at [1], got str 'x'"),
    ("ints", "[1, 2**63]", O, "result: wanted int64 at [1], got int 9223372036854775808"),
    ("ints", "array.array('d', [1.0])", T, "result: wanted int64 at [0], got float 1.0"),
    ("ints", "[Bad()]", T, "result: wanted int64 at [0], got Bad Bad()"),
    ("bytes", "[2**31]", O, "result: wanted int32 at [0], got int 2147483648"),
    ("pair", "[1]", V, "result: wanted fixed_size_list<int32>[2], got list [1] of 1 items"),
    ("exact", "[1, None]", T, "result: wanted int32 at [1], got None"),
    ("decimals", "[Decimal('0.001')]", V, "result: Decimal('0.001') is not exact in decimal128(5, 2) at [0]"),
    ("struct", "{'a': 1, 'c': 2}", V,
     "result: wanted struct<a int32, b utf8>, got dict {'a': 1, 'c': 2} with the unknown member 'c'"),
    ("struct", "{'a': 'x'}", T, "result: wanted int32 at .a, got str 'x'"),
    ("struct", "{1: 'x'}", V, "result: wanted struct<a int32, b utf8>, got dict {1: 'x'} with the unknown member 1"),
    ("struct", "(1, 'x')", T, "result: wanted struct<a int32, b utf8>, got tuple (1, 'x')"),
    ("struct", "[1, 'x']", T, "result: wanted struct<a int32, b utf8>, got list [1, 'x']"),
    ("struct", "More(1)", V, None),
    ("struct", "Data(0.5)", T, "result: wanted int32 at .a, got float 0.5"),
    ("struct", "{'a': 2**31, 'b': 'x'}", O, "result: wanted int32 at .a, got int 2147483648"),
    ("struct", "{'a': 1, 'b': '\\ud800'}", V, "result: wanted utf8 at .b, got str '\\ud800' with a lone surrogate"),
    ("strict", "{'b': 'x'}", V, "result: wanted struct<a int32, b utf8>, got dict {'b': 'x'} without the member a"),
    ("strict", "{'a': None, 'b': 'x'}", T, "result: wanted int32 at .a, got None"),
    ("nested", "{'a': [None, {'odd name': [1, 'x']}]}", T, "result: wanted int32 at .a[1]['odd name'][1], got str 'x'"),
    ("nested", "{'b': 5}", T, "result: wanted date32 at .b, got int 5"),
    ("map", "{'a': 'x'}", T, "result: wanted int32 at ['a'], got str 'x'"),
    ("map", "{5: 1}", T, "result: wanted utf8 at a key, got int 5"),
    ("map", "{None: 1}", T, "result: wanted utf8 at a key, got None"),
    ("map", "['ab']", T, "result: wanted a pair at [0], got str 'ab'"),
    ("map", "[('a', 1, 2)]", T, "result: wanted a pair at [0], got tuple ('a', 1, 2)"),
    ("map", "5", T, "result: wanted map<utf8, int32>, got int 5"),
    ("by_date", "{date(2020, 1, 1): [1, True]}", T,
     "result: wanted float64 at [datetime.date(2020, 1, 1)][1], got bool True"),
    ("nothing", "0", T, "result: wanted null, got int 0"),
]  # fmt: skip
TAKEN = [
    ("date", "MyDate(1970, 1, 2)", 1),
    ("date64", "date(1970, 1, 2)", 86_400_000),
    ("time_ns", "time(0, 0, 0, 1)", 1000),
    ("ts_ns", "Stamp(1970, 1, 1)", 7),
    ("tstz", "datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))", 0),
    ("half", "0.1", 0.0999755859375),
    ("half", "3", 3.0),
    ("decimal", "7", "7.00"),
    ("decimal", "1.25", "1.25"),
    ("decimal", "-0.0", "0.00"),
    ("decimal", "Index()", "5.00"),
    ("tens", "12300", "1.23E+4"),
    ("udf_decimal", "Decimal('1E+5')", "100000"),
    ("udf_decimal", "Decimal('NaN')", "NaN"),
    ("udf_decimal", "5", "5"),
    ("udf_decimal", "0.1", "0.1"),
    ("json", "[1, None, 'Zoë', {'a': 0.5}, (1,)]", '[1, null, "Zoë", {"a": 0.5}, [1]]'),
    ("json", "False", "false"),
    ("uuid", "b'0123456789abcdef'", b"0123456789abcdef"),
    ("fixed", "bytearray(b'ab')", b"ab"),
    ("months", "(5, 0, 0)", (5,)),
    ("days", "timedelta(1, 2, 3000)", (1, 2003)),
    ("interval", "timedelta(-1, 2, 3)", (0, -1, 2_000_003_000)),
    ("interval", "(True, 2, 3)", (1, 2, 3)),
    ("ints", "(1, 2)", [1, 2]),
    ("ints", "array.array('i', [1, 2])", [1, 2]),
    ("ints", "collections.deque([1, None])", [1, None]),
    ("ints", "ndarray(1, Index())", [1, 5]),
    ("ints", "MyList([1, True])", [1, 1]),
    ("ints", "[Index(), None]", [5, None]),
    ("pair", "(1, 2)", [1, 2]),
    ("decimals", "[1, 0.5, None]", ["1.00", "0.50", None]),
    ("struct", "{'a': 1}", (1, None)),
    ("struct", "{}", (None, None)),
    ("struct", "{'b': 'x', 'a': Index()}", (5, "x")),
    ("struct", "Data(1)", (1, "x")),
    ("struct", "Named(1)", (1, "x")),
    ("struct", "MyDict(a=1)", (1, None)),
    ("struct", "collections.OrderedDict(b='y', a=2)", (2, "y")),
    ("map", "[('a', 1), ['b', None]]", [("a", 1), ("b", None)]),
    ("map", "{}", []),
    ("by_date", "{date(1970, 1, 2): (1, 2.5)}", [(1, [1.0, 2.5])]),
]


class Wrong(WorkerCase):
    SOURCE = SOURCE % TYPES

    def test_refused(self):
        for name, source, error_class, text in REFUSED:
            good = GOOD.get(name)
            places = ((1, 0), (2, 1), (20, 17)) if good else ((1, 0),)
            for rows, at in places:
                texts = [good] * at + [source] + [good] * (rows - at - 1)
                error = self.gate.call("to_" + name, texts, block=8).error
                self.assertEqual((error.row, error.kind, error.name), (at, 2, error_class), (name, source, error))
                if text is not None:
                    self.assertEqual(error.text, text)
                self.assertTrue(error.text.startswith("result: "), error)
            if good:
                kept = self.gate.call("to_" + name, [good, source, good], flags=KEEP).segments[0]
                self.assertEqual(kept.texts, [None, f"{error_class}: {error.text}", None], (name, source))
                alone = self.told(name, self.gate.call("to_" + name, [good]).values)
                self.assertEqual(self.told(name, kept.values), [*alone, None, *alone], (name, source))

    def test_taken(self):
        for name, source, wanted in TAKEN:
            for rows in (1, 3):
                got = self.gate.call("to_" + name, [source] * rows).values
                self.assertEqual(repr(self.told(name, got)), repr(self.told(name, [wanted] * rows)), (name, source))
            got = self.gate.call("nullable_" + name, [source, "None", source]).values
            wanted = [wanted, None, wanted]
            self.assertEqual(repr(self.told(name, got)), repr(self.told(name, wanted)), (name, source))

    def test_a_value_does_not_depend_on_the_other_rows(self):
        for name, source, _ in TAKEN:
            alone = self.gate.call("nullable_" + name, [source]).values
            for other in (GOOD.get(name, "None"), "None"):
                got = self.gate.call("nullable_" + name, [other, source]).values
                self.assertEqual(self.told(name, got[1:]), self.told(name, alone), (name, source, other))

    def told(self, name, values):
        if name in ("decimal", "udf_decimal", "tens"):
            return [repr(decimal.Decimal(value).normalize()) if isinstance(value, str) else value for value in values]
        if name == "decimals":
            return [value and [item and self.told("decimal", [item]) for item in value] for value in values]
        return values

    def test_good_ones(self):
        for name, source in GOOD.items():
            values = self.gate.call("nullable_" + name, [source] * 20 + ["None"] + [source], block=8).values
            self.assertEqual(values[20], None)
            self.assertEqual(values[21], values[0])
            self.assertIsNotNone(values[0])

    def test_the_smallest_row_wins(self):
        for name, bad in (("decimals", "[Decimal(1000)]"), ("date", "5"), ("struct", "{'a': 2**40, 'b': ''}")):
            error = self.gate.call("to_" + name, [GOOD[name]] * 3 + [bad] + [GOOD[name]] * 20 + ["1/0"], block=8).error
            self.assertEqual((error.row, error.kind), (3, 2), error)


if __name__ == "__main__":
    unittest.main()
