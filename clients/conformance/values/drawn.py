"""Strategies of hypothesis: values as texts, so that the body of the worker makes them anew."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

_FLOATS = st.floats(width=64)
_INTS = st.integers() | st.sampled_from(
    [2**31, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, 2**63, 2**63 - 1, -(2**63), 2**64, 255, 128]
)
_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # lone surrogates too
_OFFSETS = st.sampled_from(["UTC", "dt.timezone(dt.timedelta(hours=-7, minutes=-30))", "None"])


def _float(value: float) -> str:
    return f"float({str(value)!r})" if value != value or value in (float("inf"), float("-inf")) else repr(value)


def _aware(moment: object, zone: str) -> str:
    return f"{moment!r}.replace(tzinfo={zone})"


def atoms() -> st.SearchStrategy:
    """Texts of values that hold no others."""
    return st.one_of(
        st.just("None"),
        st.sampled_from(["True", "False"]),
        _INTS.map(repr),
        _FLOATS.map(_float),
        _TEXT.map(ascii),
        st.binary(max_size=12).map(repr),
        st.decimals().map(repr),
        st.decimals(-(10**6), 10**6, allow_nan=False, allow_infinity=False, places=2).map(repr),
        st.dates().map(repr),
        st.times().map(repr),
        st.builds(_aware, st.datetimes(), _OFFSETS),
        st.timedeltas().map(repr),
        st.uuids().map(lambda one: f"uuid.{one!r}"),
        _subclasses(),
    )


def _subclasses() -> st.SearchStrategy:
    small = st.integers(-128, 127)
    return st.one_of(
        _INTS.map(lambda n: f"Int({n})"),
        _FLOATS.map(lambda x: f"Float({_float(x)})"),
        _TEXT.map(lambda text: f"Text({text!a})"),
        st.binary(max_size=5).map(lambda data: f"Bytes({data!r})"),
        st.binary(max_size=5).map(lambda data: f"bytearray({data!r})"),
        small.map(lambda n: f"np.int8({n})"),
        st.integers(0, 2**64 - 1).map(lambda n: f"np.uint64({n})"),
        st.floats(width=32).map(lambda x: f"np.float32({_float(x)})"),
        st.floats(width=16).map(lambda x: f"np.float16({_float(x)})"),
        _FLOATS.map(lambda x: f"np.float64({_float(x)})"),
        st.sampled_from(
            ["np.bool_(True)", "np.str_('x')", "np.bytes_(b'x')", "np.datetime64('2024-01-01')", "pd.NA", "pd.NaT"]
        ),
        st.integers(-(2**60), 2**60).map(lambda n: f"pd.Timestamp({n})"),
        st.integers(-(2**60), 2**60).map(lambda n: f"pd.Timedelta({n})"),
        st.tuples(*[st.integers(-(2**33), 2**33)] * 3).map(lambda parts: f"Interval{parts}"),
        st.sampled_from(
            [
                "Colour.RED",
                "Indexed()",
                "Floating()",
                "Rude()",
                "object()",
                "1j",
                "fractions.Fraction(1, 2)",
                "...",
                "int",
                "len",
            ]
        ),
    )


def _nest(inner: st.SearchStrategy) -> st.SearchStrategy:
    several = st.lists(inner, max_size=4)
    names = st.sampled_from(["'a'", "'b'", "'c'", "'p'", "'q'", "'only'", "'x'", "1", "None"])
    return st.one_of(
        several.map(lambda items: f"[{', '.join(items)}]"),
        several.map(lambda items: f"({''.join([item + ', ' for item in items])})"),
        several.map(lambda items: f"collections.deque([{', '.join(items)}])"),
        st.lists(st.tuples(names | inner.filter(_hashable), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join([f"{key}: {value}" for key, value in pairs]) + "}"
        ),
        st.lists(st.integers(-128, 127), max_size=4).map(lambda items: f"array.array('b', {items})"),
        st.lists(st.integers(-128, 127), max_size=4).map(lambda items: f"np.array({items}, dtype='i2')"),
        st.tuples(inner, inner).map(lambda pair: f"Point({pair[0]}, {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"Pair({pair[0]}, {pair[1]})"),
        st.just("iter([1])"),
        st.just("{1, 2}"),
    )


def _hashable(text: str) -> bool:
    return not any([word in text for word in ("[", "{", "bytearray", "deque", "array", "Point", "Rude")])


@functools.cache
def expressions() -> st.SearchStrategy:
    """Several rows of anything."""
    return st.lists(st.recursive(atoms(), _nest, max_leaves=6), min_size=1, max_size=9)


def _rows(one: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(one | st.just("None"), min_size=1, max_size=9)


@functools.cache
def fitting() -> dict[str, st.SearchStrategy]:
    """By type: rows that fit, all of them."""
    out = {"bool": st.sampled_from(["True", "False", "np.bool_(False)"]), "utf8": st.text(max_size=20).map(ascii)}
    for bits in (8, 16, 32, 64):
        out[f"int{bits}"] = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1).map(repr)
        out[f"uint{bits}"] = st.integers(0, (1 << bits) - 1).map(repr)
    out["float64"] = _FLOATS.map(_float) | st.integers(-(2**53), 2**53).map(repr)
    out["float32"] = st.floats(-3.4e38, 3.4e38).map(_float) | st.integers(-(2**24), 2**24).map(repr)
    out["float16"] = st.floats(-65504, 65504).map(_float) | st.integers(-2048, 2048).map(repr)
    out["binary"] = st.binary(max_size=20).map(repr) | st.binary(max_size=20).map(lambda data: f"memoryview({data!r})")
    out["fixed_size_binary"] = st.binary(min_size=5, max_size=5).map(repr)
    cents = st.decimals(-99999, 99999, allow_nan=False, allow_infinity=False, places=2)
    out["decimal32"] = cents.map(repr) | cents.map(lambda one: repr(float(one))) | st.integers(-99999, 99999).map(repr)
    out["decimal256"] = st.integers(-(10**56) + 1, 10**56 - 1).map(
        lambda n: f"Decimal({n}).scaleb(0)" if abs(n) < 10**27 else repr(n)
    )
    out["date32"] = out["date64"] = st.dates().map(repr)
    out["time64_us"] = out["time64_ns"] = st.times().map(repr)
    out["timestamp_us"] = st.datetimes().map(repr)
    out["timestamp_utc"] = st.datetimes().map(lambda one: _aware(one, "UTC"))
    out["duration_us"] = st.timedeltas(*_span(100_000_000)).map(repr)
    out["duration_ns"] = st.timedeltas(*_span(100_000)).map(repr)
    out["uuid"] = st.uuids().map(lambda one: f"uuid.{one!r}")
    out["list_int64"] = st.lists(out["int64"] | st.just("None"), max_size=5).map(lambda items: f"[{', '.join(items)}]")
    out["list_utf8"] = st.lists(out["utf8"], max_size=5).map(
        lambda items: f"({''.join([item + ', ' for item in items])})"
    )
    member = st.tuples(out["int64"] | st.just("None"), out["utf8"] | st.just("None"))
    out["struct"] = member.map(lambda row: f"{{'b': {row[1]}, 'a': {row[0]}}}") | member.map(
        lambda row: f"Point({row[0]}, {row[1]})"
    )
    out["map_utf8"] = st.dictionaries(out["utf8"], out["int64"], max_size=4).map(
        lambda d: "{" + ", ".join([f"{k}: {v}" for k, v in d.items()]) + "}"
    )
    part = st.integers(-(2**31), 2**31 - 1)
    out["interval"] = st.tuples(part, part, st.integers(-(2**63), 2**63 - 1)).map(lambda parts: f"Interval{parts}")
    return {key: _rows(one) for key, one in out.items()}


def _span(days: int) -> tuple:
    import datetime

    return datetime.timedelta(days=-days), datetime.timedelta(days=days)


_NUMPY = (
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    ">i4",
    ">f8",
    "?",
    "O",
    "M8[us]",
    "M8[D]",
    "M8[ns]",
    "M8[s]",
    "m8[ms]",
    "m8[ns]",
    "m8[h]",
)
_ARROW = ("int8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool_", "date32", "date64")
_PANDAS = (
    "int64",
    "Int8",
    "UInt64",
    "Int64",
    "Float32",
    "Float64",
    "float64",
    "boolean",
    "bool",
    "object",
    "datetime64[us]",
    "datetime64[ns]",
    "timedelta64[ms]",
)
_POLARS = (
    "Int8",
    "Int64",
    "UInt64",
    "Float32",
    "Float64",
    "Boolean",
    "Date",
    "Duration('ms')",
    "Datetime('us')",
    "Datetime('ns')",
)
_NUMBER = st.integers(-300, 300) | st.sampled_from([2**31, 2**40, -(2**62), 2**53 + 1]) | st.just(0)


@functools.cache
def wholes() -> st.SearchStrategy:
    """Answers of a whole column. The numbers wrap into whatever dtype, so that there is always an array."""
    numbers = st.lists(_NUMBER, min_size=1, max_size=6)
    gaps = st.lists(_NUMBER | st.none(), min_size=1, max_size=6)
    floats = st.lists(_FLOATS | st.floats(width=32), min_size=1, max_size=6).map(
        lambda many: "[" + ", ".join(map(_float, many)) + "]"
    )
    texts = st.lists(st.text(max_size=4) | st.none(), min_size=1, max_size=4).map(ascii)
    return st.one_of(
        st.tuples(numbers, st.sampled_from(_NUMPY)).map(lambda p: f"np.array({p[0]}, 'i8').astype('{p[1]}')"),
        floats.map(lambda many: f"np.array({many})"),
        floats.map(lambda many: f"pa.array({many})"),
        floats.map(lambda many: f"pd.Series({many})"),
        floats.map(lambda many: f"pl.Series({many})"),
        st.tuples(numbers, st.lists(st.booleans(), min_size=6, max_size=6)).map(
            lambda p: f"np.ma.MaskedArray({p[0]}, {p[1][: len(p[0])]}, 'i8')"
        ),
        st.tuples(gaps, st.sampled_from(_ARROW)).map(lambda p: f"arrow_of({p[0]}, pa.{p[1]}())"),
        st.tuples(gaps, st.sampled_from(_PANDAS)).map(lambda p: f"pandas_of({p[0]}, {p[1]!r})"),
        st.tuples(gaps, st.sampled_from(_POLARS)).map(lambda p: f"polars_of({p[0]}, pl.{p[1]})"),
        texts.map(lambda many: f"pa.array({many}, 'string')"),
        texts.map(lambda many: f"pa.array({many}, 'string').dictionary_encode()"),
        texts.map(lambda many: f"pd.Series({many}, dtype='string')"),
        texts.map(lambda many: f"pl.Series({many}, dtype=pl.String)"),
        texts.map(lambda many: f"np.array({many}, 'O')"),
        st.lists(st.binary(max_size=3), min_size=1, max_size=4).map(lambda many: f"pa.array({many!r})"),
    )
