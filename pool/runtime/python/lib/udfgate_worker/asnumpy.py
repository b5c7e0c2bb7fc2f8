"""numpy: columns as its arrays, and answers of its classes; pyarrow is not needed.

Numbers and bools are arrays of their own dtype, over the arena where they can be, and dates, timestamps and durations
are datetime64 and timedelta64. A column with nulls is a masked array of the same dtype, with 0 under the mask; an
object array holds None. All of them are read-only.
"""

import numpy as np

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.convert import converter
from udfgate_worker.kinds import Type, as_type, standard
from udfgate_worker.loans import Loan
from udfgate_worker.moments import DAY_MS
from udfgate_worker.strict import Misfit
from udfgate_worker.trees import reader_of
from udfgate_worker.whole import WIDTHS, Whole

DTYPES = {f"{sign}int{bits}": f"{sign[:1] or 'i'}{bits // 8}" for sign in ("u", "") for bits in (8, 16, 32, 64)}
DTYPES.update(float16="f2", float32="f4", float64="f8")
NAT = -(1 << 63)
_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def moment_dtype(type_: Type) -> str:
    """The dtype of dates, timestamps and durations, or nothing."""
    kind = type_.kind
    if kind in ("timestamp", "duration"):
        return f"{'M' if kind == 'timestamp' else 'm'}8[{type_.unit}]"
    return {"date32": "M8[D]", "date64": "M8[ms]"}.get(kind, "")


class Reader:
    """Makes the array of one argument."""

    def __init__(self, type_: Type) -> None:
        self.type_ = type_ = as_type(type_)
        self.plain = not type_.extension
        self.dtype = np.dtype(DTYPES.get(type_.kind, "O"))
        self.moment = moment_dtype(type_)
        self.tree = self.convert = None
        if not self.moment and type_.kind != "bool" and type_.kind not in DTYPES:
            self.tree, self.convert = reader_of(type_), converter(type_)

    def read(self, loan: Loan, places: list, lo: int, hi: int, nulls: int) -> tuple:
        """(rows [lo, hi), Misfits by index of those that cannot be held); as asarrow.Reader."""
        if self.tree is not None:
            values, bad = self.values(loan, places, lo, hi)
            return objects(values), bad
        values, mask, bad = self.numbers(loan, places, lo, hi, nulls)
        return self._made(values, mask), bad

    def _made(self, values: np.ndarray, mask: "np.ndarray | None") -> np.ndarray:
        """What the body gets for numbers and a mask of nulls."""
        if self.moment:
            values = values.view(self.moment)
        if mask is not None:
            values = np.where(mask, np.zeros((), values.dtype), values)
            values.flags.writeable = False
            values = np.ma.MaskedArray(values, mask)
        return values

    def given(self, values: list) -> np.ndarray:
        """The column of values that a file has written down. Raises what numpy raises over them."""
        if self.tree is not None:
            return objects(values)
        values, mask = self._parts(values)
        values.flags.writeable = False
        return self._made(values, mask)

    def _parts(self, values: list) -> tuple:
        """(values, mask or None) as numbers() has them, of Python's values; moments are int64."""
        mask = np.array([value is None for value in values], "?")
        if self.type_.zone:
            utc = standard("datetime", "timezone").utc
            values = [one if one is None else one.astimezone(utc).replace(tzinfo=None) for one in values]
        dtype = self.moment or ("?" if self.type_.kind == "bool" else self.dtype)
        made = np.array(["NaT" if self.moment else 0] * len(values), dtype)
        for at, value in enumerate(values):
            if value is not None:
                made[at] = value
        made = made.view("<i8") if self.moment else made
        return made, mask if mask.any() else None

    def values(self, loan: Loan, places: list, lo: int, hi: int) -> tuple:
        """(values as a body in row mode sees them, Misfits by index of those that cannot be held)."""
        for place in places:
            loan.check(*place)
        values = self.tree(loan.arenas.raw, iter(places), lo, hi)
        if self.convert is None:
            return values, {}
        try:
            return self.convert(values), {}
        except Misfit:
            return _checked(self.convert, values)

    def numbers(self, loan: Loan, places: list, lo: int, hi: int, nulls: int, own: bool = False) -> tuple:
        """(values, mask or None, Misfits by index) of what is not an object; moments are int64.

        own: the values are a copy that may be changed.
        """
        mask, (arena, offset, size) = self._mask(loan, places[0], lo, hi, nulls), places[1]
        memory = loan.check(arena, offset, size)
        if self.type_.kind == "bool":
            values = _bits(memory, offset, lo, hi).view("?")
        elif self.type_.kind == "date32":
            values = np.frombuffer(memory, "<i4", hi - lo, offset + 4 * lo).astype("<i8")
        else:
            width = WIDTHS[self.type_.kind]
            dtype = np.dtype("<i8") if self.moment else self.dtype
            start, size = offset + lo * width, (hi - lo) * width
            owner = None if own or mask is not None else loan.owner(arena, offset, size + lo * width)
            if owner is not None:
                values = np.asarray(owner)[start : start + size].view(dtype)
            else:
                values = np.frombuffer(memory, dtype, hi - lo, start).copy()
        values.flags.writeable = own
        return values, mask, self._nats(values, mask) if self.moment else {}

    def _mask(self, loan: Loan, place: tuple, lo: int, hi: int, nulls: int) -> "np.ndarray | None":
        if not place[2] or not nulls:
            return None
        mask = _bits(loan.check(*place), place[1], lo, hi) == 0
        return mask if mask.any() else None

    def _nats(self, values: np.ndarray, mask: "np.ndarray | None") -> dict:
        """The least int64 is no moment to numpy but NaT, which would be a null."""
        if not len(values) or values.min() != NAT:
            return {}
        found = values == NAT if mask is None else (values == NAT) & ~mask
        text = f"argument: wanted what numpy tells from NaT, got {self.type_} {NAT}"
        return {int(at): Misfit("OverflowError", text) for at in np.flatnonzero(found)}


def _checked(convert: object, values: list) -> tuple:
    made, bad = [], {}
    for at, value in enumerate(values):
        try:
            made += convert([value])
        except Misfit as misfit:
            bad[at] = misfit
            made.append(None)
    return made, bad


def _bits(memory: memoryview, offset: int, lo: int, hi: int) -> np.ndarray:
    """Bits [lo, hi) as bytes 0 and 1; lo is a multiple of 8."""
    packed = np.frombuffer(memory, "u1", (hi - lo + 7) >> 3, offset + (lo >> 3))
    return np.unpackbits(packed, count=hi - lo, bitorder="little")


def objects(values: list) -> np.ndarray:
    """A read-only object array, one-dimensional whatever the values are."""
    made = np.empty(len(values), "O")
    for at, value in enumerate(values):
        made[at] = value
    made.flags.writeable = False
    return made


class Writer:
    """Takes arrays of numbers, bools and moments, and masks: (values, mask or None)."""

    def __init__(self, type_: Type, nullable: bool) -> None:
        self.type_, self.nullable = as_type(type_), nullable
        self.want = np.dtype(DTYPES[self.type_.kind]) if self.type_.kind in DTYPES else None
        self.moment = moment_dtype(self.type_)
        self.served = not self.type_.extension

    def whole(self, values: np.ndarray, mask: "np.ndarray | None") -> "Whole | None":
        """The answer in the column's type where that is exact; None: the strict rules must decide."""
        if values.dtype.kind in "mM":
            nat = np.isnat(values)
            if nat.any():
                mask = nat if mask is None else mask | nat
        nulls = 0 if mask is None else int(mask.sum())
        if not self.served or (nulls and not self.nullable):
            return None
        if nulls and values.dtype.kind != "O":
            values = np.where(mask, np.zeros((), values.dtype), values)  # what lies there need not fit
        if self.type_.kind == "bool":
            data = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else None
        elif self.moment:
            data = self._moments(values)
        else:
            data = None if self.want is None else exact_cast(values, self.want)
        if data is None:
            return None
        valid = np.packbits(~mask, bitorder="little").data if nulls else b""
        return Whole(len(values), nulls, [valid, np.ascontiguousarray(data).view("u1").data])

    def _moments(self, values: np.ndarray) -> "np.ndarray | None":
        want = np.dtype(self.moment)
        if values.dtype.kind != want.kind:
            return None
        unit, count = np.datetime_data(values.dtype)
        if count != 1 or unit not in _PER_DAY:
            return None
        numbers = (
            values.view("i8") if values.dtype.isnative else values.astype(values.dtype.newbyteorder("=")).view("i8")
        )
        numbers = scaled(numbers, unit, np.datetime_data(want)[0])
        if numbers is None or self.type_.kind not in ("date32", "date64"):
            return numbers
        if self.type_.kind == "date64":
            return None if (numbers % DAY_MS).any() else numbers
        return exact_cast(numbers, np.dtype("i4"))


def scaled(numbers: np.ndarray, have: str, want: str) -> "np.ndarray | None":
    """Numbers of one unit in another, or None where one of them is not exact there."""
    up, down = _PER_DAY[want], _PER_DAY[have]
    if up >= down:
        factor = up // down
        if factor > 1 and len(numbers) and max(-int(numbers.min()), int(numbers.max())) > ((1 << 63) - 1) // factor:
            return None
        return numbers * factor if factor > 1 else numbers
    made, rest = np.divmod(numbers, down // up)
    return None if rest.any() else made


def exact_cast(values: np.ndarray, want: np.dtype) -> "np.ndarray | None":
    """Numbers as those of another dtype as the strict rules have it, or None where they may refuse one."""
    have = values.dtype
    if have == want:
        return values
    if want.kind in "iu":
        if have.kind not in "iub":
            return None
        if len(values) and have.kind != "b":
            bounds = np.iinfo(want)
            if int(values.min()) < bounds.min or int(values.max()) > bounds.max:
                return None
        return values.astype(want)
    if have.kind in "iu":
        most = 1 << np.finfo(want).nmant + 1
        if len(values) and (int(values.max()) > most or int(values.min()) < -most):
            return None
        return values.astype(want)
    if have.kind != "f" or have.itemsize > 8:
        return None
    with np.errstate(over="ignore", under="ignore"):
        made = values.astype(want)
    if want.itemsize < have.itemsize and (np.isinf(made) & ~np.isinf(values)).any():
        return None
    return made


def listed(values: np.ndarray, mask: "np.ndarray | None") -> list:
    """An answer as values for the strict rules."""
    if values.dtype.kind in "mM":
        made = _moments_listed(values)
    elif values.dtype.kind == "f" and values.dtype.itemsize > 8:
        made = list(values)
    else:
        made = values.tolist()
    if mask is not None:
        made = [None if gone else value for value, gone in zip(made, mask.tolist())]
    return made


def _moments_listed(values: np.ndarray) -> list:
    """Moments as datetime's classes, those that these do not hold as they are."""
    unit, count = np.datetime_data(values.dtype)
    kind = values.dtype.kind
    if kind == "M" and count == 1 and unit in ("D", "M", "Y"):
        fine = values.astype("M8[D]")
    elif scaled(values[~np.isnat(values)].view("i8"), unit, "us") is None:  # finer, or beyond 64 bits
        return [_moment(one) for one in values]
    else:
        fine = values.astype(f"{kind}8[us]")
    return [value if type(one) is int else one for one, value in zip(fine.tolist(), list(values))]


def _moment(value: np.generic) -> object:
    """The same of one moment."""
    if np.isnat(value):
        return None
    unit = np.datetime_data(value.dtype)[0]
    if unit not in _PER_DAY or scaled(np.array([value]).view("i8"), unit, "us") is None:
        return value
    made = value.astype(f"{value.dtype.kind}8[us]").item()
    return value if type(made) is int else made


def parts_of(answer: np.ndarray) -> tuple:
    """(values, mask or None) of an array of numpy's."""
    if isinstance(answer, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(answer)
        if answer.dtype.names:  # a mask per member
            return np.asarray(answer.data), None
        return np.asarray(answer.data), mask if mask.any() else None
    return np.asarray(answer), None


def spread(values: np.ndarray, mask: "np.ndarray | None", seen: list, rows: int) -> tuple:
    """An answer for the rows seen as one for all rows, masked elsewhere."""
    made, gone = np.zeros(rows, values.dtype), np.ones(rows, "?")
    made[seen] = values
    gone[seen] = False if mask is None else mask
    return made, gone
