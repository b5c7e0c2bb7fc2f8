"""How many combinations were compared, and how many differ: printed when the tests are over."""

from __future__ import annotations

from collections import Counter


class Tally:
    """Counts by table of tests."""

    def __init__(self) -> None:
        self.compared: Counter[str] = Counter()
        self.different: Counter[str] = Counter()
        self.notes: list[str] = []

    def compare(self, table: str, what: str, wanted: object, got: object) -> list[str]:
        """Counts one combination; what differs in it, in a line."""
        self.compared[table] += 1
        if wanted == got:
            return []
        self.different[table] += 1
        if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
            at = next(at for at, (one, other) in enumerate(zip(wanted, got)) if one != other)
            return [f"{what}: row {at}: wanted {wanted[at]!r:.300}, got {got[at]!r:.300}"]
        return [f"{what}: wanted {wanted!r:.300}, got {got!r:.300}"]

    def lines(self) -> list[str]:
        lines = [f"values: {table}: {n} compared, {self.different[table]} differ" for table, n in self.compared.items()]
        return lines + self.notes


TALLY = Tally()
