"""What answers of pyarrow, numpy, pandas and polars become: exact or an error that names row, wanted and got."""

import datetime
import unittest

from test_vectors import LACKING, VectorCase

if not LACKING:
    import pyarrow as pa

# result type → (expression, what it becomes), or (expression, (row, text of its error)). All answers have three rows.
# They are looked at in mode numpy, unless the expression is of lists only: those in every mode.
CASES = {
    "BIGINT": [
        ("[1, 2, 3]", [1, 2, 3]),
        ("(1, None, True)", [1, None, 1]),
        ("[1, None, 'x']", (2, "result: wanted int64, got str 'x'")),
        ("np.array([1.0, 2, 3])", (0, "result: wanted int64, got float 1.0")),
        ("np.array([True, False, True])", [1, 0, 1]),
        ("np.array([1, 2, 3], 'u8')", [1, 2, 3]),
        ("np.array([1, 2, 3], '>i4')", [1, 2, 3]),
        ("np.arange(6)[::2]", [0, 2, 4]),
        ("np.array([1, 2, 2**64 - 1], 'u8')", (2, "result: wanted int64, got int 18446744073709551615")),
        ("np.array([1, 'x', None], object)", (1, "result: wanted int64, got str 'x'")),
        ("np.ma.MaskedArray([1, 2, 3], [0, 1, 0])", [1, None, 3]),
        ("pd.Series([1, None, 3])", (0, "result: wanted int64, got float 1.0")),
        ("pd.Series([1, None, 3], dtype='Int64')", [1, None, 3]),
        ("pd.Series([1, 2, 3], index=[5, 6, 7])", [1, 2, 3]),
        ("pd.Index([1, 2, 3])", [1, 2, 3]),
        ("pd.Series([3, None, 3], dtype='object')", [3, None, 3]),
        ("pd.Series([3, 4, 3], dtype='category')", [3, 4, 3]),
        ("pd.Series([1, pd.NA, 3], dtype='int64[pyarrow]')", [1, None, 3]),
        ("pl.Series([1, None, 3])", [1, None, 3]),
        ("pl.Series([1.5, 2, 3])", (0, "result: wanted int64, got float 1.5")),
        ("pa.array([1, None, 3], pa.int8())", [1, None, 3]),
        ("pa.chunked_array([[1], [2, 3]])", [1, 2, 3]),
        ("pa.chunked_array([[1, 2, None]])", [1, 2, None]),
        ("pa.array([1, 2, 1]).dictionary_encode()", [1, 2, 1]),
        ("pa.array(['1', '2', '3'])", (0, "result: wanted int64, got str '1'")),
        ("pa.nulls(3)", [None] * 3),
        ("np.array(['2020-01-01'] * 3, 'M8[D]')", (0, "result: wanted int64, got date datetime.date(2020, 1, 1)")),
    ],
    "SMALLINT NOT NULL": [
        ("np.array([1, -32768, 32767])", [1, -32768, 32767]),
        ("np.array([1, 2, 40000])", (2, "result: wanted int16, got int 40000")),
        ("np.ma.MaskedArray([1, 2, 3], [0, 0, 1])", (2, "result: wanted int16, got None")),
        ("pa.array([1, None, 3])", (1, "result: wanted int16, got None")),
        ("pl.Series([1, 2, 70000])", (2, "result: wanted int16, got int 70000")),
        ("pd.Series([1, 2, None], dtype='Int16')", (2, "result: wanted int16, got None")),
    ],
    "REAL": [
        ("np.array([0.5, float('inf'), 16777216.0])", [0.5, float("inf"), 16777216.0]),
        ("np.array([1e300, 1, 2])", (0, "result: wanted float32, got float 1e+300")),
        ("pa.array([1e300, 1, 2])", (0, "result: wanted float32, got float 1e+300")),
        ("pl.Series([1.0, 2, 1e300])", (2, "result: wanted float32, got float 1e+300")),
        ("np.array([16777217, 1, 2])", (0, "result: 16777217 is not exact in float32")),
        ("pa.array([16777217, 1, 2])", (0, "result: 16777217 is not exact in float32")),
        ("pa.array([16777216, 1, None])", [16777216.0, 1.0, None]),
        ("np.array([True, False, True])", (0, "result: wanted float32, got bool True")),
        ("pa.array([True, False, True])", (0, "result: wanted float32, got bool True")),
    ],
    "DOUBLE": [
        ("np.array([2**53 + 1, 1, 2])", (0, "result: 9007199254740993 is not exact in float64")),
        ("pa.array([2**53 + 1, 1, 2])", (0, "result: 9007199254740993 is not exact in float64")),
        ("np.array([2**60, 1, 2])", [2.0**60, 1.0, 2.0]),
        ("pa.array([2**60, 1, 2])", [2.0**60, 1.0, 2.0]),
        ("np.array([1.5, 2, 3], 'f2')", [1.5, 2.0, 3.0]),
        ("pd.Series([1.5, pd.NA, 2], dtype='Float64')", [1.5, None, 2.0]),
        ("pa.array([D('1.5'), D('2'), None])", (0, "result: wanted float64, got Decimal Decimal('1.5')")),
    ],
    "float16": [
        ("np.array([1.0, 2, 3])", [1.0, 2.0, 3.0]),
        ("pa.array([1.0, 2, None])", [1.0, 2.0, None]),
        ("np.array([1e6, 1, 2])", (0, "result: wanted float16, got float 1000000.0")),
        ("pa.array([1.0, 2, 1e6], pa.float32())", (2, "result: wanted float16, got float 1000000.0")),
        ("pa.array([1, 2, 4097])", (2, "result: 4097 is not exact in float16")),
    ],
    "BOOL": [
        ("np.array([True, False, True])", [True, False, True]),
        ("np.ma.MaskedArray([True, False, True], [1, 0, 0])", [None, False, True]),
        ("np.array([0, 1, 1])", (0, "result: wanted bool, got int 0")),
        ("pd.Series([True, None, False])", [True, None, False]),
        ("pd.Series([True, None, False], dtype='boolean')", [True, None, False]),
        ("pl.Series([True, None, False])", [True, None, False]),
        ("pa.array([1, 0, 1])", (0, "result: wanted bool, got int 1")),
    ],
    "VARCHAR": [
        ("np.array(['a', 'b', 'ü'])", ["a", "b", "ü"]),
        ("pd.Series(['a', None, 'c'])", ["a", None, "c"]),
        ("pd.Series(['a', pd.NA, 'c'], dtype='string')", ["a", None, "c"]),
        ("pd.Series(['a', None, 'b'], dtype='category')", ["a", None, "b"]),
        ("pl.Series(['a', None, 'ü'])", ["a", None, "ü"]),
        ("pl.Series(['a', 'b', 'a'], dtype=pl.Categorical)", ["a", "b", "a"]),
        ("pa.array(['a', 'b', None], pa.large_string())", ["a", "b", None]),
        ("pa.array(['a', 'b', None], pa.string_view())", ["a", "b", None]),
        ("pa.array(['x', 'a', 'b', None, 'x']).slice(1, 3)", ["a", "b", None]),
    ],
    "BYTEA": [
        ("np.array([b'a', b'b', b'c'])", [b"a", b"b", b"c"]),
        ("pa.array(['a', 'b', 'c'])", (0, "result: wanted binary, got str 'a'")),
        ("pa.array([b'ab', b'cd', None], pa.binary(2))", [b"ab", b"cd", None]),
        ("pl.Series([b'a', None, b'c'])", [b"a", None, b"c"]),
    ],
    "DATE": [
        ("np.array(['2020-01-01', 'NaT', '1970-01-02'], 'M8[ns]')", [18262, None, 1]),
        ("np.array(['2020-01-01T01', None, None], 'M8[h]')",
         (0, "result: wanted date32, got datetime datetime.datetime(2020, 1, 1, 1, 0)")),
        ("np.array([2**40, 'NaT', 48], 'M8[D]')",
         (0, "result: wanted date32, got datetime64 np.datetime64('3010362559-12-15')")),
        ("pd.Series(pd.to_datetime(['2020-01-01', None, '1970-01-02']))", [18262, None, 1]),
        ("pd.Series([datetime.date(2020, 1, 1), None, None])", [18262, None, None]),
        ("pl.Series([datetime.date(2020, 1, 1), None, None])", [18262, None, None]),
        ("pa.array([datetime.date(2020, 1, 1), None, None], pa.date32())", [18262, None, None]),
        ("np.array([1, 2, 3])", (0, "result: wanted date32, got int 1")),
    ],
    "date64": [
        ("pa.array([1, 2, 3], pa.int64()).view(pa.date64())",
         (0, "result: wanted date64, got int 1 of date64[ms]: no whole day")),
        ("pa.array([0, 86400000, None], pa.int64()).view(pa.date64())", [0, 86_400_000, None]),
        ("pl.Series([0, 86400000, None], dtype=pl.Int64).cast(pl.Datetime('ms'))", [0, 86_400_000, None]),
    ],
    "TIMESTAMP": [
        ("np.array([1, None, 2], 'M8[us]')", [1, None, 2]),
        ("np.array([1, None, 2], 'M8[s]')", [1_000_000, None, 2_000_000]),
        ("np.array([1000, None, 1001], 'M8[ns]')",
         (2, "result: wanted timestamp[us], got datetime64 np.datetime64('1970-01-01T00:00:00.000001001')")),
        ("np.array([2**62, 'NaT', 3], 'M8[s]')",
         (0, "result: wanted timestamp[us], got datetime64 np.datetime64('146138514283-06-19T07:45:04')")),
        ("pa.array([1000, 2000, None], pa.timestamp('ns'))", [1, 2, None]),
        ("pa.array([1000, 1, None], pa.timestamp('ns'))",
         (1, "result: Timestamp('1970-01-01 00:00:00.000000001') is not exact in timestamp[us]")),
        ("pd.Series([pd.Timestamp('1970-01-02')] * 3).dt.tz_localize('UTC')",
         (0, "result: wanted timestamp[us], got Timestamp Timestamp('1970-01-02 00:00:00+0000', tz='UTC') with a time zone")),
    ],
    "TIMESTAMPTZ": [
        ("np.array([1, None, 2], 'M8[us]')", [1, None, 2]),
        ("pd.Series([pd.Timestamp('1970-01-02')] * 3).dt.tz_localize('Europe/Berlin')", [82_800_000_000] * 3),
        ("pd.Series([pd.Timestamp('1970-01-02')] * 3)",
         (0, "result: wanted timestamp[us, UTC], got Timestamp Timestamp('1970-01-02 00:00:00') without a time zone")),
        ("pa.array([1, 2, None], pa.timestamp('us', 'Asia/Tokyo'))", [1, 2, None]),
        ("pl.Series([datetime.datetime(1970, 1, 2)] * 3).dt.replace_time_zone('Asia/Tokyo')", [54_000_000_000] * 3),
    ],
    "duration[us]": [
        ("np.array([1, 'NaT', 3], 'm8[ms]')", [1000, None, 3000]),
        ("np.array([1, 2, 3], 'm8[ns]')", (0, "result: wanted duration[us], got timedelta64 np.timedelta64(1,'ns')")),
        ("pd.Series(pd.to_timedelta([1, None, 2], unit='s'))", [1_000_000, None, 2_000_000]),
        ("pl.Series([datetime.timedelta(1), None, None])", [86_400_000_000, None, None]),
    ],
    "time64[us]": [
        ("np.array([datetime.time(1), None, None])", [3_600_000_000, None, None]),
        ("pl.Series([datetime.time(1), None, None])", [3_600_000_000, None, None]),
        ("pa.array([1000, 1, None], pa.time64('ns'))",
         (1, "result: 1 of time64[ns] is not exact in time64[us]")),
        ("pa.array([1000, 2, None], pa.time32('ms'))", [1_000_000, 2_000, None]),
    ],
    "DECIMAL(5,2)": [
        ("pa.array([D('1.5'), None, D('-2.25')])", ["1.50", None, "-2.25"]),
        ("pa.array([D('1.555'), None, None])", (0, "result: Decimal('1.555') is not exact in decimal128(5, 2)")),
        ("pa.array([D('1'), None, D('1000')])",
         (2, "result: wanted decimal128(5, 2), got Decimal Decimal('1000')")),
        ("np.array([1.5, 0.25, float('nan')])", (2, "result: wanted decimal128(5, 2), got float nan")),
        ("pl.Series([D('1.50'), None, D('2.25')])", ["1.50", None, "2.25"]),
    ],
    "JSON": [
        ("np.array([{'a': 1}, None, 2], object)", ['{"a": 1}', None, "2"]),
        ("pa.array(['x', None, 'y'])", ['"x"', None, '"y"']),
        ("np.array([1.5, float('nan'), 3])", (1, "result: wanted utf8 as arrowudf.json, got float nan (Out of range float values are not JSON compliant)")),
    ],
    "UUID": [
        ("pa.array([b'0123456789abcdef'] * 3, pa.uuid())", [b"0123456789abcdef"] * 3),
        ("pl.Series([b'0123456789abcdef', None, b'x' * 15])",
         (2, "result: wanted fixed_size_binary[16] as arrow.uuid, got bytes b'xxxxxxxxxxxxxxx' of 15 bytes")),
    ],
    "BIGINT[]": [
        ("pa.array([[1], None, [2, None]])", [[1], None, [2, None]]),
        ("pa.array([[9], [1], None, [2, None]]).slice(1)", [[1], None, [2, None]]),
        ("pa.array([[1], None, [2]], pa.list_(pa.field('element', pa.int16())))", [[1], None, [2]]),
        ("pa.array([[1.5], None, []])", (0, "result: wanted int64 at [0], got float 1.5")),
        ("np.array([[1], [2, 3], None], object)", [[1], [2, 3], None]),
        ("pl.Series([[1], None, [2]])", [[1], None, [2]]),
    ],
}  # fmt: skip
NO_COLUMNS = {
    "5": "int", "None": "None", "'abc'": "str", "np.int64(3)": "int64", "np.array(3)": "ndarray", "{1, 2, 3}": "set",
    "np.array([[1, 2, 3]])": "ndarray", "pl.col('a')": "Expr", "pa.scalar(3)": "Int64Scalar",
    "pd.DataFrame({'a': [1, 2, 3]})": "DataFrame", "iter([1, 2, 3])": "list_iterator",
}  # fmt: skip


def source():
    lines = ["import datetime", "from decimal import Decimal as D", "import numpy as np, pandas as pd, polars as pl"]
    lines += ["import pyarrow as pa", "from udfgate import udf"]
    for at, kind in enumerate(CASES):
        for mode in ("arrow", "numpy", "pandas", "polars"):
            name = f"{mode}_{at}"
            options = f"name='{name}', mode='{mode}', input_types=['VARCHAR'], result_type='{kind}'"
            lines.append(f"{name} = udf({options})(lambda text: eval(str(text[0])))")
    return "\n".join(lines)


class TestResults(VectorCase):
    SOURCE = source()

    def ask(self, mode, kind, expression):
        at = list(CASES).index(kind)
        return self.gate.ask(f"{mode}_{at}", pa.array([expression] * 3)).segments[0]

    def plain(self, kind, values):
        if isinstance(values, pa.Array):
            if pa.types.is_decimal(values.type):
                return [value if value is None else str(value) for value in values.to_pylist()]
            if pa.types.is_temporal(values.type):
                return values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()
            return values.to_pylist()
        return values

    def test_every_case(self):
        for kind, cases in CASES.items():
            for expression, want in cases:
                modes = ("arrow", "numpy", "pandas", "polars") if expression[0] in "[(" else ("numpy",)
                for mode in modes:
                    with self.subTest(kind=kind, mode=mode, expression=expression):
                        segment = self.ask(mode, kind, expression)
                        if isinstance(want, tuple):
                            self.assertEqual(segment.status, 1, segment.values)
                            self.assertEqual((segment.errors[0].row, segment.errors[0].text), want)
                        else:
                            self.assertEqual(segment.status, 0, segment.errors and segment.errors[0].text)
                            self.assertEqual(self.plain(kind, segment.values), want)

    def test_nan_is_not_null(self):
        for expression, null in (
            ("np.array([1.5, float('nan'), float('nan')])", False),
            ("pd.Series([1.5, float('nan'), None])", False),  # in a dtype of numpy's pandas has NaN for both
            ("pd.Series([1.5, float('nan'), None], dtype=object)", True),
            ("pl.Series([1.5, float('nan'), None])", True),
            ("pa.array([1.5, float('nan'), None])", True),
            ("np.ma.MaskedArray([1.5, float('nan'), 2.0], [0, 0, 1])", True),
            ("[1.5, float('nan'), None]", True),
        ):
            for kind in ("DOUBLE", "REAL"):
                with self.subTest(kind=kind, expression=expression):
                    one, two, three = self.plain(kind, self.ask("numpy", kind, expression).values)
                    self.assertEqual((one, two != two), (1.5, True))
                    self.assertTrue(three is None if null else three != three, three)

    def test_in_arrow_and_polars_an_extension_is_its_storage(self):
        for mode in ("arrow", "polars"):
            for expression in ("pa.array(['{}', '[1]', None])", "pl.Series(['{}', '[1]', None])"):
                self.assertEqual(self.plain("JSON", self.ask(mode, "JSON", expression).values), ["{}", "[1]", None])

    def test_what_is_no_column(self):
        for mode in ("arrow", "numpy", "pandas", "polars"):
            for expression, got in NO_COLUMNS.items():
                with self.subTest(mode=mode, expression=expression):
                    found = self.ask(mode, "BIGINT", expression).errors[0]
                    self.assertEqual((found.name, found.kind), ("", 3))
                    self.assertEqual(found.text, f"wanted a column of 3 results, got {got}")

    def test_wrong_length(self):
        for expression in ("[1, 2]", "np.array([1, 2])", "pa.array([1, 2])", "pd.Series([1, 2])", "pl.Series([1, 2])"):
            found = self.ask("arrow", "BIGINT", expression).errors[0]
            self.assertEqual((found.kind, found.text), (3, "wanted 3 results, got 2"))

    def test_dates_are_dates(self):
        values = self.ask("arrow", "DATE", "pa.array([18262, None, 0], pa.int32()).view(pa.date32())").values
        self.assertEqual(values.to_pylist(), [datetime.date(2020, 1, 1), None, datetime.date(1970, 1, 1)])


if __name__ == "__main__":
    unittest.main()
