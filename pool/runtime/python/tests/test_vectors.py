"""Modes arrow, numpy, pandas and polars: every type in and out, and how bodies are run."""

import importlib.util
import random
import sys
import unittest

from case import WorkerCase
from gateway import BYE

LACKING = [name for name in ("pyarrow", "numpy", "pandas", "polars") if importlib.util.find_spec(name) is None]
if not LACKING:
    import pyarrow as pa
    from columns import ArrowGateway
    from samples import NO_TYPE_IN, TYPES, plainly, sample, spelled

KEEP = 2
MODES = ("arrow", "numpy", "pandas", "polars")


class VectorCase(WorkerCase):
    """WorkerCase whose gateways have columns of pyarrow."""

    @classmethod
    def setUpClass(cls):
        if LACKING:
            raise unittest.SkipTest(f"no {LACKING[0]} in this interpreter")
        if cls.SOURCE:
            cls.gate = ArrowGateway(in_size=64 << 20, out_size=4 << 20)
            loaded = cls.gate.load_source(cls.SOURCE)
            if "error" in loaded:
                raise AssertionError(loaded["error"]["traceback"] or loaded["error"])

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if cls.SOURCE:
            cls.gate.close()

    def start(self, **options):
        gate = ArrowGateway(**options)
        self.addCleanup(gate.close)
        return gate

    def values(self, name, *arrays, gate=None, **options):
        """What a call answers, as Python's values."""
        segment = (gate or self.gate).ask(name, *arrays, **options).segments[0]
        self.assertEqual(segment.status, 0, segment.errors and (segment.errors[0].name, segment.errors[0].text))
        return segment.values.to_pylist() if isinstance(segment.values, pa.Array) else segment.values

    def error(self, name, *arrays, **options):
        """(row, class, text, kind) of a call that fails."""
        segment = self.gate.ask(name, *arrays, **options).segments[0]
        self.assertEqual(segment.status, 1, segment.values)
        found = segment.errors[0]
        return found.row, found.name, found.text, found.kind


def identities():
    """A source with two functions per type and mode that answer their argument."""
    lines = ["import pyarrow as pa", "from udfgate import udf"]
    for at, name in enumerate(TYPES):
        kind = spelled(name)
        for mode in MODES:
            if name not in NO_TYPE_IN.get(mode, ()):
                options = f"mode='{mode}', input_types=[{kind}], result_type={kind}"
                lines.append(f"{mode}_{at} = udf(name='{mode}_{at}', {options})(lambda a: a)")
                lines.append(
                    f"skip_{mode}_{at} = udf(name='skip_{mode}_{at}', null_handling='skip', {options})(lambda a: a)"
                )
        options = f"name='cut_{at}', mode='arrow', input_types=[{kind}], result_type={kind}"
        lines.append(f"cut_{at} = udf({options})(lambda a: pa.concat_arrays([a.slice(0, 3), a]).slice(3))")
    return "\n".join(lines)


class TestIdentity(VectorCase):
    SOURCE = "" if LACKING else identities()

    @classmethod
    def setUpClass(cls):
        cls.SOURCE = cls.SOURCE or "x"  # so that it is skipped with a reason
        super().setUpClass()

    def each(self):
        for at, name in enumerate(TYPES):
            for mode in MODES:
                if name not in NO_TYPE_IN.get(mode, ()):
                    yield at, mode, eval(spelled(name), {"pa": pa})

    def check(self, function, kind, array, lo, hi):
        segment = self.gate.ask(function, array, lo=lo, hi=hi).segments[0]
        self.assertEqual(segment.status, 0, segment.errors and (segment.errors[0].name, segment.errors[0].text))
        self.assertEqual(plainly(kind, segment.values), plainly(kind, array.slice(lo, hi - lo)))
        return segment.values

    def test_every_type_null_pattern_and_slice(self):
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        for at, mode, kind in self.each():
            for nulls in ("none", "some", "all"):
                array = sample(kind, 70, nulls, dice)
                for lo, hi in ((0, 70), (8, 61), (64, 70), (64, 65)):
                    with self.subTest(kind=str(kind), mode=mode, nulls=nulls, lo=lo, hi=hi, seed=seed):
                        self.check(f"{mode}_{at}", kind, array, lo, hi)

    def test_more_rows_than_a_block(self):
        dice = random.Random(5)
        for at, mode, kind in self.each():
            if mode == "numpy":  # the mode of which most answers are taken value by value
                with self.subTest(kind=str(kind), mode=mode):
                    self.check(f"{mode}_{at}", kind, sample(kind, 4100, "some", dice), 0, 4100)

    def test_skipped_nulls_stay_null(self):
        dice = random.Random(7)
        for at, mode, kind in self.each():
            for nulls in ("some", "all"):
                with self.subTest(kind=str(kind), mode=mode, nulls=nulls):
                    self.check(f"skip_{mode}_{at}", kind, sample(kind, 70, nulls, dice), 8, 61)

    def test_arrow_and_polars_answer_in_arrow_form(self):
        dice = random.Random(8)
        for at, mode, kind in self.each():
            if mode in ("arrow", "polars"):
                with self.subTest(kind=str(kind), mode=mode):
                    self.assertIsInstance(
                        self.check(f"{mode}_{at}", kind, sample(kind, 70, "some", dice), 0, 70), pa.Array
                    )

    def test_answers_that_begin_within_a_byte(self):
        dice = random.Random(9)
        for at, mode, kind in self.each():
            if mode == "arrow":
                for nulls in ("none", "some"):
                    with self.subTest(kind=str(kind), nulls=nulls):
                        self.check(f"cut_{at}", kind, sample(kind, 70, nulls, dice), 8, 61)

    def test_no_rows(self):
        for at, mode, kind in self.each():
            with self.subTest(kind=str(kind), mode=mode):
                array = sample(kind, 8, "none", random.Random(1))
                segment = self.gate.ask(f"{mode}_{at}", array, lo=8, hi=8).segments[0]
                self.assertEqual((segment.status, list(segment.values)), (0, []))


RUNS = """
import numpy as np, pandas as pd, polars as pl, pyarrow as pa, pyarrow.compute as pc
from udfgate import udf
sizes = []

def picky(column):
    sizes.append(len(column))
    numbers = [int(one) for one in column]
    for at, number in enumerate(numbers):
        if number % 100 == 37:
            raise ValueError("no %d" % number)
    return column

for mode in ("arrow", "numpy", "pandas", "polars"):
    class_of = {"arrow": lambda column: [one.as_py() for one in column]}.get(mode, lambda column: column)
    body = (lambda of: lambda column: (picky(of(column)), column)[1])(class_of)
    options = dict(mode=mode, input_types=["BIGINT"], result_type="SMALLINT NOT NULL")
    globals()["halved_" + mode] = udf(name="halved_" + mode, elementwise=True, **options)(body)
    globals()["whole_" + mode] = udf(name="whole_" + mode, **options)(body)
    globals()["short_" + mode] = udf(name="short_" + mode, **options)(lambda column: column[1:])
    globals()["none_" + mode] = udf(name="none_" + mode, **options)(lambda column: None)
    globals()["skip_" + mode] = udf(name="skip_" + mode, null_handling="skip", elementwise=True, **options)(body)
    globals()["no_args_" + mode] = udf(name="no_args_" + mode, mode=mode, input_types=[], result_type="INT")(lambda: [7])
    globals()["class_" + mode] = udf(name="class_" + mode, mode=mode, input_types=["BIGINT", "VARCHAR"], result_type="VARCHAR")(
        lambda a, b: [type(a).__name__ + " " + str(getattr(a, "dtype", "")) + " " + type(b).__name__] * len(a))

@udf(mode="list", input_types=[], result_type="VARCHAR")
def seen():
    last = str(sizes)
    sizes.clear()
    return [last]

@udf(mode="numpy", input_types=["BIGINT"], result_type="BIGINT")
def in_place(a):
    a += 1
    return a

@udf(mode="pandas", input_types=["BIGINT"], result_type="BIGINT")
def series_in_place(a):
    a[0] = 100
    a += 1
    return a

def spoiling(lists):
    for one in lists:
        one.append(7)
    if any(one[0] == 5 for one in lists):
        raise ValueError("five")
    return [len(one) for one in lists]

for mode in ("numpy", "pandas"):
    options = dict(name="spoiling_" + mode, mode=mode, elementwise=True, input_types=["BIGINT[]"], result_type="BIGINT")
    globals()["spoiling_" + mode] = udf(**options)(spoiling)

for mode in ("numpy", "pandas"):
    for kind in ("timestamp[us]", "DATE[]"):
        for each in (False, True):
            options = dict(name=f"unheld_{mode}_{kind[0]}_{each}", mode=mode, elementwise=each)
            body = lambda a: [len(a)] * len(a)
            globals()[options["name"]] = udf(input_types=[kind], result_type="BIGINT", **options)(body)

for mode in ("arrow", "numpy", "pandas", "polars"):
    options = dict(name="member_" + mode, mode=mode, input_types=["BIGINT"], result_type="STRUCT<a BIGINT NOT NULL>")
    globals()["member_" + mode] = udf(**options)(
        lambda a: pa.StructArray.from_arrays([pa.array(a)], ["a"]))

@udf(mode="arrow", input_types=["VARCHAR"], result_type="VARCHAR")
def wide(a):
    return pc.binary_repeat(a, 1000)
"""


class TestRuns(VectorCase):
    SOURCE = RUNS

    def test_a_raise_belongs_to_all_rows(self):
        array = pa.array([*range(64), 137])
        for mode in MODES:
            with self.subTest(mode=mode):
                self.assertEqual(self.error("whole_" + mode, array), (0, "ValueError", "no 37", 3))
                only = self.gate.ask("whole_" + mode, array, flags=KEEP).error
                self.assertEqual((only.name, only.text, only.kind), ("ValueError", "no 37", 3))

    def test_rows_are_found_by_halving(self):
        array = pa.array([*range(64), 137, 5, 100000])
        for mode in MODES:
            with self.subTest(mode=mode):
                self.values("seen", rows=1)
                self.assertEqual(self.error("halved_" + mode, array, lo=8), (37, "ValueError", "no 37", 1))
                self.assertEqual(self.values("seen", rows=1)[0][:4], "[59,")
                segment = self.gate.ask("halved_" + mode, array, lo=8, flags=KEEP).segments[0]
                texts = {8 + at: text for at, text in enumerate(segment.texts) if text}
                self.assertEqual(texts, {
                    37: "ValueError: no 37",
                    64: "ValueError: no 137",
                    66: "OverflowError: result: wanted int16, got int 100000",
                })  # fmt: skip
                self.assertEqual(segment.values[:3] + segment.values[-2:], [8, 9, 10, 5, None])

    def test_misfits_have_the_texts_of_row_mode(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                found = self.error("whole_" + mode, pa.array([1] * 70 + [40000]), lo=8)
                self.assertEqual(found, (70, "OverflowError", "result: wanted int16, got int 40000", 2))
                if mode in ("arrow", "numpy"):  # not the int() of a null
                    continue
                found = self.error("short_" + mode, pa.array([1, 2, 3]))
                self.assertEqual(found, (0, "", "wanted 3 results, got 2", 3))
                self.assertEqual(
                    self.error("none_" + mode, pa.array([1, 2, 3]))[2], "wanted a column of 3 results, got None"
                )

    def test_skipped_rows(self):
        array = pa.array([1, None, 37, None, 5, 40000])
        for mode in MODES:
            with self.subTest(mode=mode):
                self.assertEqual(self.values("skip_" + mode, array.slice(0, 2)), [1, None])
                self.assertEqual(self.values("skip_" + mode, pa.nulls(3, pa.int64())), [None] * 3)
                segment = self.gate.ask("skip_" + mode, array, flags=KEEP).segments[0]
                self.assertEqual(segment.values, [1, None, None, None, 5, None])
                wide = "OverflowError: result: wanted int16, got int 40000"
                self.assertEqual(segment.texts, [None, None, "ValueError: no 37", None, None, wide])
                self.assertEqual(self.error("skip_" + mode, array)[:3], (2, "ValueError", "no 37"))

    def test_no_arguments(self):
        for mode in MODES:
            self.assertEqual(self.values("no_args_" + mode, rows=1), [7])

    def test_a_null_changes_no_dtype(self):
        want = {
            "arrow": ("Int64Array  StringArray", "Int64Array  StringArray"),
            "numpy": ("ndarray int64 ndarray", "MaskedArray int64 ndarray"),
            "pandas": ("Series Int64 Series", "Series Int64 Series"),
            "polars": ("Series Int64 Series", "Series Int64 Series"),
        }
        for mode, both in want.items():
            for text, numbers in zip(both, ([1, 2], [1, None])):
                with self.subTest(mode=mode, numbers=numbers):
                    got = self.values("class_" + mode, pa.array(numbers, pa.int64()), pa.array(["a", None]))
                    self.assertEqual(got, [text] * 2)

    def test_changing_an_argument(self):
        array = pa.array([1, 2])
        _, name, text, _ = self.error("in_place", array)
        self.assertEqual((name, "read-only" in text), ("ValueError", True))
        self.assertEqual(self.values("series_in_place", array), [101, 3])

    def test_halves_do_not_see_what_the_body_has_changed(self):
        for mode in ("numpy", "pandas"):
            segment = self.gate.ask("spoiling_" + mode, pa.array([[1], [2, 2], [5], [1], [3]]), flags=KEEP).segments[0]
            self.assertEqual(segment.values, [2, 3, None, 2, 2])

    def test_rows_that_the_library_cannot_hold(self):
        moments = pa.array([1, -(1 << 63), None, 4]).cast(pa.timestamp("us"))
        days = pa.array([[1], [2932897], [], [4]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
        nat = f"argument a: wanted what numpy tells from NaT, got timestamp[us] {-(1 << 63)}"
        year = "argument a: wanted a year from 1 to 9999, got date32 2932897"
        for mode in ("numpy", "pandas"):
            for kind, array, text in (("t", moments, nat), ("D", days, year)):
                for each in (False, True):
                    with self.subTest(mode=mode, kind=kind, elementwise=each):
                        name = f"unheld_{mode}_{kind}_{each}"
                        self.assertEqual(self.error(name, array), (1, "OverflowError", text, 2))
                        segment = self.gate.ask(name, array, flags=KEEP).segments[0]
                        self.assertEqual(segment.texts, [None, "OverflowError: " + text, None, None])
                        self.assertEqual(segment.values, [3, None, 3, 3])

    def test_a_member_that_is_not_null(self):
        for mode in ("arrow", "numpy"):
            self.assertEqual(self.values("member_" + mode, pa.array([1, 2])), [{"a": 1}, {"a": 2}])
            _, name, text, kind = self.error("member_" + mode, pa.array([1, None]))
            self.assertEqual((name, text, kind), ("TypeError", "result: wanted int64 at .a, got None", 2))

    def test_an_answer_larger_than_the_arena(self):
        array = pa.array(["é" * 10] * 1000)
        self.assertEqual(self.values("wide", array), ["é" * 10_000] * 1000)

    def test_columns_of_another_shape(self):
        wrong = self.gate.ask("whole_numpy", pa.array(["a"])).error
        self.assertEqual(wrong.text, "column 0: int64 does not come in form 1 with 3 buffers")
        self.assertEqual(self.gate.ask("whole_numpy", rows=1).error.text, "wanted 1 columns, got 0")

    def test_several_segments(self):
        self.gate.input.at = 0
        parts = [pa.array([1, 2, 3]), pa.array([4]), pa.array([40000])]
        segments = [self.gate.segment_of([part]) for part in parts]
        result = self.gate.call("whole_arrow", segments=segments)
        self.assertEqual([one.status for one in result.segments], [0, 0, 1])
        self.assertEqual([one.values.to_pylist() for one in result.segments[:2]], [[1, 2, 3], [4]])


KEPT = """
from udfgate import udf
kept = {}

def keep(mode):
    def body(a):
        kept.setdefault(mode, []).append(a[1:])
        return a

    return body

def again(mode):
    return lambda: [",".join([str(one.to_pylist() if mode == "arrow" else getattr(one, 'tolist', getattr(one, 'to_list', None))()) for one in kept[mode]])]

for mode in ("arrow", "numpy", "pandas", "polars"):
    globals()["keep_" + mode] = udf(name="keep_" + mode, mode=mode, input_types=["BIGINT"], result_type="BIGINT")(keep(mode))
    globals()["pass_" + mode] = udf(name="pass_" + mode, mode=mode, input_types=["BIGINT"], result_type="BIGINT")(lambda a: a)
    globals()["fail_" + mode] = udf(name="fail_" + mode, mode=mode, elementwise=True, input_types=["BIGINT"], result_type="BIGINT")(lambda a: 1 / 0)
    globals()["again_" + mode] = udf(name="again_" + mode, mode="list", input_types=[], result_type="VARCHAR")(again(mode))

@udf(mode="list", input_types=[], result_type="VARCHAR")
def copied():
    import gc
    found = [one for one in gc.get_objects() if type(one).__name__ == "Function" and one.vector]
    return [" ".join([one.name for one in found if one.vector.copies])]
"""


class TestKeptInput(VectorCase):
    """The gateway writes into a slot again as soon as its call is answered; what a body has kept must not change."""

    def check(self, **options):
        gate = self.load(KEPT, in_size=1 << 20, **options)
        for mode in MODES:
            with self.subTest(mode=mode, **options):
                for number in range(4):  # all of them lie in the same place
                    wanted = [number] * 20
                    self.assertEqual(self.values("keep_" + mode, pa.array(wanted), gate=gate), wanted)
                    self.assertEqual(self.values("pass_" + mode, pa.array([99] * 20), gate=gate), [99] * 20)
                (text,) = self.values("again_" + mode, rows=1, gate=gate)
                self.assertEqual(text, ",".join([str([number] * 19) for number in range(4)]))
        gate.put(BYE)
        self.assertEqual(gate.wait(), 0)

    def test_shared_arenas(self):
        self.check(arenas="shared")

    def test_private_arenas(self):
        self.check(arenas="private")

    def test_input_is_copied_only_for_functions_that_have_kept_some(self):
        gate = self.load(KEPT, in_size=1 << 20)
        for mode in MODES:
            for _ in range(3):
                self.values("pass_" + mode, pa.array([1] * 20), gate=gate)
                self.assertEqual(
                    gate.ask("fail_" + mode, pa.array([1, 2, 3]), flags=KEEP).segments[0].values, [None] * 3
                )
                self.assertEqual(gate.ask("fail_" + mode, pa.array([1, 2, 3])).error.name, "ZeroDivisionError")
        self.assertEqual(self.values("copied", rows=1, gate=gate), [""])
        self.values("keep_arrow", pa.array([1] * 20), gate=gate)
        self.values("keep_numpy", pa.array([1] * 20), gate=gate)
        self.assertEqual(self.values("copied", rows=1, gate=gate), ["keep_arrow keep_numpy"])

    def test_a_neighbour_in_the_same_page_is_read_anew(self):
        gate = self.load(KEPT, in_size=1 << 20)
        self.values("keep_arrow", pa.array([5] * 20), gate=gate)
        for number in range(3):
            got = self.values("pass_arrow", pa.array([number] * 20), gate=gate, at=1024)
            self.assertEqual(got, [number] * 20)


LACKS = """
import sys
from udfgate import udf
for name in ("pyarrow", "numpy", "pandas", "polars"):
    sys.modules[name] = None

@udf(mode="%s")
def f(a: int) -> int:
    return a
"""


class TestMissingLibraries(WorkerCase):
    """On any interpreter."""

    def test_the_package_and_the_interpreter_are_named(self):
        for mode, package in (("arrow", "pyarrow"), ("numpy", "numpy"), ("pandas", "numpy"), ("polars", "polars")):
            with self.subTest(mode=mode):
                error = self.refused(LACKS % mode)
                want = (
                    f"served.f: mode='{mode}' needs {package}, which is not installed for {sys.executable}; "
                    "install it there, or name an interpreter that has it with --python"
                )
                self.assertEqual((error["class"], error["message"]), ("LoadError", want))
                self.assertGreater(error["line"], 0)

    def test_row_and_list_need_none(self):
        gate = self.load(LACKS % "list")
        self.assertEqual(gate.call("f", [1, 2]).segments[0].values, [1, 2])


class TestTypesThatALibraryLacks(VectorCase):
    def test_they_are_refused_at_load(self):
        for mode, kind, text in (
            ("arrow", "month_interval", "has no type month_interval"),
            ("polars", "decimal256(50, 2)", "decimal256(50, 2) is no type of polars"),
            ("polars", "INTERVAL[]", "month_day_nano_interval is no type of polars"),
        ):
            with self.subTest(mode=mode, kind=kind):
                source = f"from udfgate import udf\nf = udf(name='f', mode='{mode}', input_types=['{kind}'], result_type='INT')(lambda a: a)"
                self.assertIn(text, self.refused(source)["message"])


class TestWithoutPyarrow(VectorCase):
    SOURCE = """
import sys
sys.modules["pyarrow"] = None
from udfgate import udf

@udf(mode="numpy", input_types=["BIGINT", "VARCHAR[]", "DECIMAL(5,2)"], result_type="BIGINT")
def n(a, b, c):
    return a * [len(one) for one in b] + [int(one) for one in c]

@udf(mode="pandas", input_types=["BIGINT", "VARCHAR"], result_type="VARCHAR")
def p(a, b):
    return b.str.upper() + a.astype("string")
"""

    def test_numpy_and_pandas(self):
        decimals = pa.array(["1.50", "-2.25"]).cast(pa.decimal128(5, 2))
        lists = pa.array([["a"], ["b", "c"]])
        self.assertEqual(self.values("n", pa.array([10, 20]), lists, decimals), [11, 38])
        self.assertEqual(self.values("p", pa.array([1, None]), pa.array(["a", "b"])), ["A1", None])


if __name__ == "__main__":
    unittest.main()
