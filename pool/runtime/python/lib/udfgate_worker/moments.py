"""Dates, times, timestamps and durations: between the integers of a column and datetime's classes.

    reading(type)   → (run, least): run(ints) gives an iterable of values, or raises; wanted in words
    writing(type)   → (class, run): run(values of that class) gives a list of ints, or raises

run works on whole columns, by maps over C functions: 30 to 400 ns a value, where a loop takes twice that.
"""

from _operator import add, floordiv, mod, mul, sub
from itertools import repeat
from sys import modules

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.kinds import UNITS, Inexact, Type, standard
from udfgate_worker.strict import Misfit, refusal
from udfgate_worker.typenames import Unserved

date, datetime, time, timedelta = [standard("datetime", name) for name in ("date", "datetime", "time", "timedelta")]
timezone = standard("datetime", "timezone")
utc = timezone.utc
EPOCH_DAY = date(1970, 1, 1).toordinal()
DAY_MS = 86_400_000
_SCALARS = {  # pyarrow's by the kinds that they are
    "Date32Scalar": ("date32", "date64"),
    "Date64Scalar": ("date32", "date64"),
    "Time32Scalar": ("time32", "time64"),
    "Time64Scalar": ("time32", "time64"),
    "TimestampScalar": ("timestamp",),
    "DurationScalar": ("duration",),
}
_EPOCH = datetime(1970, 1, 1)
_MIDNIGHT = datetime(1, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DATES_MAX = 16_384  # dates kept, 1.5 MiB


class _Dates(dict):
    """Dates by days since 1970: columns have few of them, and making one takes longer than finding it."""

    def __missing__(self, day: int) -> object:
        made = date.fromordinal(day + EPOCH_DAY)
        if len(self) < _DATES_MAX:
            self[day] = made
        return made


_dates = _Dates()


def zone_of(name: str) -> object:
    """The tzinfo of a zone's name or offset. Raises Unserved."""
    if name.upper() in ("UTC", "Z", "ETC/UTC", "+00:00", "-00:00"):
        return utc
    if name[:1] in ("+", "-"):
        digits = name[1:].replace(":", "")
        if len(digits) in (2, 4) and digits.isascii() and digits.isdigit() and int(digits[2:] or 0) < 60:
            minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
            if minutes < 24 * 60:
                return timezone(timedelta(minutes=minutes if name[0] == "+" else -minutes))
        raise Unserved(f"{name} is no offset such as +05:30")
    try:
        return standard("zoneinfo", "ZoneInfo")(name)
    except ImportError:
        raise Unserved(f"the time zone {name} is not known: this Python has no zoneinfo") from None
    except Unserved:
        raise
    except Exception:  # zoneinfo.ZoneInfoNotFoundError, ValueError for a path
        raise Unserved(f"the time zone {name} is not known here") from None


def _scaled(unit: str, values: list) -> object:
    """Microseconds of numbers of a unit. Raises Inexact."""
    per = UNITS[unit]
    if per == 10**6:
        return values
    if per < 10**6:
        return map(mul, values, repeat(10**6 // per))
    if any(map(mod, values, repeat(1000))):
        raise Inexact
    return map(floordiv, values, repeat(1000))


def _unscaled(unit: str, micros: list) -> list:
    """Numbers of a unit of microseconds. Raises Inexact."""
    per = UNITS[unit]
    if per == 10**6:
        return micros
    if per > 10**6:
        return list(map(mul, micros, repeat(1000)))
    if any(map(mod, micros, repeat(10**6 // per))):
        raise Inexact
    return list(map(floordiv, micros, repeat(10**6 // per)))


def _spans(unit: str, values: list) -> object:
    return map(mul, repeat(_MICROSECOND), _scaled(unit, values))


def _micros(spans: object) -> list:
    return [(span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds for span in spans]


def reading(type_: Type) -> tuple:
    """(run, what Python holds). Raises Unserved."""
    kind, unit = type_.kind, type_.unit
    if kind == "date32":
        return lambda values: map(_dates.__getitem__, values), "a year from 1 to 9999"
    if kind == "date64":
        return _read_date64, "a whole day of a year from 1 to 9999"
    finer = " and whole microseconds" if unit == "ns" else ""
    if kind == "duration":
        return lambda values: _spans(unit, values), "at most 999999999 days" + finer
    if kind in ("time32", "time64"):
        day = 86_400 * UNITS[unit]

        def read(values: list) -> object:
            if values and not 0 <= min(values) <= max(values) < day:
                raise OverflowError
            return map(datetime.time, map(add, repeat(_MIDNIGHT), _spans(unit, values)))

        return read, "a time of day" + finer
    held = "a year from 1 to 9999" + finer
    if not type_.zone:
        return lambda values: map(add, repeat(_EPOCH), _spans(unit, values)), held
    zone = zone_of(type_.zone)
    epoch = _EPOCH.replace(tzinfo=zone)
    if zone is utc or type(zone) is timezone:
        epoch = _EPOCH.replace(tzinfo=utc).astimezone(zone)  # a fixed offset: adding is exact
        return lambda values: map(add, repeat(epoch), _spans(unit, values)), held
    return lambda values: map(zone.fromutc, map(add, repeat(epoch), _spans(unit, values))), held


def _read_date64(values: list) -> object:
    if any(map(mod, values, repeat(DAY_MS))):
        raise Inexact
    return map(_dates.__getitem__, map(floordiv, values, repeat(DAY_MS)))


def of_scalar(kind: Type, scalar: object) -> int:
    """The number of one of pyarrow's scalars, which is beyond what Python's classes hold, in a column of this type.

    Raises Misfit.
    """
    number, its = getattr(scalar, "value", None), type(scalar).__name__
    if kind.kind not in _SCALARS.get(its, ()) or type(number) is not int:
        raise refusal("TypeError", kind, scalar)
    have = scalar.type
    zone = getattr(have, "tz", None)
    if bool(zone) != bool(kind.zone):
        raise refusal("TypeError", kind, scalar, "with a time zone" if zone else "without a time zone")
    if its in ("Date32Scalar", "Date64Scalar"):
        per, wanted = 1 if its == "Date32Scalar" else DAY_MS, 1 if kind.kind == "date32" else DAY_MS
        if number % per:
            raise refusal("ValueError", kind, number, f"of {have}: no whole day")
    else:
        per, wanted = UNITS[have.unit], UNITS[kind.unit]
    time_of_day = its in ("Time32Scalar", "Time64Scalar")
    if time_of_day and not 0 <= number < 86_400 * per:
        raise refusal("OverflowError", kind, number, f"of {have}: no time of day")
    exact, rest = divmod(number * wanted, per)
    if rest:
        raise Misfit("ValueError", f"result: {number} of {have} is not exact in {kind}")
    bits = 31 if kind.kind in ("date32", "time32") else 63
    if not -(1 << bits) <= exact < 1 << bits:
        raise refusal("OverflowError", kind, number, f"of {have}")
    if _is_held(scalar):  # one of the body's own, which are not taken elsewhere either
        raise refusal("TypeError", kind, scalar)
    return exact


def _is_held(scalar: object) -> bool:
    """Whether one of Python's own values is the same."""
    try:
        return modules["pyarrow"].scalar(scalar.as_py(), scalar.type).equals(scalar)
    except Exception:
        return False


def writing(type_: Type) -> tuple:
    """(class, run). run raises for what is not exact in the type. Ranges of the column's integers are not checked."""
    kind, unit = type_.kind, type_.unit
    if kind == "date32":
        return date, lambda values: list(map(sub, map(date.toordinal, values), repeat(EPOCH_DAY)))
    if kind == "date64":
        return date, lambda values: [(day - EPOCH_DAY) * DAY_MS for day in map(date.toordinal, values)]
    if kind == "duration":
        return timedelta, lambda values: _unscaled(unit, _micros(values))
    if kind in ("time32", "time64"):

        def write(values: list) -> list:
            if any([value.tzinfo is not None for value in values]):
                raise Inexact
            return _unscaled(
                unit, [((v.hour * 60 + v.minute) * 60 + v.second) * 1_000_000 + v.microsecond for v in values]
            )

        return time, write
    epoch = _EPOCH.replace(tzinfo=utc) if type_.zone else _EPOCH  # minus it refuses what is naive, or aware
    return datetime, lambda values: _unscaled(unit, _micros(map(sub, values, repeat(epoch))))
