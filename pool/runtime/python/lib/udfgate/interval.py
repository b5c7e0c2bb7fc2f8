"""The value of an interval column."""

from operator import itemgetter


class Interval(tuple):
    """Months, days and nanoseconds, none of which stands for another: a month is no number of days. A named tuple."""

    __slots__ = ()
    _fields = __match_args__ = ("months", "days", "nanoseconds")

    def __new__(cls, months: int = 0, days: int = 0, nanoseconds: int = 0) -> "Interval":
        """Each part an int of any sign; what the column holds of it is checked when it is returned."""
        return tuple.__new__(cls, (months, days, nanoseconds))

    months = property(itemgetter(0))
    days = property(itemgetter(1))
    nanoseconds = property(itemgetter(2))

    def __getnewargs__(self) -> tuple:
        return tuple(self)

    def __repr__(self) -> str:
        return "Interval(months=%r, days=%r, nanoseconds=%r)" % self
