"""warmup and max_batch_rows in the vector modes."""

import datetime as dt
import unittest
from decimal import Decimal

from test_vectors import LACKING, MODES, VectorCase

if not LACKING:
    import pyarrow as pa


class Vectors(VectorCase):
    def test_warmup(self):
        source = (
            "import datetime as dt\nfrom decimal import Decimal\nfrom udfgate import udf\n"
            "rows = [(1, True, 'a', dt.date(2024, 2, 29), dt.datetime(2024, 1, 2, 3), Decimal('1.50'), [1]), (None,) * 7]\n"
            "kept = {}\n"
            "@udf\ndef same(mode: str, at: int) -> str:\n"
            "    one, two = kept[mode], kept[mode + ' call']\n"
            "    a, b = one[at], two[at]\n"
            "    return '' if type(a) is type(b) and str(a) == str(b) and a.dtype == b.dtype else f'{a!r} {b!r}'\n"
        )
        source = source.replace("a.dtype == b.dtype", "str(getattr(a, 'dtype', a)) == str(getattr(b, 'dtype', b))")
        types = "['INT', 'BOOLEAN', 'VARCHAR', 'DATE', 'TIMESTAMP', 'DECIMAL(5, 2)', 'BIGINT[]']"
        for mode in MODES:
            source += (
                f"@udf(mode='{mode}', input_types={types}, result_type='INT', warmup=rows)\n"
                f"def {mode}(*args):\n"
                f"    kept['{mode} call' if '{mode}' in kept else '{mode}'] = args\n"
                f"    return args[0]\n"
            )
        gate = self.start()
        loaded = gate.load_source(source)
        self.assertNotIn("error", loaded, loaded)
        columns = [
            pa.array([1, None], pa.int32()),
            pa.array([True, None]),
            pa.array(["a", None]),
            pa.array([dt.date(2024, 2, 29), None]),
            pa.array([dt.datetime(2024, 1, 2, 3), None], pa.timestamp("us")),
            pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            pa.array([[1], None], pa.list_(pa.int64())),
        ]
        for mode in MODES:
            self.assertEqual(self.values(mode, *columns, gate=gate), [1, None])
            for at in range(7):
                self.assertEqual(self.values("same", pa.array([mode]), pa.array([at]), gate=gate), [""], (mode, at))

    def test_warmups_that_fail(self):
        for mode in MODES:
            for body, rows, text in (
                ("return x[0] // 0 if 0 else 1", "[(1,)]", "warmup: wanted a column of 1 results, got int"),
                ("raise ValueError('v')", "[(1,)]", "warmup: ValueError: v"),
                ("return ['x']", "[(1,)]", "TypeError: result: wanted int64, got str 'x'"),
                ("return x", "[('text',)]", "warmup: argument x: "),
            ):
                source = (
                    f"from udfgate import udf\n@udf(mode='{mode}', warmup={rows})\ndef f(x: int) -> int:\n    {body}\n"
                )
                error = self.start().load_source(source)["error"]
                self.assertIn(text, error["message"], mode)
                self.assertEqual((error["class"], error["line"]), ("LoadError", 2))

    def test_max_batch_rows(self):
        for mode in MODES:
            source = (
                f"from udfgate import udf\nseen = []\n@udf(mode='{mode}', elementwise=True, max_batch_rows=4)\n"
                "def f(x: int) -> int:\n    seen.append(len(x))\n    return x\n"
                "@udf\ndef look() -> str: return str(seen)\n"
            )
            gate = self.start()
            self.assertNotIn("error", gate.load_source(source))
            self.assertEqual(self.values("f", pa.array(range(10)), gate=gate), list(range(10)), mode)
            self.assertEqual(gate.call("look", rows=1).values, ["[4, 4, 2]"])


if __name__ == "__main__":
    unittest.main()
