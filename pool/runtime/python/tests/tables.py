"""The gateway's side of table functions: parts, and NEXT for each further one."""

import struct

from gateway import RECODE

NEXT = 18
END = 1  # flag of NEXT: the body is to end
MORE = 1  # flag of RESULT
KEEP = 2  # flag of CALL
# Put in front of a source, this leaves the size of its parts to the rows alone: on a busy machine the clock closes some
# early, and what a test says of 1,024 rows would depend on who else computes.
UNHURRIED = "import udfgate_worker.table\nudfgate_worker.table.PART_NS = 3600 * 10**9\n"


class Parts:
    """One CALL of a table function. Iterating over it asks for one part after the other: SegmentResults."""

    def __init__(self, gate, name, *columns, block=4096, **options):
        self.gate, self.name, self.fields = gate, name, []
        self.call = gate.send_call(name, *columns, block=block, **options)
        self.more = True

    def __iter__(self):
        asked = True
        while self.more:
            if not asked:
                self.next()
            asked = False
            yield self.read()

    def next(self, flags=0):
        self.gate.put(NEXT, self.call, struct.pack("<QII", 0, flags, 0))

    def read(self):
        """The part that comes, once more if the gateway would not take it."""
        part = self.result()
        if part.misfit:
            self.gate.put(RECODE, self.call)
            part = self.result()
            assert not part.misfit
        return part

    def result(self):
        result = self.gate.result(self.name)
        assert result.call == self.call
        self.more = result.fields["flags"] == MORE
        self.fields.append(result.fields)
        (part,) = result.segments
        assert part.status == 0 or not self.more
        if part.status == 0:
            assert part.rows <= 1024 and len(part.index) == part.rows
        return part

    def end(self):
        """End the body: the empty last part."""
        self.next(END)
        part = self.read()
        assert not self.more and part.status == 0 and part.rows == 0, (self.more, part.status, part.rows)
        return part


def table(gate, name, *columns, **options):
    """All parts of a call as one: (input row, value) of each row, or with its text where one failed."""
    rows = []
    for part in Parts(gate, name, *columns, **options):
        assert part.status == 0, part.errors
        texts = part.texts or [None] * part.rows
        rows += [
            (at, value) if text is None else (at, value, text)
            for at, value, text in zip(part.index, part.values, texts)
        ]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows), "rows out of order"
    return rows


def failure(gate, name, *columns, **options):
    """The error that ends a call, and what had been answered before it."""
    rows = []
    for part in Parts(gate, name, *columns, **options):
        if part.status:
            (error,) = part.errors
            return error, rows
        rows += zip(part.index, part.values)
    raise AssertionError(f"no error in {len(rows)} rows")
