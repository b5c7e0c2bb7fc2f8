"""The forms in which clients send the same values: each gives the answer of the plain column, or is refused by name."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute
import pytest
from columns import PATTERNS, TABLE, array, bits, column
from served import Gateway, batch_of
from tally import TALLY

MODES = ("row", "list", "arrow")
ROWS = 41


def _dictionary(plain: pa.Array, index: pa.DataType) -> pa.Array:
    """A dictionary with words that no row has, one of them null."""
    encoded = plain.dictionary_encode()
    words = pa.concat_arrays([encoded.dictionary, pa.nulls(1, plain.type), encoded.dictionary])
    where = [
        None if one is None else one + (len(encoded.dictionary) + 1) * (at % 2)
        for at, one in enumerate(encoded.indices.to_pylist())
    ]
    return pa.DictionaryArray.from_arrays(pa.array(where, index), words)


def _runs(plain: pa.Array, width: pa.DataType) -> pa.Array:
    """Runs of one to three, cut from a longer column."""
    twice = plain.take(pa.array([at for at in range(len(plain)) for _ in range(1 + at % 3)]))
    ends, end = [], 0
    for at in range(len(plain)):
        ends.append(end := end + 1 + at % 3)
    whole = pa.RunEndEncodedArray.from_arrays(pa.array(ends, width), plain)
    assert len(whole) == len(twice)
    return whole


def _decoded(encoded: pa.Array) -> pa.Array:
    if isinstance(encoded, pa.RunEndEncodedArray):
        return pa.compute.run_end_decode(encoded)
    return encoded


INDICES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
WORDS = (
    "utf8",
    "int64",
    "float64",
    "bool",
    "decimal128",
    "timestamp_us",
    "binary",
    "fixed_size_binary",
    "date32",
    "large_utf8",
    "int16",
)
DICTIONARIES = [(key, index) for key in WORDS for index in (INDICES if key in ("utf8", "int64") else INDICES[2:3])]


def same_answer(same: Gateway, table: str, key: str, pairs: list, ipc=None) -> None:
    """Sends (plain, as it is sent) in one stream for each mode."""
    found = []
    for mode in MODES:
        schema, answers = same.exchange(f"same_{mode}_{key}", *[batch_of(sent) for _, sent in pairs], ipc=ipc)
        assert schema.field(0).type == TABLE[key][0]
        for at, ((plain, sent), answer) in enumerate(zip(pairs, answers)):
            answer.validate(full=True)
            found += TALLY.compare(table, f"{mode} {key} {sent.type} {at}", bits(plain), bits(answer.column(0)))
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize(("key", "index"), DICTIONARIES)
def test_dictionary(same: Gateway, key: str, index: pa.DataType) -> None:
    pairs = []
    for pattern in PATTERNS:
        for offset in (0, 7):
            sent = _dictionary(column(key, pattern, 0, ROWS), index).slice(offset)
            pairs.append((column(key, pattern, 0, ROWS).slice(offset), sent))
    same_answer(same, "dictionaries", key, pairs)


@pytest.mark.parametrize("key", ["utf8", "int64", "decimal128"])
def test_dictionary_changes(same: Gateway, key: str) -> None:
    """The dictionary grows by deltas, then is replaced, then is replaced by none of the words before."""
    kind, values = TABLE[key]
    words = [value for value in values if value == value][:6]
    dictionaries = [words[:2], words[:4], words[:6], words[4:], words[3:4], []]
    sent, plain = [], []
    for at, dictionary in enumerate(dictionaries):
        where = [None if not dictionary or n == 5 else (n + at) % len(dictionary) for n in range(9)]
        indices = pa.array(where, pa.int8())
        sent.append(pa.DictionaryArray.from_arrays(indices, pa.array(dictionary, kind)))
        plain.append(pa.array([None if one is None else dictionary[one] for one in where], kind))
    for deltas in (True, False):
        ipc = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
        same_answer(same, "dictionaries that change", key, list(zip(plain, sent)), ipc)


def test_dictionary_within(same: Gateway) -> None:
    """Dictionaries below structs, lists and maps, and one whose words are lists."""
    words = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1], pa.int32()), pa.array(["p", "q"]))
    plain = words.dictionary_decode()
    numbers = pa.array([1, 2, None, 4], pa.int64())
    flags = pa.array([True, None, False, True])
    names = ["a", "b", "c"]
    pairs = [tuple(pa.StructArray.from_arrays([numbers, text, flags], names) for text in (plain, words))]
    same_answer(same, "dictionaries within", "struct", pairs)
    offsets = pa.array([0, 2, 2, 4], pa.int32())
    pairs = [tuple(pa.ListArray.from_arrays(offsets, text) for text in (plain, words))]
    same_answer(same, "dictionaries within", "list_utf8", pairs)
    keys = pa.array(["k", "l", "m", "n"])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], pa.int8()), pa.array([5, None], pa.int64()))
    pairs = [tuple(pa.MapArray.from_arrays(offsets, keys, values) for values in (coded.dictionary_decode(), coded))]
    same_answer(same, "dictionaries within", "map_utf8", pairs)
    lists = pa.array([["x", None], [], None], pa.list_(pa.utf8()))
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 0], pa.int8()), lists)
    same_answer(same, "dictionaries within", "list_utf8", [(lists.take(coded.indices), coded)])


@pytest.mark.parametrize("key", ["utf8", "int64", "bool", "decimal128", "list_utf8", "struct", "timestamp_pacific"])
@pytest.mark.parametrize("width", [pa.int16(), pa.int32(), pa.int64()])
def test_runs(same: Gateway, key: str, width: pa.DataType) -> None:
    pairs = []
    for pattern in PATTERNS:
        plain = column(key, pattern, 0, ROWS)
        decoded = plain.take(pa.array([at for at in range(ROWS) for _ in range(1 + at % 3)]))
        sent = _runs(plain, width)
        pairs += [(decoded, sent), (decoded.slice(4, 30), sent.slice(4, 30)), (decoded.slice(0, 0), sent.slice(0, 0))]
    same_answer(same, "run ends", key, pairs)


VIEWS = {
    "utf8": [pa.string_view(), pa.large_utf8()],
    "large_utf8": [pa.string_view(), pa.utf8()],
    "binary": [pa.binary_view(), pa.large_binary()],
    "large_binary": [pa.binary_view(), pa.binary()],
    "list_int64": [
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.int32()),
    ],
    "list_utf8": [pa.list_(pa.string_view()), pa.large_list(pa.large_utf8()), pa.list_view(pa.utf8())],
    "list_list": [pa.large_list(pa.list_(pa.int32())), pa.list_view(pa.large_list_view(pa.int64()))],
    "large_list": [pa.list_(pa.binary()), pa.list_view(pa.binary_view())],
    "struct": [pa.struct([("a", pa.int64()), ("b", pa.string_view()), ("c", pa.bool_())])],
    "json": [pa.string_view(), pa.large_utf8(), pa.json_()],
}


@pytest.mark.parametrize(("key", "kind"), [(key, kind) for key, kinds in VIEWS.items() for kind in kinds])
def test_views_and_sizes(same: Gateway, key: str, kind: pa.DataType) -> None:
    pairs = []
    for pattern in PATTERNS:
        plain = column(key, pattern, 0, ROWS)
        if kind == pa.list_(pa.int32()):
            plain = pa.array([[7, None, -1], [], None, [2**31 - 1]] * 9, TABLE[key][0])
        sent = array(kind, plain.to_pylist())
        pairs += [(plain.slice(at), sent.slice(at)) for at in (0, 1, 7)]
    same_answer(same, "views, large and small", key, pairs)


def test_list_views_out_of_order(same: Gateway) -> None:
    """List views may share items, skip some, and lie in any order."""
    items = pa.array(list(range(10)), pa.int64())
    sent = pa.ListViewArray.from_arrays(
        pa.array([5, 0, 5, 9, 2], pa.int32()), pa.array([5, 3, 1, 0, 8], pa.int32()), items
    )
    plain = pa.array(sent.to_pylist(), pa.list_(pa.int64()))
    same_answer(same, "views, large and small", "list_int64", [(plain, sent), (plain.slice(1, 3), sent.slice(1, 3))])


INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("key", INTS)
@pytest.mark.parametrize("sent", INTS)
def test_integer_widths(same: Gateway, key: str, sent: str) -> None:
    """Within the range of both: taken. One beyond, in a row with a null before: an error that names the row."""
    kind, other = TABLE[key][0], TABLE[sent][0]
    least = max(min(TABLE[key][1]), min(TABLE[sent][1]))
    most = min(max(TABLE[key][1]), max(TABLE[sent][1]))
    values = [least, most, None, 0, 1, most - 1]
    same_answer(same, "integer widths", key, [(pa.array(values, kind), pa.array(values, other))])
    for beyond in (min(TABLE[sent][1]), max(TABLE[sent][1])):
        if not min(TABLE[key][1]) <= beyond <= max(TABLE[key][1]):
            with pytest.raises(pa.ArrowInvalid, match=rf"row 2: .*wanted {key}, got {beyond}\b"):
                same.column(f"same_row_{key}", pa.array([1, None, beyond], other))


@pytest.mark.parametrize(("key", "sent"), [("float64", "float32"), ("float64", "float16"), ("float32", "float16")])
def test_float_widths(same: Gateway, key: str, sent: str) -> None:
    pairs = [(column(sent, pattern, 0).cast(TABLE[key][0]), column(sent, pattern, 0)) for pattern in PATTERNS]
    same_answer(same, "float widths", key, pairs)


@pytest.mark.parametrize("key", list(TABLE))
def test_null_column(same: Gateway, key: str) -> None:
    """A client that knows of nulls alone sends a column of type null."""
    same_answer(same, "columns of nulls", key, [(column(key, "all", 0, 5), pa.nulls(5))])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("key", list(TABLE))
def test_compressed(same: Gateway, key: str, codec: str) -> None:
    ipc = pa.ipc.IpcWriteOptions(compression=codec)
    pairs = [(column(key, pattern, 1, rows),) * 2 for pattern in PATTERNS for rows in (0, 1, ROWS, 3000)]
    same_answer(same, f"compressed, {codec}", key, pairs, ipc)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_and_encoded(same: Gateway, codec: str) -> None:
    """Dictionaries, runs and views in bodies that are compressed; noise does not shrink and stays as it is."""
    ipc = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
    plain = column("utf8", "some", 0, 3000)
    pairs = [(plain, _dictionary(plain, pa.int16())), (plain, _dictionary(plain, pa.int16()))]
    same_answer(same, f"compressed, {codec}", "utf8", pairs, ipc)
    same_answer(same, f"compressed, {codec}", "utf8", [(plain, plain.cast(pa.string_view()))], ipc)
    runs = _runs(plain, pa.int32())
    same_answer(same, f"compressed, {codec}", "utf8", [(_decoded(runs), runs)], ipc)
    noise = pa.array([random.Random(at).randbytes(3000) for at in range(100)], pa.binary())
    same_answer(same, f"compressed, {codec}", "binary", [(noise, noise)], ipc)


REFUSED = [
    ("int64", pa.array(["1"]), "wanted int64, got utf8"),
    ("int64", pa.array([1.0]), "wanted int64, got float64"),
    ("int64", pa.array([True]), "wanted int64, got bool"),
    ("bool", pa.array([1], pa.int8()), "wanted bool, got int8"),
    ("float64", pa.array([1]), "wanted float64, got int64"),
    ("float32", pa.array([1.0]), "wanted float32, got float64"),
    ("utf8", pa.array([b"x"]), "wanted utf8, got binary"),
    ("binary", pa.array(["x"]), "wanted binary, got utf8"),
    ("utf8", pa.array([1]), "wanted utf8, got int64"),
    ("utf8", pa.array([1]).dictionary_encode(), "wanted utf8, got dictionary"),
    (
        "fixed_size_binary",
        pa.array([b"abcd"], pa.binary(4)),
        r"wanted fixed_size_binary\[5\], got fixed_size_binary\[4\]",
    ),
    ("decimal128", pa.array(["1"]), r"wanted decimal128\(38, 10\), got utf8"),
    ("decimal128", pa.array([1], pa.decimal128(38, 2)), r"wanted decimal128\(38, 10\), got decimal128\(38, 2\)"),
    ("decimal128", pa.array([1.0]), r"wanted decimal128\(38, 10\), got float64"),
    ("date32", pa.array([1], pa.int32()), "wanted date32, got int32"),
    ("date32", pa.array([1], pa.timestamp("us")), r"wanted date32, got timestamp\[us\]"),
    ("timestamp_us", pa.array([1], pa.int64()), r"wanted timestamp\[us\], got int64"),
    ("timestamp_us", pa.array([1], pa.timestamp("us", "UTC")), r"wanted timestamp\[us\], got timestamp\[us, UTC\]"),
    ("timestamp_utc", pa.array([1], pa.timestamp("us")), r"wanted timestamp\[us, UTC\], got timestamp\[us\]"),
    ("duration_us", pa.array([1], pa.int64()), r"wanted duration\[us\], got int64"),
    ("list_int64", pa.array([["x"]]), "wanted list<int64>, got list<utf8>"),
    ("list_int64", pa.array([1]), "wanted list<int64>, got int64"),
    ("fixed_list", pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "got fixed_size_list"),
    ("struct", pa.array([{"a": 1}]), "wanted struct<.*got struct<"),
    ("map_utf8", pa.array([{"k": 1}]), "wanted map<.*got struct<"),
]


@pytest.mark.parametrize(("key", "sent", "text"), REFUSED)
def test_other_types_are_refused(same: Gateway, key: str, sent: pa.Array, text: str) -> None:
    for mode in ("row", "arrow"):
        with pytest.raises(pa.ArrowInvalid, match=text):
            same.column(f"same_{mode}_{key}", sent)


def test_unions_are_not_served(same: Gateway) -> None:
    types, offsets = pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32())
    children = [pa.array([1]), pa.array(["x"])]
    for union in (
        pa.UnionArray.from_dense(types, offsets, children),
        pa.UnionArray.from_sparse(types, [pa.array([1, 2]), pa.array(["x", "y"])]),
    ):
        with pytest.raises(NotImplementedError, match="union"):
            same.column("same_row_int64", union)


def test_no_columns_and_no_rows(same: Gateway) -> None:
    for rows in (0, 1, 3, 65_537):
        batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        _, (answer,) = same.exchange("nothing", batch)
        assert answer.column(0).to_pylist() == [42] * rows
        numbers, texts = column("int64", "some", 0, rows), column("utf8", "every third", 0, rows)
        answer = same.column("both", numbers, texts)
        assert answer.to_pylist() == [f"{n}/{t}" for n, t in zip(numbers.to_pylist(), texts.to_pylist())]
