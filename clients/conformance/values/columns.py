"""Columns of every type, their values bit by bit, and what a body sees of them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from decimal import Decimal as D

import pyarrow as pa

PATTERNS = {
    "none": lambda at, count: False,
    "some": lambda at, count: at * 2654435761 % 97 < 40,
    "all": lambda at, count: True,
    "first": lambda at, count: at == 0,
    "last": lambda at, count: at == count - 1,
    "every third": lambda at, count: at % 3 == 0,
}
OFFSETS = (0, 1, 7, 63)
ROWS = 27

_INTS = {key: getattr(pa, key)() for key in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]}
_QUIET = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 6e-8, 65504.0, 1 / 3]
_WORDS = ["", "a", "ünï", "😀", "a\0b", "x" * 300, " ", "ABC", "nul\0", "日本語"]
_BLOBS = [b"", b"\0", b"\xff\xfe", b"a" * 300, bytes(range(256))]
_DAYS = [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
_SECONDS = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59),
    dt.datetime(2024, 7, 1, 19),
]
_MICROS = [*_SECONDS, dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1969, 12, 31, 23, 59, 59, 1)]
# Both sides of the hours that clocks of Berlin and Los Angeles skip and repeat.
_INSTANTS = [
    dt.datetime(2024, m, d, h, n)
    for m, d in ((3, 10), (3, 31), (10, 27), (11, 3))
    for h in (0, 1, 8, 9, 10)
    for n in (0, 59)
]
_SPANS = [0, 1, -1, 86_400, -86_399, 10**9, 86_399_999_999_913_600]


def _ints(kind: pa.DataType) -> list:
    bits, signed = kind.bit_width, not str(kind).startswith("u")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return [0, 1, least, most, most - 1, least + 1, 77]


def _decimals(precision: int, scale: int) -> list:
    whole = [0, 1, -1, 10**precision - 1, -(10**precision - 1), 10 ** (precision - 1), 120]
    return [D((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in whole]


def _table() -> dict:
    out = {"bool": (pa.bool_(), [True, False, True, True, False])}
    out.update({key: (kind, _ints(kind)) for key, kind in _INTS.items()})
    out["float16"] = (
        pa.float16(),
        [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 65504.0, 2.0**-24],
    )
    out["float32"] = (pa.float32(), [*_QUIET, 3.4028234663852886e38, 1e-45])
    out["float64"] = (pa.float64(), [*_QUIET, 1.7976931348623157e308, 5e-324])
    out["utf8"], out["large_utf8"] = (pa.utf8(), _WORDS), (pa.large_utf8(), _WORDS)
    out["binary"], out["large_binary"] = (pa.binary(), _BLOBS), (pa.large_binary(), _BLOBS)
    out["fixed_size_binary"] = (pa.binary(5), [b"abcde", b"\0\0\0\0\0", b"\xff\xfe\xfd\xfc\xfb"])
    out["null"] = (pa.null(), [None])
    for key, kind in {
        "decimal32": pa.decimal32(7, 2),
        "decimal64": pa.decimal64(16, 4),
        "decimal128": pa.decimal128(38, 10),
        "decimal128_whole": pa.decimal128(9, 0),
        "decimal128_hundreds": pa.decimal128(5, -2),
        "decimal256": pa.decimal256(76, 20),
    }.items():
        out[key] = (kind, _decimals(kind.precision, kind.scale))
    out.update(_moments())
    out.update(_nested())
    out["uuid"] = (
        pa.uuid(),
        [uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1), uuid.UUID("12345678-1234-5678-1234-567812345678")],
    )
    out["list_uuid"] = (pa.list_(pa.uuid()), [[], [b"0123456789abcdef", None]])
    out["struct_json"] = (
        pa.struct([("j", pa.utf8()), ("n", pa.int32())]),
        [{"j": '{"a": [1]}', "n": 1}, {"j": None, "n": 2}],
    )
    texts = [
        json.dumps(one, ensure_ascii=False)
        for one in ({"a": [1, 2.5, None]}, [], 0, "é", True, {"": {"x": "y"}}, 10**20)
    ]
    out["json"] = (pa.utf8(), texts)
    out["json_arrow"] = (pa.json_(), texts)
    return out


def _moments() -> dict:
    out = {"date32": (pa.date32(), _DAYS), "date64": (pa.date64(), _DAYS)}
    day = [dt.time(0), dt.time(23, 59, 59), dt.time(12, 30, 1)]
    out["time32_s"], out["time32_ms"] = (pa.time32("s"), day), (pa.time32("ms"), [*day, dt.time(1, 2, 3, 999000)])
    out["time64_us"], out["time64_ns"] = [
        (pa.time64(unit), [*day, dt.time(23, 59, 59, 999999)]) for unit in ("us", "ns")
    ]
    held = [dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11, 23, 47, 16, 854775), *_MICROS[5:], *_INSTANTS]
    for key, kind, values in (
        ("timestamp_s", pa.timestamp("s"), _SECONDS),
        ("timestamp_ms", pa.timestamp("ms"), _SECONDS),
        ("timestamp_us", pa.timestamp("us"), _MICROS),
        ("timestamp_ns", pa.timestamp("ns"), held),
        ("timestamp_utc", pa.timestamp("us", "UTC"), _MICROS),
        ("timestamp_pacific", pa.timestamp("us", "America/Los_Angeles"), [*_INSTANTS, *_MICROS[3:4]]),
        ("timestamp_offset", pa.timestamp("ms", "+05:30"), [*_INSTANTS, _SECONDS[0]]),
        ("timestamp_ns_berlin", pa.timestamp("ns", "Europe/Berlin"), _INSTANTS),
    ):
        out[key] = (kind, [one.replace(tzinfo=dt.timezone.utc) if kind.tz else one for one in values])
    out["duration_s"] = (pa.duration("s"), _SPANS[:6])
    out["duration_ms"] = (pa.duration("ms"), [*_SPANS])
    out["duration_us"] = (pa.duration("us"), [*_SPANS, (1 << 63) - 1, -(1 << 63) + 1])
    out["duration_ns"] = (pa.duration("ns"), [1000 * span for span in _SPANS[:6]])
    parts = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 30, -5), (2**31 - 1, -(2**31), 2**63 - 1), (0, 0, 0)]
    out["interval"] = (pa.month_day_nano_interval(), [pa.MonthDayNano(one) for one in parts])
    return out


def _nested() -> dict:
    pair = pa.struct([("a", pa.int64()), ("b", pa.utf8())])
    deep = pa.struct([("p", pa.struct([("q", pa.list_(pa.int32())), ("r", pa.date32())])), ("s", pa.decimal128(10, 2))])
    instant = dt.datetime(2024, 7, 1, 19, tzinfo=dt.timezone.utc)
    return {
        "list_int64": (pa.list_(pa.int64()), [[], [1], [None], [1, None, -(2**63)], list(range(50))]),
        "list_utf8": (pa.list_(pa.utf8()), [["a", None, "ü"], [], _WORDS, [""]]),
        "list_bool": (pa.list_(pa.bool_()), [[True, None, False], [], [False] * 9]),
        "list_null": (pa.list_(pa.null()), [[None], [], [None] * 3]),
        "list_float32": (pa.list_(pa.float32()), [[0.5, None], [], [-0.0, float("nan")]]),
        "list_decimal": (pa.list_(pa.decimal128(20, 3)), [[D("1.125"), None], [], [D("-0.001")]]),
        "list_timestamp": (pa.list_(pa.timestamp("us")), [_MICROS, [], [None]]),
        "list_list": (pa.list_(pa.list_(pa.int32())), [[[1], [], None], [], [[2, None], [3]]]),
        "list_struct": (pa.list_(pair), [[{"a": 1, "b": "x"}, None], [], [{"a": None, "b": None}]]),
        "list_map": (pa.list_(pa.map_(pa.utf8(), pa.int64())), [[[("k", 1), ("l", None)], None, []], []]),
        "large_list": (pa.large_list(pa.binary()), [_BLOBS, [], [None, b"\0"]]),
        "fixed_list": (pa.list_(pa.float32(), 3), [[1.0, None, 3.5], [0.0, -0.0, float("inf")]]),
        "fixed_list_utf8": (pa.list_(pa.utf8(), 2), [["a", None], ["", "ünï"]]),
        "fixed_fixed": (pa.list_(pa.list_(pa.int16(), 2), 2), [[[1, 2], [3, None]], [None, [5, 6]]]),
        "struct": (
            pa.struct([("a", pa.int64()), ("b", pa.utf8()), ("c", pa.bool_())]),
            [{"a": 1, "b": "x", "c": True}, {"a": None, "b": None, "c": None}, {"a": -(2**63), "b": "", "c": False}],
        ),
        "struct_deep": (
            deep,
            [
                {"p": {"q": [1, None], "r": _DAYS[2]}, "s": D("1.25")},
                {"p": None, "s": None},
                {"p": {"q": None, "r": None}, "s": D("-99999999.99")},
            ],
        ),
        "struct_one": (pa.struct([("only", pa.timestamp("us", "UTC"))]), [{"only": instant}, {"only": None}]),
        "map_utf8": (pa.map_(pa.utf8(), pa.int64()), [[("a", 1), ("b", None)], [], [("", 2**63 - 1)]]),
        "map_list": (pa.map_(pa.int32(), pa.list_(pa.utf8())), [[(1, ["x", None]), (-1, None)], [], [(0, [])]]),
        "map_date": (
            pa.map_(pa.date32(), pa.struct([("x", pa.float64())])),
            [[(_DAYS[4], {"x": 0.5})], [], [(_DAYS[0], None)]],
        ),
    }


TABLE = _table()


def column(key: str, pattern: str, offset: int, rows: int = ROWS) -> pa.Array:
    """Rows of a type, nulls as the pattern says, cut from a longer column."""
    kind, values = TABLE[key]
    many = list(itertools.islice(itertools.cycle(values), offset % len(values), offset % len(values) + rows))
    null = PATTERNS[pattern]
    many = [None if null(at, rows) else value for at, value in enumerate(many)]
    lead = list(itertools.islice(itertools.cycle([*values, None]), offset))
    return array(kind, lead + many + lead[:3]).slice(offset, rows)


def array(kind: pa.DataType, values: list) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        storage = pa.array([one.bytes if isinstance(one, uuid.UUID) else one for one in values], kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, storage)
    if kind == pa.list_(pa.uuid()):
        return pa.array(values, pa.list_(pa.binary(16))).cast(kind)
    return pa.array(values, kind)


def bits(array: pa.Array) -> list:
    """Each value to the bit: what is of a fixed width as its bytes, so that NaN is NaN and -0.0 is not 0.0."""
    kind, is_ = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return bits(array.storage)
    if is_.is_dictionary(kind):
        return bits(array.dictionary_decode())
    if is_.is_struct(kind):
        parts = [bits(array.field(at)) for at in range(kind.num_fields)]
        rows = list(zip(*parts)) if parts else [()] * len(array)
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist())]
    if is_.is_map(kind):
        pairs = list(zip(bits(array.keys), bits(array.items)))
        return _spread(array, pairs, array.offsets.to_pylist())
    if is_.is_fixed_size_list(kind):
        first, size = array.offset, kind.list_size
        return _spread(array, bits(array.values), [size * at for at in range(first, first + len(array) + 1)])
    if is_.is_list(kind) or is_.is_large_list(kind):
        return _spread(array, bits(array.values), array.offsets.to_pylist())
    if is_.is_string(kind) or is_.is_large_string(kind):
        return array.view(pa.large_binary() if is_.is_large_string(kind) else pa.binary()).to_pylist()
    if is_.is_boolean(kind) or is_.is_null(kind) or is_.is_binary(kind) or is_.is_large_binary(kind):
        return array.to_pylist()
    width = kind.bit_width // 8
    plain = pa.Array.from_buffers(pa.binary(width), len(array), array.buffers(), array.null_count, array.offset)
    return plain.to_pylist()


def _spread(array: pa.Array, items: list, offsets: list) -> list:
    valid = array.is_valid().to_pylist()
    return [items[offsets[at] : offsets[at + 1]] if valid[at] else None for at in range(len(array))]
