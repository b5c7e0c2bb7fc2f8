"""Every function of the files beside this one: what is sent, and the values that come back."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import dataclass
from decimal import Decimal as D

import pyarrow as pa

JSON, DECIMAL = b"arrowudf.json", b"arrowudf.decimal"


@dataclass
class Case:
    """A call of one batch. Of a table function the answer has (row, value) pairs; headers: of the request."""

    function: str
    columns: list
    answer: list
    headers: tuple = ()


def ints(*values: int | None, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.int32())


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.utf8())


def rows(count: int) -> list:
    """No columns, some rows."""
    return [count]


def typed(kind: pa.DataType, *values: object) -> pa.Array:
    return pa.array(values, kind)


def variants(*values: str | None) -> pa.Array:
    return pa.array([None if value is None else value.encode() for value in values], pa.large_binary())


def batch_of(columns: list) -> pa.RecordBatch:
    if isinstance(columns[0], int):
        return pa.RecordBatch.from_arrays([pa.nulls(columns[0])], names=["rows"]).select([])
    return pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])


DAY, NOON = dt.date(2023, 6, 1), dt.datetime(2023, 6, 1, 12)
MOMENT = dt.datetime(2023, 6, 1, 1, 2, 3, 456789)
LONG = D("12345678901234567890.1234567890")
ARROW_SCALARS = [
    (pa.bool_(), True),
    (pa.int8(), 1),
    (pa.int16(), 2),
    (pa.int32(), 3),
    (pa.int64(), 4),
    (pa.uint8(), 5),
    (pa.uint16(), 6),
    (pa.uint32(), 7),
    (pa.uint64(), 8),
    (pa.float32(), 9.0),
    (pa.float64(), 10.0),
    (pa.utf8(), str(LONG)),
    (pa.date32(), DAY),
    (pa.time64("us"), MOMENT.time()),
    (pa.timestamp("us"), MOMENT),
    (pa.month_day_nano_interval(), (1, 2, 3)),
    (pa.utf8(), "string"),
    (pa.large_utf8(), "large_string"),
    (pa.binary(), b"binary"),
    (pa.large_binary(), b"large_binary"),
    (pa.utf8(), '{"key": 1}'),
]
ARROW_NAMES = [
    *("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"),
    *("decimal", "date32", "time64", "timestamp", "interval", "string", "large_string", "binary", "large_binary"),
    "json",
]
PAIR = pa.struct([("a", pa.int32()), ("b", pa.utf8())])
ALL = {name: value for name, (_, value) in zip(ARROW_NAMES, ARROW_SCALARS)}
NONE = dict.fromkeys(ARROW_NAMES)
MORE = {"list": [1], "struct": {"a": 1, "b": "string"}}
PACKET = bytes(12) + struct.pack("!4B4BHH", 10, 0, 0, 1, 192, 168, 1, 9, 443, 8080) + bytes(4)

ARROW = [
    Case("arrow_example.int_42", rows(3), [42] * 3),
    Case("arrow_example.sleep", [ints(0, 0)], [0, 0]),
    Case("arrow_example.gcd", [ints(12, 7, 0), ints(18, 21, 5)], [6, 7, 5]),
    Case("arrow_example.gcd3", [ints(12, 8), ints(18, 4), ints(27, 6)], [3, 2]),
    Case(
        "arrow_example.extract_tcp_info",
        [typed(pa.binary(), PACKET)],
        [{"src_addr": "10.0.0.1", "dst_addr": "192.168.1.9", "src_port": 443, "dst_port": 8080}],
    ),
    Case("arrow_example.range", [ints(2, None, 0, 3)], [(0, 0), (0, 1), (3, 0), (3, 1), (3, 2)]),
    Case("arrow_example.series", [ints(3, 1)], [(0, 0), (0, 1), (0, 2), (1, 0)]),
    Case(
        "arrow_example.split",
        [texts("to be or", "not")],
        [(0, [("", "to"), ("", 2)]), (0, [("", "be"), ("", 2)]), (0, [("", "or"), ("", 2)]), (1, [("", "not"), ("", 3)])],
    ),
    Case("arrow_example.hex_to_dec", [texts("ff", None, "", " 1" + "0" * 20)], ["255", None, None, str(16**20)]),
    Case("arrow_example.float_to_decimal", [typed(pa.float64(), 0.5, 1e20)], ["0.5", "100000000000000000000"]),
    Case("arrow_example.decimal_add", [texts("0.1", "1e3"), texts("0.2", "1")], ["0.3", "1001"]),
    Case(
        "arrow_example.array_access",
        [pa.array([["a", "b"], ["a"], []], pa.list_(pa.utf8())), ints(2, 2, 0)],
        ["b", None, None],
    ),
    Case("arrow_example.json_array_access", [texts('[1,{"a":null}]', "[]", None), ints(1, 0, 0)], ['{"a": null}', None, None]),
    Case("arrow_example.json_concat", [pa.array([["1", '{"a":[]}', None], []], pa.list_(pa.utf8()))], ['[1, {"a": []}, null]', None]),
    Case("arrow_example.json_array_identity", [pa.array([['"x"', "2"], [], None], pa.list_(pa.utf8()))], [['"x"', "2"], [], None]),
    Case("arrow_example.return_all", [typed(kind, None, value) for kind, value in ARROW_SCALARS], [NONE, ALL]),
    Case(
        "arrow_example.text_embedding",
        [texts("one", "other")],
        [typed(pa.float32(), 0.1, 0.2).to_pylist(), typed(pa.float32(), 0.3, 0.4).to_pylist()],
    ),
    Case("arrow_example.external_api", [ints(*range(9))], list(range(9))),
    Case("arrow_example.external_batch", [texts("abc", "")], [[3.0], [0.0]]),
    Case(
        "arrow_suite.add",  # the suite sends 64 bits to INT
        [ints(*range(64), kind=pa.int64()), ints(*range(64), kind=pa.int64())],
        list(range(0, 128, 2)),
    ),
    Case("arrow_suite.wait", [ints(*range(64), kind=pa.int64())], list(range(64))),
    Case("arrow_suite.wait_concurrent", [ints(*range(64), kind=pa.int64())], list(range(64))),
    Case(
        "arrow_suite.return_all",
        [
            pa.nulls(2),
            *[typed(kind, None, value) for kind, value in ARROW_SCALARS],
            typed(pa.list_(pa.int32()), None, [1]),
            typed(PAIR, None, MORE["struct"]),
        ],
        [{"null": None, **NONE, "list": None, "struct": None}, {"null": None, **ALL, **MORE}],
    ),
    Case("arrow_suite.remembered", [ints(3, 3, 4, kind=pa.int64())], [9, 9, 16]),
    Case("arrow_suite.wrapped", [ints(3, kind=pa.int64()), ints(1, kind=pa.int64())], [2]),
    Case("arrow_suite.Scaled", [ints(3, kind=pa.int64())], [9]),
    Case(
        "arrow_suite.nested_json",
        [pa.array([{"a": "[1]", "b": ["1.5", "2"]}], pa.struct([("a", pa.utf8()), ("b", pa.list_(pa.utf8()))]))],
        [{"a": '{"was": [1]}', "b": ["3.0", "4"]}],
    ),
    Case("arrow_suite.by_objects", [texts('{"k":1}'), texts("1.50")], ['[{"k": 1}, "1.50"]']),
    Case(
        "arrow_suite.by_arrow",
        [pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.utf8(), pa.int64()))],
        [{"keys": ["a", "b"], "total": 3}, {"keys": [], "total": 0}],
    ),
]  # fmt: skip

DATABEND_SCALARS = [
    (pa.bool_(), True),
    (pa.int8(), 1),
    (pa.int16(), 2),
    (pa.int32(), 3),
    (pa.int64(), 4),
    (pa.uint8(), 5),
    (pa.uint16(), 6),
    (pa.uint32(), 7),
    (pa.uint64(), 8),
    (pa.float32(), 0.5),
    (pa.float64(), 0.1),
    (pa.date32(), DAY),
    (pa.timestamp("us"), MOMENT),
    (pa.large_utf8(), "text"),
    (pa.large_binary(), b'{"key": [1]}'),
]
TUPLE_NAMES = [str(number) for number in range(1, 16)]
BUNDLE = dict(zip(TUPLE_NAMES, [value for _, value in DATABEND_SCALARS]))
D28 = D(1).scaleb(-28)

DATABEND = [
    Case(
        "databend_example.add_signed",
        [ints(1, kind=pa.int8()), ints(2, kind=pa.int16()), ints(3), ints(2**62, kind=pa.int64())],
        [2**62 + 6],
    ),
    Case(
        "databend_example.add_unsigned",
        [ints(1, kind=pa.uint8()), ints(2, kind=pa.uint16()), ints(3, kind=pa.uint32()), ints(2**63, kind=pa.uint64())],
        [2**63 + 6],
    ),
    Case("databend_example.add_float", [typed(pa.float32(), 0.5), typed(pa.float64(), 0.1)], [0.6]),
    Case(
        "databend_example.bool_select",
        [typed(pa.bool_(), True, False), ints(1, 1, kind=pa.int64()), ints(2, 2, kind=pa.int64())],
        [1, 2],
    ),
    Case("databend_example.gcd", [ints(12, None, 9), ints(18, 1, None)], [6, None, None]),
    Case("databend_example.gcd_batch", [ints(12, None, 9), ints(18, 1, 6)], [6, None, 3]),
    Case("databend_example.split_and_join", [texts("a,b"), texts(","), texts(" & ")], ["a & b"]),
    Case("databend_example.binary_reverse", [typed(pa.binary(), b"abc", b"")], [b"cba", b""]),
    Case("databend_example.hex_to_dec", [texts("ff", "1" + "0" * 14)], [D(255), D(16**14)]),
    Case(
        "databend_example.decimal_div",
        [typed(pa.decimal128(36, 18), D(1), D("0.5")), typed(pa.decimal128(36, 18), D(8), D(4))],
        [D("0.125").quantize(D28), D("0.125").quantize(D28)],
    ),
    Case("databend_example.add_days_py", [typed(pa.date32(), DAY), ints(-1)], [dt.date(2023, 5, 31)]),
    Case("databend_example.add_hours_py", [typed(pa.timestamp("us"), NOON), ints(13)], [dt.datetime(2023, 6, 2, 1)]),
    Case(
        "databend_example.array_access",
        [pa.array([["a", "b"], ["a"]], pa.list_(pa.large_utf8())), ints(2, 0)],
        ["b", None],
    ),
    Case(
        "databend_example.array_index_of",
        [pa.array([[5, None, 7], [1], None], pa.list_(pa.int64())), ints(7, 2, 1, kind=pa.int64())],
        [3, 0, 0],
    ),
    Case(
        "databend_example.map_access",
        [pa.array([[("k", "v")], []], pa.map_(pa.large_utf8(), pa.large_utf8())), texts("k", "k")],
        ["v", None],
    ),
    Case("databend_example.json_access", [variants('{"a":[1.5,null]}', '{"a":null}'), texts("a", "a")], [b"[1.5, null]", None]),
    Case("databend_example.json_concat", [pa.array([[b"1", b'"x"']], pa.list_(pa.large_binary()))], [b'[1, "x"]']),
    Case(
        "databend_example.tuple_access",
        [
            pa.array(
                [{"1": [b"1", None], "2": 7, "3": "x"}],
                pa.struct([("1", pa.list_(pa.large_binary())), ("2", pa.int32()), ("3", pa.large_utf8())]),
            ),
            ints(1),
            ints(4),
        ],
        [{"1": b"[1, null]", "2": None}],
    ),
    Case(
        "databend_example.return_all",
        [typed(kind, value, None) for kind, value in DATABEND_SCALARS],
        [BUNDLE, dict.fromkeys(TUPLE_NAMES)],
    ),
    Case(
        "databend_example.return_all_arrays",
        [typed(pa.list_(kind), [value, value], []) for kind, value in DATABEND_SCALARS],
        [{name: [value, value] for name, value in BUNDLE.items()}, {name: [] for name in TUPLE_NAMES}],
    ),
    Case("databend_example.return_all_non_nullable", [typed(kind, value) for kind, value in DATABEND_SCALARS], [BUNDLE]),
    Case("databend_example.wait", [ints(*range(8))], list(range(8))),
    Case("databend_example.wait_concurrent", [ints(*range(64))], list(range(64))),
    Case("databend_types.negate_bool", [typed(pa.bool_(), True, False)], [False, True]),
    Case("databend_types.double_tinyint", [ints(10, kind=pa.int8())], [20]),
    Case("databend_types.square_int", [ints(5)], [25]),
    Case("databend_types.increment_bigint", [ints(100, kind=pa.int64())], [101]),
    Case("databend_types.half_float", [typed(pa.float32(), 10.0)], [5.0]),
    Case("databend_types.double_double", [typed(pa.float64(), 2.5)], [5.0]),
    Case("databend_types.upper_varchar", [texts("hello")], ["HELLO"]),
    Case("databend_types.reverse_binary", [typed(pa.binary(), b"abc")], [b"cba"]),
    Case("databend_types.scale_decimal", [typed(pa.decimal128(10, 2), D("10.00"))], [D("15.00")]),
    Case("databend_types.next_day", [typed(pa.date32(), dt.date(2024, 1, 1))], [dt.date(2024, 1, 2)]),
    Case("databend_types.add_hour", [typed(pa.timestamp("us"), NOON)], [dt.datetime(2023, 6, 1, 13)]),
    Case("databend_types.wrap_variant", [variants('{"a":1}', "[2]")], [b'{"wrapped": {"a": 1}}', b'{"value": [2]}']),
    Case("databend_types.double_array", [typed(pa.list_(pa.int32()), [1, 2, 3])], [[2, 4, 6]]),
    Case(
        "databend_types.double_map_values",
        [pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.large_utf8(), pa.int32()))],
        [[("a", 2), ("b", 4)]],
    ),
    Case("databend_types.nullable_double", [ints(5, None)], [10, None]),
    Case("databend_types.nullable_or_zero", [ints(5, None)], [10, 0]),
    Case("databend_types.add_ints", [ints(1, 2, 3), ints(4, 5, 6)], [5, 7, 9]),
    Case("databend_types.gcd", [ints(48, 56, None), ints(18, 21, 1)], [6, 7, None]),
    Case("databend_types.slow_scalar", [ints(1, 2)], [1, 2]),
    Case(
        "databend_types.expand_pairs",
        [ints(1, 2, 3), ints(10, 20, 30)],
        [(at, {"left": at + 1, "right": (at + 1) * 10, "sum": (at + 1) * 11}) for at in range(3)],
    ),
    Case(
        "databend_types.table_returns_record_batch",
        [ints(1, 2, 3)],
        [(at, {"value": at + 1, "square": (at + 1) ** 2}) for at in range(3)],
    ),
    Case("databend_types.table_of_one", [ints(7)], [(0, {"col0": 7})]),
    Case("databend_types.echo_table", [ints(1, None)], [(0, {"value": 1}), (1, {"value": None})]),
    Case(
        "databend_types.in_every_form",
        [ints(*range(5))],
        [
            (1, {"n": 1, "text": "a"}),
            *[(form, {"n": n, "text": text}) for form in (2, 3, 4) for n, text in ((1, "a"), (2, "b"))],
        ],
    ),
    Case("databend_types.cancellable_counter", [ints(2, 0)], [(0, {"value": 0}), (0, {"value": 1})]),
    Case("databend_types.cancellable_generator", [ints(1)], [(0, {"index": 0, "data": "row_0"})]),
    Case("databend_readme.add", [ints(1), ints(2)], [3]),
    Case("databend_readme.double", [ints(4, None)], [8, None]),
    Case("databend_readme.upper", [texts("a")], ["A"]),
    Case("databend_readme.add_days", [typed(pa.date32(), DAY), ints(30)], [dt.date(2023, 7, 1)]),
    Case("databend_readme.add_tax", [typed(pa.decimal128(10, 2), D("10.00"))], [D("11.00")]),
    Case("databend_readme.array_sum", [typed(pa.list_(pa.int32()), [1, 2], [])], [3, 0]),
    Case("databend_readme.map_sum", [pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.large_utf8(), pa.int32()))], [3]),
    Case(
        "databend_readme.tuple_format",
        [pa.array([{"1": 1, "2": "x"}], pa.struct([("1", pa.int32()), ("2", pa.large_utf8())]))],
        ["1: x"],
    ),
    Case(
        "databend_readme.normalize_vector",
        [typed(pa.list_(pa.float32(), 4), [3.0, 4.0, 0.0, 0.0], [0.0] * 4)],
        [typed(pa.float32(), 0.6, 0.8, 0.0, 0.0).to_pylist(), [0.0] * 4],
    ),
    Case("databend_readme.double_or_zero", [ints(3, None)], [6, 0]),
    Case("databend_readme.sum_non_null", [typed(pa.list_(pa.int32()), [1, None, 2])], [3]),
    Case("databend_readme.expand_pairs", [ints(4), ints(6)], [(0, {"left": 4, "right": 6, "sum": 10})]),
    Case("databend_readme.fetch_data", [ints(*range(40))], list(range(0, 80, 2))),
    Case("databend_readme.expensive_operation", [ints(2)], [4]),
    Case("databend_readme.api_call", [ints(*range(40))], list(range(40))),
    Case("databend_udf.builtin_echo", [texts("hello", None)], ["hello", None]),
    Case("databend_udf.builtin_healthy", rows(1), [1]),
]  # fmt: skip


def stage(parameter: str, path: str = "data/", name: str = "", kind: str = "External", **storage: str) -> dict:
    """An entry of the header that says where a stage lies."""
    info = {"stage_name": name or parameter, "stage_type": kind, "stage_params": {"storage": storage}}
    return {"param_name": parameter, "relative_path": path, "stage_info": info}
