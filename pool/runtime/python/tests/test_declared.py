"""Declarations of types that are not plain: hints, names, objects of pyarrow, names of other packages."""

import unittest

from case import WorkerCase

HINTS = """
import uuid
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Dict, List, NamedTuple, Optional, TypedDict
try:
    from typing import Annotated
except ImportError:
    pass
from udfgate import udf, Interval

class Point(TypedDict):
    x: float
    y: "float | None"

class Partial(TypedDict, total=False):
    x: int

@dataclass
class Order:
    id: int
    points: "list[Point]"
    at: "datetime"
    kind: ClassVar[int] = 3

class Pair(NamedTuple):
    first: str
    second: Optional[Order]

hints = [
    (Decimal, "decimal128(38, 18)"),
    (date, "date32"),
    (time, "time64[us]"),
    (datetime, "timestamp[us]"),
    (Annotated[datetime, "UTC"], "timestamp[us, UTC]"),
    ("Annotated[datetime, '+02:00'] | None", "timestamp[us, +02:00]?"),
    (Annotated[int, "whatever"], "int64"),
    (timedelta, "duration[us]"),
    (uuid.UUID, "fixed_size_binary[16] as arrow.uuid"),
    (Interval, "month_day_nano_interval"),
    (dict, "utf8 as arrowudf.json"),
    (Dict, "utf8 as arrowudf.json"),
    (Dict[str, Any], "utf8 as arrowudf.json"),
    (Dict[str, Optional[int]], "map<utf8, int64>"),
    ("dict[str, list[date]]", "map<utf8, list<date32>>"),
    (List[int], "list<int64>"),
    ("list[int]", "list<int64>"),
    ("list[int | None] | None", "list<int64>?"),
    (Optional[List[List[bytes]]], "list<list<binary>>?"),
    (Point, "struct<x float64, y float64>"),
    (Partial, "struct<x int64>"),
    (Order, "struct<id int64, points list<struct<x float64, y float64>>, at timestamp[us]>"),
    (Pair, "struct<first utf8, second struct<id int64, points list<struct<x float64, y float64>>, at timestamp[us]>>"),
]
for number, (hint, shown) in enumerate(hints):
    def body(x): return shown
    body.__annotations__ = {"x": hint, "return": hint}
    globals()["f%d" % number] = udf(name="f%d" % number)(body)

@udf(name="wanted", input_types=["INT"], result_type="VARCHAR")
def wanted(number):
    return hints[number][1]
"""

NAMES = {
    "DECIMAL": "decimal128(38, 18)",
    "numeric(5)": "decimal128(5, 0)",
    "DECIMAL(39, 2)": "decimal256(39, 2)",
    "decimal256(5, 2)": "decimal256(5, 2)",
    "date": "date32",
    "date32[day]": "date32",
    "date64[ms]": "date64",
    "TIME": "time64[us]",
    "TIME WITHOUT TIME ZONE": "time64[us]",
    "TIME(0)": "time32[s]",
    "TIME(9)": "time64[ns]",
    "time32[ms]": "time32[ms]",
    "Timestamp": "timestamp[us]",
    "TIMESTAMP(3)": "timestamp[ms]",
    "TIMESTAMP_NS": "timestamp[ns]",
    "TIMESTAMP WITH TIME ZONE": "timestamp[us, UTC]",
    "TIMESTAMP(9) WITH TIME ZONE": "timestamp[ns, UTC]",
    "TIMESTAMP WITHOUT TIME ZONE": "timestamp[us]",
    "timestamptz": "timestamp[us, UTC]",
    "DATETIME": "timestamp[us]",
    "timestamp[us, tz=America/New_York]": "timestamp[us, America/New_York]",
    "timestamp[ns, tz=-03:30]": "timestamp[ns, -03:30]",
    "duration[s]": "duration[s]",
    "INTERVAL": "month_day_nano_interval",
    "month_day_nano_interval": "month_day_nano_interval",
    "json": "utf8 as arrowudf.json",
    "JSONB": "utf8 as arrowudf.json",
    "UUID": "fixed_size_binary[16] as arrow.uuid",
    "extension<arrow.uuid>": "fixed_size_binary[16] as arrow.uuid",
    "extension<arrowudf.decimal<DecimalType>>": "utf8 as arrowudf.decimal",
    "fixed_size_binary[4]": "fixed_size_binary[4]",
    "halffloat": "float16",
    "large_string": "large_utf8",
    "VARCHAR[]": "list<utf8>",
    "INT[][]": "list<list<int32>>",
    "REAL[3]": "fixed_size_list<float32>[3]",
    "ARRAY(DOUBLE PRECISION)": "list<float64>",
    "array<decimal(4, 2)>": "list<decimal128(4, 2)>",
    "list<item: int8 not null>": "list<int8>",
    "list<int64>": "list<int64>",
    "large_list<item: string>": "large_list<utf8>",
    "fixed_size_list<item: float>[2]": "fixed_size_list<float32>[2]",
    "STRUCT<a INT, B: VARCHAR>": "struct<a int32, B utf8>",
    "struct(a int not null, b timestamp with time zone)": "struct<a int32, b timestamp[us, UTC]>",
    "ROW(a INT)": "struct<a int32>",
    'struct<"a b": int64, double: double>': "struct<a b int64, double float64>",
    "struct<>": "struct<>",
    "MAP(VARCHAR, INT[])": "map<utf8, list<int32>>",
    "map<string, int64>": "map<utf8, int64>",
    "NULL": "null",
    "INT8[]": "list<int64>",
    "TINYINT UNSIGNED[]": "list<uint8>",
}
REFUSED = {
    "dictionary<values=string, indices=int32, ordered=0>": "dictionary cannot be declared",
    "string_view": "string_view cannot be declared",
    "MONEY": "MONEY is not supported",
    "TIMETZ": "TIMETZ is not supported",
    "TIME WITH TIME ZONE": "a time of day with a zone is not supported",
    "ARRAY": "ARRAY needs the type of its items, as in ARRAY(INT)",
    "MAP(INT[], INT)": "list<int32> cannot be the key of a map",
    "MAP(VARCHAR)": "wanted ,, got )",
    "STRUCT<a INT, a INT>": "two members are called a",
    "STRUCT<a>": "wanted a type, got >",
    "DECIMAL(5, 9)": "scale 9 is beyond the precision 5",
    "DECIMAL(99, 1)": "precision 99 is not from 1 to 76",
    "TIMESTAMP(4)": "wanted a precision of 0, 3, 6 or 9 digits",
    "timestamp[us, tz=Nowhere/Land]": "the time zone Nowhere/Land is not known here",
    "timestamp[us, tz=../../etc/passwd]": "is not known here",
    "extension<geo.point>": "the extension type geo.point is not supported",
    "VARCHAR(3)[]": "a length or precision is not supported, write VARCHAR",
    "FLOAT[]": "write REAL or DOUBLE",
    "BIGINT[0]": "a fixed_size_list of 0 items, wanted at least 1",
    "STRUCT<a fixed_size_list<item: int64>[0]>": "a fixed_size_list of 0 items, wanted at least 1",
    "FIXED_SIZE_LIST(BIGINT)": "a fixed_size_list of 0 items, wanted at least 1",
    "INT EGER": "not understood from 'EGER' on",
    "DAT": "did you mean DATE?",
    "LIST(" * 40 + "INT" + ")" * 40: "nested more than 32 deep",
    "LIST(" * 4000: "nested too deep",
}
PYARROW = """
from udfgate import udf

def cls(name, base=object):
    return type(name, (base,), {"__module__": "pyarrow.lib"})

class Named(cls("DataType")):
    def __init__(self, text, **more):
        self.text = text
        vars(self).update(more)
    def __str__(self):
        return self.text

class Field:
    def __init__(self, name, type, nullable=True):
        self.name, self.type, self.nullable = name, type, nullable

ListType, LargeListType, FixedSizeListType, StructType, MapType, UuidType = [
    cls(name, Named) for name in ("ListType", "LargeListType", "FixedSizeListType", "StructType", "MapType", "UuidType")]
Named.__module__ = "pyarrow.lib"
Named.field = lambda self, at: self.fields[at]
string, number, real = Named("string"), Named("int8"), Named("float")
made = [
    (number, "int8"), (real, "float32"), (string, "utf8"),
    (Named("decimal128(10, 2)"), "decimal128(10, 2)"),
    (Named("timestamp[us, tz=UTC]"), "timestamp[us, UTC]"),
    (Named("date32[day]"), "date32"),
    (ListType("", value_field=Field("item", number, False)), "list<int8>"),
    (LargeListType("", value_field=Field("item", real)), "large_list<float32>"),
    (FixedSizeListType("", value_field=Field("item", real), list_size=4), "fixed_size_list<float32>[4]"),
    (StructType("", num_fields=2, fields=[Field("a: b", number), Field("c", ListType("", value_field=Field("", string)))]),
     "struct<a: b int8, c list<utf8>>"),
    (MapType("", key_type=string, item_type=real), "map<utf8, float32>"),
    (UuidType("", extension_name="arrow.uuid"), "fixed_size_binary[16] as arrow.uuid"),
]
for at, (given, shown) in enumerate(made):
    globals()["f%d" % at] = udf(name="f%d" % at, input_types=[given], result_type=given)(lambda x: x)

@udf(name="wanted", input_types=["INT"], result_type="VARCHAR")
def wanted(number):
    return made[number][1]
"""
ARROW_UDF = {
    "DECIMAL": "utf8 as arrowudf.decimal",
    "numeric(10, 2)": "decimal128(10, 2)",
    "DATE": "date32",
    "TIME WITHOUT TIME ZONE": "time64[us]",
    "timestamp": "timestamp[us]",
    "TIMESTAMP WITHOUT TIME ZONE": "timestamp[us]",
    "interval day to second": "month_day_nano_interval",
    "JSON": "utf8 as arrowudf.json",
    "LARGE_STRING": "large_utf8",
    "INT[]": "list<int32>",
    "DOUBLE PRECISION[][]": "list<list<float64>>",
    "STRUCT<a:INT, b:STRUCT<c:VARCHAR[], d: DECIMAL>>": "struct<a int32, b struct<c list<utf8>, d utf8>>",
    "NULL": "null",
}
DATABEND = {
    "DATE": "date32",
    "NULLABLE(DATETIME)": "timestamp[us]",
    "TIMESTAMP NOT NULL": "timestamp[us]",
    "VARIANT": "large_binary as Variant",
    "json": "large_binary as Variant",
    "DECIMAL(10, 2)": "decimal128(10, 2)",
    "DECIMAL(50, 2)": "decimal256(50, 2)",
    "ARRAY(TINYINT UNSIGNED)": "list<uint8>",
    "ARRAY(NULLABLE(VARCHAR)) NULL": "list<large_utf8>",
    "MAP(STRING, ARRAY(INT))": "map<large_utf8, list<int32>>",
    "TUPLE(STRING, TUPLE(INT, DATE NULL))": "struct<1 large_utf8, 2 struct<1 int32, 2 date32>>",
    "VECTOR(3)": "fixed_size_list<float32>[3] as Vector",
}


def shown(type_, depth=0):
    """The name of a type of LOADED, as messages have it."""
    if isinstance(type_, str):
        return type_
    name = type_["name"]
    inner = [(child["name"], shown(child["type"], 1)) for child in type_.get("children", ())]
    if "precision" in type_:
        name += f"({type_['precision']}, {type_['scale']})"
    elif "unit" in type_:
        name += f"[{type_['unit']}, {type_['zone']}]" if "zone" in type_ else f"[{type_['unit']}]"
    elif name == "struct":
        name += f"<{', '.join(f'{member} {text}' for member, text in inner)}>"
    elif inner:
        name += f"<{', '.join(text for _, text in inner)}>"
    if type_["name"] in ("fixed_size_list", "fixed_size_binary"):
        name += f"[{type_['size']}]"
    return f"{name} as {type_['extension']}" if "extension" in type_ and not depth else name


class Declared(WorkerCase):
    def table(self, names, package="udfgate"):
        given = list(names)
        gate = self.load(
            f"from {package} import udf\nfor at, name in enumerate({given!r}):\n"
            "    globals()['f%d' % at] = udf(name='f%d' % at, input_types=[name], result_type=name)(lambda x: x)\n"
        )
        for at, name in enumerate(given):
            function = gate.function(f"f{at}")
            self.assertEqual(shown(function["args"][0]["type"]), names[name], (package, name))
            self.assertEqual(shown(function["result"]["type"]), names[name], (package, name))
        return gate

    def test_names(self):
        gate = self.table(NAMES)
        given = list(NAMES)
        inner = gate.function(f"f{given.index('list<item: int8 not null>')}")["args"][0]["type"]["children"][0]
        self.assertEqual(inner, {"name": "item", "type": "int8", "nullable": False})

    def test_names_that_are_refused(self):
        for name, text in REFUSED.items():
            error = self.refused(f"from udfgate import udf\nf = udf(input_types=[{name!r}], result_type='INT')(abs)\n"
                                 .replace("(abs)", "(lambda x: 1)").replace("udf(in", "udf(name='f', in"))  # fmt: skip
            self.assertTrue(error["message"].startswith("served.f: parameter x: "), error["message"])
            self.assertIn(text, error["message"])

    def test_hints_and_pyarrow_objects(self):
        for source in (HINTS, PYARROW):
            gate = self.load(source)
            count = len(gate.loaded["functions"]) - 1
            self.assertGreater(count, 10)
            for at, wanted in enumerate(gate.call("wanted", list(range(count))).values):
                column = gate.function(f"f{at}")["args"][0]
                got = shown(column["type"]) + ("?" if column["nullable"] and source is HINTS else "")
                self.assertEqual(got, wanted)

    def test_members_that_may_be_missing(self):
        gate = self.load(HINTS)
        types = [f["args"][0]["type"] for f in gate.loaded["functions"] if f["name"] != "wanted"]
        point, partial = [next(t for t in types if shown(t) == f"struct<{text}>") for text in
                          ("x float64, y float64", "x int64")]  # fmt: skip
        self.assertEqual([member["nullable"] for member in point["children"]], [False, True])
        self.assertEqual([member["nullable"] for member in partial["children"]], [True])

    def test_future_annotations(self):
        gate = self.load("""
            from __future__ import annotations
            from datetime import date
            from typing import TypedDict
            class Row(TypedDict):
                when: date | None
                tags: list[str]
            def f(rows: list[Row | None], more: dict[str, int | None]) -> list[date] | None:
                return [row["when"] for row in rows]
            """)
        function = gate.function("f")
        self.assertEqual([shown(column["type"]) for column in (*function["args"], function["result"])],
                         ["list<struct<when date32, tags list<utf8>>>", "map<utf8, int64>", "list<date32>"])  # fmt: skip
        self.assertTrue(function["result"]["nullable"])
        rows = [[{"when": 1, "tags": []}, {"when": 5, "tags": ["x"]}]]
        self.assertEqual(gate.call("f", rows, [{}]).values, [[1, 5]])

    def refuses(self, source, text):
        error = self.refused("from udfgate import udf\n" + source)
        self.assertTrue(error["message"].startswith(text), error["message"])
        self.assertGreater(error["line"], 1)

    def test_hints_that_are_no_type(self):
        for hint, text in (
            ("list", "list needs the type of its items, as in list[int]"),
            ("tuple", "tuple is not supported; wanted int, float, bool, str, bytes, Decimal, date"),
            ("'set[int]'", "set[int] is not supported"),
            ("'dict[list[int], int]'", "dict[list[int], int]: list<int64> cannot be the key of a map"),
            ("'list[int | str]'", "a union of several types is not supported"),
        ):
            self.refuses(f"@udf\ndef f(x: {hint}) -> int: ...", f"served.f: parameter x: {text}")
        self.refuses(
            "import fractions\n@udf\ndef f(x: int) -> fractions.Fraction: ...", "served.f: result: Fraction is not"
        )

    def test_undecorated_functions_of_no_type(self):
        error = self.refused("def f(x: set) -> int: ...")
        self.assertIn("served.f: parameter x: set is not supported", error["message"])

    def test_a_hint_of_itself(self):
        error = self.refused("""
            from typing import List, TypedDict
            class Node(TypedDict):
                children: "List[Node]"
            def f(x: Node) -> int: ...
            """)
        self.assertIn("parameter x: member children of Node: ", error["message"])
        self.assertIn("nests more than 32 deep, or in itself", error["message"])

    def test_names_of_other_packages(self):
        self.table(ARROW_UDF, "arrow_udf")
        gate = self.table(DATABEND, "databend_udf")
        item = gate.function(f"f{list(DATABEND).index('ARRAY(TINYINT UNSIGNED)')}")["args"][0]["type"]["children"][0]
        self.assertFalse(item["nullable"])

    def test_classes_of_arrow_udf(self):
        gate = self.load("""
            from arrow_udf import udf, JsonType, DecimalType
            @udf(input_types=[JsonType(), DecimalType()], result_type=DecimalType())
            def f(x, y):
                return y + x["n"]
            """)
        self.assertEqual(gate.call("f", ['{"n": 2}', None][:1], ["0.50"]).values, ["2.50"])

    def test_a_served_file_that_hides_a_module(self):
        for name, kind in (("decimal", "DECIMAL"), ("json", "JSON"), ("uuid", "UUID")):
            gate = self.start()
            file = gate.write(f"from udfgate import udf\nf = udf(name='f', input_types=[{kind!r}], result_type='INT')(id)\n"
                              .replace("(id)", "(lambda x: 1)"), name)  # fmt: skip
            error = gate.load([{"name": name, "file": file}], [gate.folder.name])["error"]
            wanted = f"{name}.f: a served file called {name} hides Python's own {name}; rename it"
            self.assertEqual(error["message"], wanted)

    def test_views(self):
        gate = self.load("""
            import arrow_udf, databend_udf, udfgate
            text = "VARCHAR"
            a = arrow_udf.udf(["STRUCT<a:INT>"], text, name="a")(repr)
            d = databend_udf.udf(["TUPLE(INT, VARCHAR)"], text, name="d")(repr)
            u = udfgate.udf(name="u", input_types=["STRUCT<a INT>", "MAP(INT, INT)"], result_type=text)(
                lambda *x: repr(x))
            m = databend_udf.udf(["MAP(INT, DATE)"], text, name="m")(repr)
            back = databend_udf.udf(["INT"], "TUPLE(INT, VARCHAR)", name="back")(lambda x: (x, "t"))
            """)
        self.assertEqual(gate.call("a", [{"a": 1}]).values, ["{'a': 1}"])
        self.assertEqual(gate.function("d")["args"][0]["type"]["view"], "tuple")
        self.assertEqual(gate.call("d", [(1, "x")]).values, ["(1, 'x')"])
        self.assertEqual(gate.call("u", [{"a": 1}], [{2: 3}]).values, ["({'a': 1}, {2: 3})"])
        self.assertEqual(gate.call("m", [{2: 3}]).values, ["{2: datetime.date(1970, 1, 4)}"])
        self.assertEqual(gate.call("back", [5, 6]).values, [(5, "t"), (6, "t")])


if __name__ == "__main__":
    unittest.main()
