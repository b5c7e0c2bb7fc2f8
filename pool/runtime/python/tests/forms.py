"""Value forms of the types that are not plain, as the gateway writes and checks them: for the tests' gateway."""

import marshal
import struct

NUMBERS = {
    "float16": "e", "date32": "i", "date64": "q", "time32": "i", "time64": "q", "timestamp": "q", "duration": "q",
}  # fmt: skip
INTS = {f"{sign}int{bits}": (0 if sign else -(1 << bits - 1), (1 << (bits if sign else bits - 1)) - 1)
        for bits in (8, 16, 32, 64) for sign in ("", "u")}  # fmt: skip
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def kind_of(type_):
    """The name of a type as LOADED has it."""
    return type_ if isinstance(type_, str) else type_["name"]


def is_plain(type_):
    """Whether the gateway has more to know of it than its name."""
    return isinstance(type_, str) and type_ in (*INTS, "bool", "float32", "float64", "utf8", "binary")


def block(type_, values):
    """A marshal block of arguments."""
    return marshal.dumps(values, 4)


def fits(type_, nullable, value):
    """Whether the gateway takes a value of a result."""
    kind = kind_of(type_)
    if value is None:
        return nullable or kind == "null"
    check = _CHECKS.get(kind)
    if check is not None:
        return check(type_, value)
    if kind in INTS or kind in ("date32", "time32", "date64", "time64", "timestamp", "duration"):
        return type(value) is int and _in_range(type_, kind, value)
    raise AssertionError(f"no check of {kind}")


def _in_range(type_, kind, value):
    if kind in ("time32", "time64"):
        return 0 <= value < 86400 * UNITS[type_["unit"]]
    least, most = INTS["int32" if kind == "date32" else kind if kind in INTS else "int64"]
    return least <= value <= most and (kind != "date64" or value % 86_400_000 == 0)


def _text(type_, value):
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decimal(type_, value):
    if type(value) is not str or len(value) > 255:
        return False
    sign = value[:1] == "-"
    mantissa, _, power = value[sign:].upper().partition("E")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    if not digits.isdigit() or not digits.isascii() or abs(int(power or 0)) > 1000:
        return False
    shift = int(power or 0) - len(fraction) + type_["scale"]
    number = int(digits) * 10 ** max(shift, 0)
    if shift < 0:
        number, rest = divmod(number, 10**-shift)
        if rest:
            return False
    return len(str(number)) <= type_["precision"]


def _interval(bits):
    def check(type_, value):
        if type(value) not in (tuple, list) or len(value) != len(bits):
            return False
        return all(type(one) is int and -(1 << b - 1) <= one < 1 << b - 1 for one, b in zip(value, bits))

    return check


def _items(type_, value):
    if type(value) not in (list, tuple) or (type_["name"] == "fixed_size_list" and len(value) != type_["size"]):
        return False
    (item,) = type_["children"]
    return all(fits(item["type"], item["nullable"], one) for one in value)


def _struct(type_, value):
    members = type_["children"]
    if type(value) is dict:
        if set(value) - {member["name"] for member in members}:
            return False
        value = tuple(value.get(member["name"]) for member in members)
    if type(value) is not tuple or len(value) != len(members):
        return False
    return all(fits(member["type"], member["nullable"], one) for member, one in zip(members, value))


def _map(type_, value):
    pairs = value.items() if type(value) is dict else value
    key, item = type_["children"]
    if type(value) not in (dict, list, tuple):
        return False
    return all(
        type(pair) in (list, tuple) and len(pair) == 2 and fits(key["type"], False, pair[0])
        and fits(item["type"], item["nullable"], pair[1]) for pair in pairs
    )  # fmt: skip


def _float(type_, value):
    if type(value) is not float:
        return False
    try:
        struct.pack({"float32": "<f", "float16": "<e"}.get(kind_of(type_), "<d"), value)
    except OverflowError:
        return False
    return True


_CHECKS = {
    "null": lambda type_, value: False,
    "bool": lambda type_, value: type(value) is bool,
    **dict.fromkeys(("float16", "float32", "float64"), _float),
    **dict.fromkeys(("utf8", "large_utf8"), _text),
    **dict.fromkeys(("binary", "large_binary"), lambda type_, value: type(value) is bytes),
    "fixed_size_binary": lambda type_, value: type(value) is bytes and len(value) == type_["size"],
    **dict.fromkeys(("decimal32", "decimal64", "decimal128", "decimal256"), _decimal),
    "month_interval": _interval((32,)),
    "day_time_interval": _interval((32, 32)),
    "month_day_nano_interval": _interval((32, 32, 64)),
    **dict.fromkeys(("list", "large_list", "fixed_size_list"), _items),
    "struct": _struct,
    "map": _map,
}


def plainly(type_, value):
    """A value of an answer in one form: structs as tuples, maps and lists as lists."""
    kind = kind_of(type_)
    if value is None:
        return None
    if kind in ("list", "large_list", "fixed_size_list"):
        return [plainly(type_["children"][0]["type"], one) for one in value]
    if kind == "struct":
        names = [member["name"] for member in type_["children"]]
        value = [value.get(name) for name in names] if type(value) is dict else value
        return tuple(plainly(member["type"], one) for member, one in zip(type_["children"], value))
    if kind == "map":
        key, item = type_["children"]
        pairs = value.items() if type(value) is dict else value
        return [(plainly(key["type"], one), plainly(item["type"], other)) for one, other in pairs]
    return value
