"""Types, samples of their values, and one form in which to compare them: only for interpreters with pyarrow."""

import datetime
from decimal import Context, Decimal

import pyarrow as pa

TYPES = [
    "bool_()",
    "int8()",
    "int16()",
    "int32()",
    "int64()",
    "uint8()",
    "uint16()",
    "uint32()",
    "uint64()",
    "float16()",
    "float32()",
    "float64()",
    "string()",
    "large_string()",
    "binary()",
    "large_binary()",
    "binary(3)",
    "date32()",
    "date64()",
    'time32("s")',
    'time32("ms")',
    'time64("us")',
    'time64("ns")',
    'timestamp("s")',
    'timestamp("ms")',
    'timestamp("us")',
    'timestamp("ns")',
    'timestamp("us","UTC")',
    'timestamp("ms","Europe/Berlin")',
    'duration("s")',
    'duration("ms")',
    'duration("us")',
    'duration("ns")',
    "decimal128(38,18)",
    "decimal128(5,0)",
    "decimal256(50,2)",
    "decimal32(9,2)",
    "decimal64(18,3)",
    "month_day_nano_interval()",
    "null()",
    "list_(int64())",
    "large_list(string())",
    "list_(int16(),2)",
    "list_(list_(date32()))",
    'struct([("a",int64()),("b",string())])',
    "map_(string(),int64())",
    'list_(struct([("x",bool_()),("y",decimal128(5,1))]))',
    'struct([("m",map_(int32(),list_(string())))])',
]
NO_TYPE_IN = {"polars": ("decimal256(50,2)", "month_day_nano_interval()")}


def spelled(name):
    """A pyarrow type as a source writes it."""
    for word in (
        "bool_",
        "int64",
        "int8",
        "int32",
        "int16",
        "string",
        "date32",
        "decimal128",
        "struct",
        "map_",
        "list_",
    ):
        name = name.replace("(" + word + "(", "(pa." + word + "(").replace("," + word + "(", ",pa." + word + "(")
    return "pa." + name.replace("pa.pa.", "pa.")


def plain(kind, value):
    """A value of an answer in one form, whether it came as an array or in value forms."""
    t = pa.types
    if value is None:
        return None
    if t.is_decimal(kind):
        return Decimal(str(value))
    if isinstance(value, (datetime.datetime, datetime.time, datetime.timedelta)):
        return pa.scalar(value, kind).cast(pa.int64() if kind.bit_width == 64 else pa.int32()).as_py()
    if isinstance(value, datetime.date):
        days = value.toordinal() - 719163
        return days * 86_400_000 if t.is_date64(kind) else days
    if kind == pa.month_day_nano_interval():
        return tuple(value)
    if t.is_floating(kind):
        return str(float(value))  # NaN is itself
    if t.is_map(kind):
        return [(plain(kind.key_type, k), plain(kind.item_type, v)) for k, v in value]
    if t.is_struct(kind):
        value = value if isinstance(value, (tuple, list)) else [value[f.name] for f in kind]
        return tuple([plain(f.type, v) for f, v in zip(kind, value)])
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return [plain(kind.value_type, one) for one in value]
    return value


def plainly(kind, values):
    if isinstance(values, pa.Array):
        if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
            return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        values = values.to_pylist()
    return [plain(kind, value) for value in values]


def sample(kind, rows, nulls, dice):
    """An array of a type; nulls: none, some, all."""
    t = pa.types
    if t.is_null(kind):
        return pa.nulls(rows)
    holes = [{"none": False, "all": True}.get(nulls, dice.random() < 0.3) for _ in range(rows)]
    mask = pa.array([not hole for hole in holes], pa.bool_())
    if t.is_nested(kind):
        return pa.array([None if hole else nested(kind, dice) for hole in holes], kind)
    values = [None if hole else one(kind, dice) for hole in holes]
    if t.is_temporal(kind) and kind != pa.month_day_nano_interval():
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    assert len(mask) == rows
    return pa.array(values, kind)


def one(kind, dice):
    t = pa.types
    if t.is_boolean(kind):
        return dice.random() < 0.5
    if t.is_integer(kind):
        least = -(1 << kind.bit_width - 1) if t.is_signed_integer(kind) else 0
        most = (1 << kind.bit_width - (1 if least else 0)) - 1
        return dice.choice([0, 1, least, most, dice.randint(least, most)])
    if t.is_floating(kind):
        return dice.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -2.25])
    if t.is_decimal(kind):
        most = 10**kind.precision - 1
        return Decimal(dice.randint(-most, most)).scaleb(-kind.scale, Context(prec=90))
    if t.is_date64(kind):
        return dice.randint(-20000, 20000) * 86_400_000
    if t.is_date(kind):
        return dice.randint(-20000, 20000)
    if t.is_time(kind):
        per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return dice.randrange(86_400) * per + (dice.randrange(1000) * 1000 if per == 10**9 else 0)
    if t.is_temporal(kind) and kind != pa.month_day_nano_interval():
        return dice.randint(-(10**9), 10**9) * (1000 if kind.unit == "ns" else 1)
    if kind == pa.month_day_nano_interval():
        return pa.MonthDayNano([dice.randint(-5, 5), dice.randint(-5, 5), dice.randint(-(10**12), 10**12)])
    text = dice.choice(["", "a", "grün", "x" * 40, "0"])
    if t.is_fixed_size_binary(kind):
        return dice.choice([b"abc", b"\0\xff\0"])
    return text.encode() if t.is_binary(kind) or t.is_large_binary(kind) else text


def nested(kind, dice):
    t = pa.types
    if dice.random() < 0.2 and not t.is_nested(kind):
        return None
    if t.is_struct(kind):
        return {f.name: nested(f.type, dice) for f in kind}
    if t.is_map(kind):
        keys = {one(kind.key_type, dice) for _ in range(dice.randrange(3))}
        return [(key, nested(kind.item_type, dice)) for key in sorted(keys)]
    if t.is_fixed_size_list(kind):
        return [nested(kind.value_type, dice) for _ in range(kind.list_size)]
    if t.is_nested(kind):
        return [nested(kind.value_type, dice) for _ in range(dice.randrange(4))]
    return one(kind, dice)
