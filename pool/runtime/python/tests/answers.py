"""What the worker answers, as the tests look at it."""


class Error:
    """One error of a segment."""

    def __init__(self, row, kind, name, text, trace):
        self.row, self.kind, self.name, self.text, self.trace = row, kind, name, text, trace

    def __repr__(self):
        return f"Error(row={self.row}, kind={self.kind}, {self.name}: {self.text})"


class SegmentResult:
    """`texts`: of failed rows, from the last column of a call that keeps going; None where there is no such column.
    `index`: the input row of each value, of a table function."""

    def __init__(self, status, rows, values, nulls, errors, texts=None, index=None):
        self.status, self.rows, self.values, self.nulls, self.errors = status, rows, values, nulls, errors
        self.texts, self.index = texts, index
        self.misfit = False  # a value that the gateway would ask to RECODE


class Result:
    """A RESULT frame: its stamps by name and its segments, values decoded."""

    def __init__(self, call, fields, segments):
        self.call, self.fields, self.segments = call, fields, segments

    @property
    def values(self):
        only = self.segments[0]
        assert only.status == 0, only.errors
        return only.values

    @property
    def error(self):
        only = self.segments[0]
        assert only.status == 1, only.status
        return only.errors[0]
