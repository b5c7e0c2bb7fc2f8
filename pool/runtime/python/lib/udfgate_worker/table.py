"""Table functions: any number of rows for each input row, in parts. Between two parts the body's generator stands still.

A part is what the body yields until it has PART_ROWS_MAX rows, or a row comes when PART_NS have passed since the
gateway asked for it. Nothing is asked of a generator ahead of that: what follows is found out when the gateway asks.
"""

from array import array
from itertools import islice, repeat
from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.errors import Failure, all_rows, failed_text, raised, text_of
from udfgate_worker.frames import (
    ARENA,
    BYE,
    CALL,
    DONE,
    FAILED,
    FORM_ARROW,
    HEADER,
    MISFIT,
    NEXT,
    NEXT_END,
    NEXT_HEAD,
    RECODE,
    SKIPPABLE,
    TOO_LARGE,
    ProtocolError,
)
from udfgate_worker.function import Function
from udfgate_worker.iterators import GENERATOR, Awaited, begun, let_go
from udfgate_worker.keeping import Keeper, exact_or_failed, rows_failed
from udfgate_worker.modes import Clock
from udfgate_worker.region import TooLarge, tidied
from udfgate_worker.result import Outcome, Times
from udfgate_worker.rows import PART_BYTES_MAX, SIZED, copier, fitting, weight
from udfgate_worker.segment import Segment, read_block
from udfgate_worker.strict import Misfit, exact_values, type_name

PART_ROWS_MAX = 1024
LOOK_NS = 1_000_000  # how often rows are weighed: what is made meanwhile is not much
GROW_PARTS = 8  # parts of the most rows for which there was room, before a larger one is tried
PART_NS = 100_000_000  # no further row is waited for after this, or half of the part's time limit if that is less


class Table:
    """What a function of kind table has beside the rest. `direct`: each call of its body makes a generator of its own.

    `members`: how many members its rows have, if they are structs that may come as lists; else 0.
    """

    def __init__(self, direct: bool, members: int) -> None:
        self.direct, self.members = direct, members

    def tuples(self, values: list) -> list:
        """Rows that came as lists are tuples to the encoders."""
        members = self.members
        if not members or not any([type(value) is list for value in values]):
            return values
        return [tuple(value) if type(value) is list and len(value) == members else value for value in values]


class _Unheld:
    """Stands for the arguments of a row that Python cannot hold: raises when the body is to be called with them."""

    def __init__(self, misfit: Misfit) -> None:
        self.misfit = misfit

    def __iter__(self) -> object:
        raise self.misfit


class _Part:
    """What one part holds: values, the input row of each, and the texts of failed rows by index.

    `failure`: the first row that failed, where the call does not keep going. `more`: the rows may not be at their end.
    """

    def __init__(self) -> None:
        self.values: list = []
        self.owners: list = []
        self.failed: dict = {}
        self.failure: Failure | None = None
        self.more = False

    def first(self, count: int) -> "_Part":
        """The first rows alone."""
        part = _Part()
        part.values, part.owners, part.more = self.values[:count], self.owners[:count], True
        part.failed = {at: text for at, text in self.failed.items() if at < count}
        return part

    def after(self, count: int, gone: int) -> "_Part":
        """The rows behind the first ones, without those of an input row that is over."""
        while count < len(self.owners) and self.owners[count] == gone:
            count += 1
        part = _Part()
        part.values, part.owners, part.more = self.values[count:], self.owners[count:], self.more
        part.failed = {at - count: text for at, text in self.failed.items() if at >= count}
        return part


class Sent:
    """A part that RECODE may ask for again: its owners, and the run that it is of."""

    def __init__(self, run: "Run", part: _Part) -> None:
        self.run, self.owners, self.more = run, part.owners, part.more

    def again(self, values: list, texts: list) -> Outcome:
        """Encode the part once more under the strict rules: values as they stand in the arena, texts of failed rows."""
        part = _Part()
        part.values, part.owners, part.failed = values, self.owners, rows_failed(texts)
        self.run.region.used = 0
        outcome = self.run.guarded(part, True)
        self.owners = part.owners
        if outcome.status != DONE:
            self.more = False
            self.run.stop()
        return outcome


class Run:
    """One CALL of a table function."""

    def __init__(self, calls: object, function: Function, segment: Segment, step: int, flags: tuple) -> None:
        """flags: whether to measure the processor, whether to keep going after a failed row."""
        self.calls, self.region, self.function, self.segment, self.step = calls, calls.region, function, segment, step
        self.keep = flags[1]
        self.clock = Clock(flags[0])
        self.row, self.number = segment.lo, 0  # first of the next block, and the block's number
        self.pairs: object = iter(())  # (row, arguments) of what is left of the block
        self.iterator = None
        self.owner = segment.lo
        self.due = 0  # the part goes with the first row that comes at this instant or later
        self.look = self.weighed = self.weight = 0  # when to weigh rows; how many were, and bytes of them
        self.copy = copier(function.encoder.type_name)
        self.over = False
        self.most = PART_ROWS_MAX  # rows of a part; less once there was no room for one
        self.fitted = self.fits = 0  # parts of so many rows since, and the last number of rows that had room
        self.sized = function.encoder.type_name in SIZED
        self.rest: _Part | None = None  # what has been run and did not find room
        self.gone = -1  # an input row of which a value did not fit
        self.aside: list[bytes] = []  # frames for after this call

    # rows in

    def _block(self) -> bool:
        """Read the next block of input rows; False if there is none."""
        segment, lo = self.segment, self.row
        if lo >= segment.hi:
            return False
        at = monotonic_ns()
        top = min(lo + self.step, segment.hi)
        columns, bad = read_block(self.function, segment, lo, top, self.number)
        pairs = zip(range(lo, top), zip(*columns) if columns else repeat((), top - lo))
        # Lists, because a generator of ours would end, and with it the block, by what a signal handler raises within it.
        if self.function.skip and any([segment.fields[i + 2] for _, i in segment.readers]):
            pairs = iter([(row, args) for row, args in pairs if None not in args])
        if bad:
            pairs = iter([(row, _Unheld(bad[row - lo]) if row - lo in bad else args) for row, args in pairs])
        self.pairs, self.row, self.number = pairs, top, self.number + 1
        self.clock.decode += monotonic_ns() - at
        return True

    def _pull(self, part: _Part) -> None:
        """Fill a part. Two rows that take half of its time limit each do not reach it together."""
        remaining = self.calls.facts[3]
        self.due = monotonic_ns() + (min(PART_NS, remaining // 2) if remaining else PART_NS)
        self.look = self.weighed = self.weight = 0
        while True:
            self.clock.start()
            try:
                part.more = self._run(part)
            finally:
                self.clock.stop()
            if part.more:
                return
            self.pairs = iter(())  # lets the columns of the block go
            if self.over or not self._block():
                return

    def _run(self, part: _Part) -> bool:
        """Run the rows of a block: True if the part is to go, False if the block has come to its end or a row failed.

        A generator may be slow after any row, so the clock is looked at after each, for some 50 ns.
        """
        values, owners, pairs = part.values, part.owners, self.pairs
        extend, append = values.extend, values.append
        body, direct, begin, now = self.function.body, self.function.table.direct, begun, monotonic_ns
        iterator, row, look, most, copy = self.iterator, self.owner, self.look, self.most, self.copy
        have, own = len(owners), owners.append  # have: rows of input rows that are at their end
        try:
            while True:
                try:
                    while True:
                        if iterator is None:
                            entry = next(pairs, None)
                            if entry is None:
                                return False
                            row, args = entry
                            iterator = body(*args) if direct else begin(body(*args))
                        room, its = most - len(values), type(iterator)
                        if its is GENERATOR:
                            rows = islice(iterator, room)
                            for value in rows if copy is None else map(copy, rows):
                                append(value)
                                if now() >= look:
                                    look = self._looked(values)
                                    if not look:
                                        return True
                        elif its is Awaited:
                            extend(iterator.take(room, self.due, copy))
                            if iterator.steps.full:
                                return True
                        else:  # of a list no row is slow
                            extend(islice(iterator, room) if copy is None else map(copy, islice(iterator, room)))
                        count = len(values)
                        if count >= most:
                            return True
                        iterator = None  # the row's end
                        if count - have == 1:
                            own(row)
                        elif count > have:
                            owners += [row] * (count - have)
                        have = count
                        if now() >= look:  # also after rows without results: their time is a part's, too
                            look = self._looked(values)
                            if not look:
                                return True
                except BaseException as e:
                    iterator = args = entry = value = rows = None
                    owners += [row] * (len(values) - len(owners))
                    if not self._failed(part, row, e):
                        return False
                have = len(values)
                if have >= most or now() >= self.due:
                    return True
        finally:
            self.iterator, self.owner = iterator, row
            owners += [row] * (len(values) - len(owners))

    def _looked(self, values: list) -> int:
        """When to look at the clock and the weight of the rows again, or 0: the part is to go."""
        at = monotonic_ns()
        self.weight += sum(map(weight, islice(values, self.weighed, None)))
        self.weighed = len(values)
        self.look = 0 if at >= self.due or self.weight >= PART_BYTES_MAX else min(self.due, at + LOOK_NS)
        return self.look

    def _failed(self, part: _Part, row: int, error: BaseException) -> bool:
        """A row has raised, or cannot be run: note it. Whether the rows after it are to be run."""
        misfit = type(error) is Misfit
        if not self.keep:
            part.failure = Failure(row, MISFIT, error.name, error.text) if misfit else raised(row, error)
            self.over = True
            return False
        text = failed_text(error.name, error.text) if misfit else failed_text(type_name(error), text_of(error))
        part.failed[len(part.values)] = text
        part.values.append(None)
        part.owners.append(row)
        return True

    # answers out

    def part(self, times: Times) -> tuple:
        """(Outcome, _Part) of the next part; adds to the times."""
        clock, region, part, self.rest = self.clock, self.region, self.rest, None
        clock.decode = clock.body = clock.cpu = 0
        region.used = region.waited = 0
        if part is None:
            part = _Part()
            self._pull(part)
            part.values = self.function.table.tuples(part.values)
        at = monotonic_ns()
        outcome, part = self._fitting(part)
        times.decode, times.body, times.cpu = clock.decode, clock.body, clock.cpu
        times.encode = max(0, monotonic_ns() - at - region.waited)
        if outcome.status != DONE:
            part.more = False
            self.stop()
        part.values = []  # the caller may be long in taking the part
        return outcome, part

    def _fitting(self, part: _Part) -> tuple:
        """(Outcome, _Part): where the gateway refuses room for all of a part it is half of it, and so on; the rest waits.

        The next parts begin with what had room.
        """
        whole, count, self.gone = part, len(part.values), -1
        if whole.failure is None:
            count = fitting(part.values[: self.most]) if self.sized else min(count, self.most)
            part = whole if count == len(part.values) else whole.first(count)
        outcome = self.guarded(part, False)
        while outcome.status == TOO_LARGE and count > 1 and whole.failure is None:
            count, self.fits = self.fits if 0 < self.fits < count else count // 2, 0
            self.most, self.fitted, part = count, 0, whole.first(count)
            self.region.used, self.gone = 0, -1
            outcome = self.guarded(part, False)
        if outcome.status == DONE and count == self.most:
            self.fits, self.fitted = count, self.fitted + 1
            if self.fitted >= GROW_PARTS:
                self.most, self.fitted = min(PART_ROWS_MAX, count + count // 4 + 1), 0
        if part is not whole and outcome.status == DONE:
            self.rest = whole.after(count, self.gone)
        return outcome, part

    def guarded(self, part: _Part, strictly: bool) -> Outcome:
        """Encode a part; strictly: it is one that the gateway does not take."""
        lo = self.segment.lo
        try:
            if not self.keep:
                return self._encode(part, strictly)
            outcome = None if strictly else self._encode_keeping(part, False)
            if outcome is None:
                exact = self._strict(part)
                outcome = self._encode_keeping(exact, True)
                part.owners = exact.owners
            return outcome
        except TooLarge:
            return Outcome(TOO_LARGE, lo)
        except BaseException as e:
            if issubclass(type(e), ProtocolError):
                raise
            return Outcome(FAILED, lo, 0, None, all_rows(e))

    def _encode(self, part: _Part, strictly: bool) -> Outcome:
        """The values as they come, up to the first that does not fit. The smallest row wins: it may be before a raise."""
        encoder, step, values, at = self.function.encoder, self.step, part.values, 0
        encoder.begin(self.region, len(values), step)
        try:
            if strictly:
                values = exact_values(encoder.type_name, encoder.nullable, values)
                for at in range(0, len(values), step):
                    encoder.put_exact(values[at : at + step])
            elif part.failure is not None:
                encoder.check(values)
                return Outcome(FAILED, self.segment.lo, 0, None, part.failure)
            else:
                for at in range(0, len(values), step):
                    encoder.put(values[at : at + step] if step < len(values) else values)
        except Misfit as e:
            failure = Failure(part.owners[at + e.row], MISFIT, e.name, e.text)
            return Outcome(FAILED, self.segment.lo, 0, None, failure)
        return self._done(part, encoder.end(), None)

    def _encode_keeping(self, part: _Part, exact: bool) -> "Outcome | None":
        """The values as they come, or exact ones. None: they have to be looked at one by one."""
        region, step, count = self.region, self.step, len(part.values)
        region.used = 0
        keeper = Keeper(self.function.encoder, region, count, step)
        for at in range(0, count, step):
            top = min(at + step, count)
            failed = {index - at: text for index, text in part.failed.items() if at <= index < top}
            if exact:
                keeper.put_exact(part.values[at:top], failed)
            elif not keeper.fast(part.values[at:top] if step < count else part.values, failed):
                return None
        return self._done(part, *keeper.end())

    def _strict(self, part: _Part) -> _Part:
        """The exact values of a part. At the first value of a row that does not fit the row is over: what it had yielded
        after that is taken out of the part, and nothing more is asked of its generator.
        """
        encoder, exact, over = self.function.encoder, _Part(), -1
        for at, (value, row) in enumerate(zip(part.values, part.owners)):
            if row == over:
                continue
            text = part.failed.get(at)
            if text is None:
                found: dict = {}
                (value,) = exact_or_failed(encoder.type_name, encoder.nullable, [value], found)
                if found:
                    text, over = found[0], row
            if text is not None:
                exact.failed[len(exact.values)] = text
            exact.values.append(value)
            exact.owners.append(row)
        if over == self.owner:
            self._let_go()
        if self.rest is not None:
            self.rest = self.rest.after(0, over)
        self.gone = over
        return exact

    def _done(self, part: _Part, column: tuple, errors: "tuple | None") -> Outcome:
        region, outcome = self.region, Outcome(DONE, self.segment.lo, len(part.owners), column)
        data = array("i", part.owners).tobytes()
        at = region.take(len(data))
        region.view[region.base + at : region.base + at + len(data)] = data
        outcome.index, outcome.errors = (FORM_ARROW, 0, 0, 0, 0, at, len(data)), errors
        return outcome

    # the end

    def _let_go(self) -> None:
        """Close the generator of the row that is running, whatever it does about it."""
        iterator, self.iterator = self.iterator, None
        let_go(iterator)

    def stop(self) -> None:
        """Run no further row."""
        self.over, self.pairs, self.row, self.rest = True, iter(()), self.segment.hi, None
        self._let_go()

    def ended(self, times: Times) -> tuple:
        """(Outcome, _Part) of the empty last part of a body that the gateway has ended; adds to the times."""
        at = monotonic_ns()
        self.stop()
        times.body = monotonic_ns() - at
        self.region.used = self.region.waited = 0
        part = _Part()
        return self.guarded(part, False), part

    def asked(self, calls: object) -> tuple:
        """Wait for NEXT: (instant at which it came, time left, whether the body is to end).

        The instant is 0 if the call is over without it.
        """
        link, region, call = calls.link, self.region, self.region.call
        while not self.over:
            frame = kind, flags, about, at, length = link.frame()
            now = monotonic_ns()
            if kind == NEXT and about == call:
                if length < NEXT_HEAD.size:
                    raise ProtocolError(f"NEXT of {length} bytes")
                remaining, bits, _ = NEXT_HEAD.unpack_from(link.buffer, at)
                return now, remaining, bits & NEXT_END != 0
            if kind == RECODE:
                calls.recode(about)
            elif kind == ARENA:
                region.take_up(flags, at, length)
            elif kind == CALL:
                self.aside.append(HEADER.pack(length, kind, flags, about) + link.buffer[at : at + length])
            elif kind == BYE:
                self.aside.append(HEADER.pack(length, kind, flags, about))
                self.stop()
            elif not tidied(link, calls.arenas, frame) and not flags & SKIPPABLE:
                raise ProtocolError(f"frame of type {kind} is not expected while a table function waits for NEXT")
        return 0, 0, True
