"""Answers that keep going: a row that failed is null, and a column of texts beside the values says why."""

from _operator import is_
from itertools import repeat
from marshal import dumps
from struct import Struct

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.encode import Blocks, Flat
from udfgate_worker.errors import failed_text, text_of
from udfgate_worker.frames import FORM_MARSHAL
from udfgate_worker.region import Region
from udfgate_worker.strict import Misfit, rule_of, type_name, unfit

_COUNT = Struct("<I")


class Keeper:
    """Writes the values of one segment and the texts of its failed rows.

    Texts are kept as they will stand in the answer, and the room for them is asked for while they come: what a segment
    full of failures holds in this process is never more than the gateway grants its answer.
    """

    def __init__(self, encoder: "Flat | Blocks", region: Region, rows: int, step: int) -> None:
        encoder.begin(region, rows, step)
        self.encoder, self.region, self.rows, self.step = encoder, region, rows, step
        self.done = self.size = 0  # rows put; bytes of texts
        self.texts: list[bytes] = []  # marshal blocks; none before the first row fails

    def put(self, values: list, failed: dict) -> None:
        """The next block. failed has the text of each row that failed, by index; the values there are None."""
        if not self.fast(values, failed):
            self.put_strictly(values, failed)

    def fast(self, values: list, failed: dict) -> bool:
        """Put the next block, or False: the strict rules must decide."""
        encoder = self.encoder
        if not failed or encoder.nullable:
            taken = encoder.fast(values)
        elif encoder.marshal or sum(map(is_, values, repeat(None))) == len(failed):
            # Nulls that are not failed rows' are the gateway's to find in marshal blocks: it asks to RECODE.
            encoder.nullable = True
            try:
                taken = encoder.fast(values)
            finally:
                encoder.nullable = False
        else:
            taken = False
        if taken:
            self._note(len(values), failed)
        return taken

    def put_strictly(self, values: list, failed: dict) -> None:
        """The same, value by value under the strict rules: what does not fit becomes null, and a text in failed."""
        encoder = self.encoder
        self.put_exact(exact_or_failed(encoder.type_name, encoder.nullable, values, failed), failed)

    def put_exact(self, values: list, failed: dict) -> None:
        """The next block, of exact values."""
        self.encoder.put_exact(values)
        self._note(len(values), failed)

    def _note(self, count: int, failed: dict) -> None:
        if failed and not self.texts and self.done:
            whole, rest = divmod(self.done, self.step)
            self.texts = [_good(self.step)] * whole + ([_good(rest)] if rest else [])
            self.size = sum(map(len, self.texts))
        self.done += count
        if not failed and not self.texts:
            return
        texts = _good(count)
        if failed:
            column: list = [None] * count
            for at, text in failed.items():
                column[at] = text
            texts = dumps(column, 4)
        self.texts.append(texts)
        self.size += len(texts)
        need = self.encoder.size() + 8 * (len(self.texts) + 1) + self.size
        if need > self.region.limit:
            self.region.room(need, need * self.rows // self.done + 4096)

    def end(self) -> tuple:
        """The column of values, and that of texts or None, as they stand in RESULT."""
        column = self.encoder.end()
        if not self.texts:
            return column, None
        out, blocks = self.region, len(self.texts)
        index = out.take(8 * (blocks + 1))
        at = out.take(self.size)
        ends = [0]
        for block in self.texts:
            ends.append(ends[-1] + len(block))
        Struct("<%dQ" % (blocks + 1)).pack_into(out.view, out.base + index, *ends)
        start = out.base + at
        for block, end in zip(self.texts, ends):
            out.view[start + end : start + end + len(block)] = block
        return column, (FORM_MARSHAL, blocks, 0, index, 8 * (blocks + 1), at, self.size)


def exact_or_failed(kind: str, nullable: bool, values: list, failed: dict) -> list:
    """As strict.exact_values, but what does not fit becomes None, and its text goes into failed under its index.

    Rows that are in failed already stay as they are.
    """
    rule, out = rule_of(kind), []
    for at, value in enumerate(values):
        exact = None
        if value is not None or not (nullable or at in failed):
            try:
                exact = rule(kind, value)
            except Misfit as misfit:
                failed[at] = failed_text(misfit.name, misfit.text)
            except MemoryError as e:
                failed[at] = failed_text(type_name(e), text_of(e))
            except BaseException:  # __index__ and friends are the value's own code
                misfit = unfit(kind, value)
                failed[at] = failed_text(misfit.name, misfit.text)
        out.append(exact)
    return out


def rows_failed(texts: list) -> dict:
    """The texts of a block by index."""
    return {at: text for at, text in enumerate(texts) if text is not None}


def _good(count: int) -> bytes:
    """The texts of a block in which no row failed, as marshal writes them."""
    return b"[" + _COUNT.pack(count) + b"N" * count
