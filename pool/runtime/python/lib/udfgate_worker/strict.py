"""Exact or an error: the rules by which one Python value becomes one value of a result type.

The encoders take whole blocks by faster means that accept exactly these values, and come here when one of them
refuses: to keep the odd value that is legal (an int subclass, a numpy scalar), or to find the first row that is not.
"""

from _operator import index
from struct import Struct

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401

REPR_CHARS_MAX = 80
INT_RANGES = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
}
_ROUNDED = {"float16": Struct("<e"), "float32": Struct("<f")}
_type_name, _type_module = vars(type)["__name__"].__get__, vars(type)["__module__"].__get__


class Misfit(Exception):
    """A value that does not fit. `row` is set by whoever knows it.

    `at` is where the text takes up the place within a nested value; below 0: at its end.
    """

    def __init__(self, name: str, text: str, row: int = 0, at: int = -1) -> None:
        self.name, self.text, self.row, self.at = name, text, row, at
        self.placed = False

    def inside(self, step: str) -> "Misfit":
        """The same as told by the value around it: step is .member, [index] or the like."""
        at = len(self.text) if self.at < 0 else self.at
        if not self.placed:
            step, self.placed = " at " + step, True
            self.at = at + len(" at ")
        self.text = self.text[:at] + step + self.text[at:]
        return self


class BadArguments(Exception):
    """Rows of a column that Python's classes cannot hold: the values, in which those are Misfits, and them by index."""

    def __init__(self, values: list, bad: dict) -> None:
        self.values, self.bad = values, bad

    def of(self, name: str) -> dict:
        """The Misfits by index, told as those of an argument."""
        for at, misfit in self.bad.items():
            misfit.text, misfit.row = misfit.text.replace("argument:", f"argument {name}:", 1), at
        return self.bad


def shown(value: object) -> str:
    """repr, cut, whatever the value is up to."""
    try:
        if (type(value) is str or type(value) is bytes) and len(value) > REPR_CHARS_MAX:
            value = value[:REPR_CHARS_MAX]  # do not render megabytes
        text = str.__str__(repr(value))
        return text if len(text) <= REPR_CHARS_MAX else text[: REPR_CHARS_MAX - 3] + "..."
    except BaseException as e:
        return f"(no repr: {type_name(e)})"


def type_name(value: object) -> str:
    """type(value).__name__, past any metaclass."""
    return str.__str__(_type_name(type(value)))


def refusal(name: str, kind: str, value: object, more: str = "") -> Misfit:
    """Wanted and got; more says what is wrong with what came, where that is not its class."""
    got = "None" if value is None else f"{type_name(value)} {shown(value)}"
    wanted = f"result: wanted {kind}"
    return Misfit(name, f"{wanted}, got {got} {more}" if more else f"{wanted}, got {got}", 0, len(wanted))


def _from_numpy(value: object, names: tuple) -> bool:
    """Whether a value is one of numpy's scalars, without importing numpy."""
    kind = type(value)
    return not issubclass(kind, int) and _type_module(kind) == "numpy" and _type_name(kind) in names


def int_of(value: object) -> int:
    """The number that struct takes a value for: an int's own, whatever its class makes of __index__."""
    return int.__index__(value if issubclass(type(value), int) else index(value))


def _bool(kind: str, value: object) -> bool:
    if value is True or value is False:
        return value
    if _from_numpy(value, ("bool_", "bool")):
        return bool(value)
    raise refusal("TypeError", kind, value)


def _int(kind: str, value: object) -> int:
    if _from_numpy(value, ("bool_", "bool")):
        return int(bool(value))
    number = int_of(value)
    least, most = INT_RANGES[kind]
    if not least <= number <= most:
        raise refusal("OverflowError", kind, value)
    return number


def _rounded(kind: str, number: float, value: object) -> float:
    """The number as the column will hold it."""
    try:
        pack = _ROUNDED[kind]
        return pack.unpack(pack.pack(number))[0]
    except OverflowError:
        raise refusal("OverflowError", kind, value) from None


def float_rule(kind: str, value: object) -> float:
    """The rule of floats of any width."""
    if issubclass(type(value), float):
        number = float.__float__(value)
    elif _from_numpy(value, ("float16", "float32")):
        number = float(value)
    elif value is True or value is False or _from_numpy(value, ("bool_", "bool")):
        raise refusal("TypeError", kind, value)
    else:
        return _whole(kind, value)
    return number if kind == "float64" else _rounded(kind, number, value)


def _whole(kind: str, value: object) -> float:
    """An int is taken into a float column only if it is the same number there."""
    whole = int_of(value)
    try:
        number = float(whole)
    except OverflowError:
        raise refusal("OverflowError", kind, value) from None
    if kind != "float64":
        number = _rounded(kind, number, value)
    if number != whole:
        raise Misfit("ValueError", f"result: {shown(whole)} is not exact in {kind}")
    return number


def text_rule(kind: str, value: object) -> str:
    """The rule of text."""
    if not issubclass(type(value), str):
        raise refusal("TypeError", kind, value)
    text = value if type(value) is str else str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        misfit = refusal("ValueError", kind, text)
        misfit.text += " with a lone surrogate"
        raise misfit from None
    return text


def binary_rule(kind: str, value: object) -> bytes:
    """The rule of binary."""
    if type(value) is bytes:
        return value
    if issubclass(type(value), (bytes, bytearray, memoryview)):
        try:
            return bytes(memoryview(value))
        except ValueError:  # a memoryview that was released
            raise refusal("ValueError", kind, value) from None
    raise refusal("TypeError", kind, value)


PLAIN_RULES = {"bool": _bool, "float32": float_rule, "float64": float_rule, "utf8": text_rule, "binary": binary_rule}


def rule_of(kind: str) -> object:
    """The rule of a type: rule(kind, value) → the exact value. Raises Misfit, and what the value's own code raises."""
    if type(kind) is not str:
        from udfgate_worker.exact import rich_rule

        return rich_rule(kind)
    return PLAIN_RULES.get(kind, _int)


def unfit(kind: str, value: object) -> Misfit:
    """The misfit of a value whose own code raised while it was looked at."""
    return refusal("TypeError", kind, value)


def exact_values(kind: str, nullable: bool, values: list) -> list:
    """The values as exact instances of the type's own Python class, None where null is allowed.

    Those of a type that is not plain are in its value form: what RESULT has of them.

    float32 values are rounded as the column will hold them. Raises Misfit with the index of the first bad one.
    """
    rule = rule_of(kind)
    out = []
    for value in values:
        if value is None and nullable:
            out.append(None)
            continue
        try:
            out.append(rule(kind, value))
        except Misfit as misfit:
            misfit.row = len(out)
            raise
        except MemoryError:
            raise
        except BaseException:  # __index__ and friends are the value's own code
            misfit = refusal("TypeError", kind, value)
            misfit.row = len(out)
            raise misfit from None
    return out
