"""CALL → RESULT, and RECODE."""

import os
from marshal import loads
from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.errors import all_rows, encode_failed, misfit, no_row, raised
from udfgate_worker.frames import (
    BLOCK_ROWS_MAX,
    CALL_BYTES,
    CALL_HEAD,
    DONE,
    FAILED,
    FORM_MARSHAL,
    KEEP_GOING,
    MEASURE_CPU,
    MORE,
    SEGMENT_BYTES,
    TOO_LARGE,
    WIDTH_TWO,
    ProtocolError,
)
from udfgate_worker.function import Function
from udfgate_worker.link import Link
from udfgate_worker.region import Region, TooLarge
from udfgate_worker.result import Outcome, Times, result_frame
from udfgate_worker.segment import Segment, read_segments, run_segment
from udfgate_worker.strict import BadArguments, exact_values

PEAK_NS_MIN = 2_000_000  # calls shorter than this do not ask the kernel for the peak, which takes 25 to 100 µs
PEAK_NS_EVERY = 100_000_000  # nor do longer ones more often than this
ANSWERS_KEPT = 2  # with one chunk queued ahead, RECODE may mean the answer before the last


class Answer:
    """A marshal answer that RECODE may ask for again. `table`: a table.Sent, of a part of a table function's."""

    __slots__ = ("call", "function", "keep", "outcomes", "place", "row", "step", "table")

    def __init__(
        self, call: int, function: Function, step: int, place: tuple, row: int, outcomes: "list | None" = None
    ) -> None:
        """place: out_arena, out_base, out_limit. Without outcomes it is a single row, whose number is `row`."""
        self.call, self.function, self.step, self.place = call, function, step, place
        self.row, self.outcomes, self.keep, self.table = row, outcomes, False, None


class Calls:
    """Runs the calls of one worker, one at a time.

    What asking.py has to know of the call that runs is its instant, which is 0 while none runs: `instant()` of a call of
    one row, all else of which still lies in the link's buffer, and `received` of another, of which `facts` has instant,
    call, function and remaining time.
    """

    only: "Calls | None" = None  # of this process

    def __init__(self, link: Link, arenas: Arenas) -> None:
        Calls.only = self
        self.link, self.arenas = link, arenas
        self.received, self.instant = 0, int  # int() is 0
        self.facts: tuple = (0,)
        self.warming: Function | None = None  # the function whose warm-up runs, before all calls
        self.asking = None  # what bodies ask, from the first use of udfgate.context() or counter() on
        self.region = Region(link, arenas)
        self.functions: list[Function] = []
        self.generation = 0
        self.calls = self.rows = self.singles = 0  # singles: calls of one row that single.py answered
        self.peak = self.peak_due = 0
        self.kept: list[Answer] = []

    def run(self, call: int, at: int, length: int) -> None:
        """Answer the CALL whose payload lies at link.buffer[at : at + length]."""
        received = monotonic_ns()
        buffer = self.link.buffer
        if length < CALL_BYTES + SEGMENT_BYTES:
            raise ProtocolError(f"CALL of {length} bytes")
        number, generation, remaining, arena, step, base, limit, nseg, flags, lo, hi, chosen, _ = CALL_HEAD.unpack_from(
            buffer, at
        )
        self._place(call, arena, base, limit)
        if generation != self.generation or number >= len(self.functions):
            return self._refuse(f"function {number} of generation {generation} is gone", nseg, received)
        function = self.functions[number]
        self.facts = received, call, function, remaining
        if length == function.length and nseg == 1 and not chosen:
            fields = function.columns.unpack_from(buffer, at + 96)
            if fields[::WIDTH_TWO] == function.forms:
                return self._many(function, [Segment(fields, function.blocks, lo, hi)], step, flags, received)
        segments = read_segments(function, buffer, at + CALL_BYTES, at + length, nseg)
        if isinstance(segments, str):
            return self._refuse(segments, nseg, received)
        self._many(function, segments, step, flags, received)

    def _place(self, call: int, arena: int, base: int, limit: int) -> None:
        """Point the region at the room of a call."""
        region = self.region
        region.call, region.base, region.limit, region.used, region.waited = call, base, limit, 0, 0
        if arena != region.arena or arena not in self.arenas.raw:
            region.view = self.arenas.output(arena, {answer.place[0] for answer in self.kept})
            region.arena = arena
        if base & 7 or base + limit > len(region.view):
            raise ProtocolError(f"{limit} bytes at {base} of an output arena of {len(region.view)}")

    def single_raised(self, place: tuple, row: int, error: BaseException, stamps: tuple) -> None:
        """The body raised in a call of one row. place: call, out_base, out_limit; stamps: received, decoded, ran."""
        received, decoded, ran = stamps
        failure = raised(row, error)
        self._place(place[0], self.region.arena, *place[1:])
        self._reply([Outcome(FAILED, row, 0, None, failure)], Times(decoded - received, ran - decoded), received)

    def single_unheld(self, function: Function, fields: tuple, place: tuple, row: int, received: int) -> None:
        """An argument of a single row is beyond what Python holds. place as in single_raised."""
        self._place(place[0], self.region.arena, *place[1:])
        for name, (one, i) in zip(function.names, function.ones):
            try:
                one(fields, i, row)
            except BadArguments as e:
                outcome = Outcome(FAILED, row, 0, None, misfit(row, e.of(name)[0]))
                self._reply([outcome], Times(monotonic_ns() - received), received)
                return
        raise ProtocolError(f"row {row} was one thing and then another")

    def single_slowly(self, function: Function, place: tuple, row: int, value: object, stamps: tuple) -> None:
        """Encode a single row that its encoder's shortest way would not take. Arguments as in single_raised."""
        received, decoded, ran = stamps
        self._place(place[0], self.region.arena, *place[1:])
        outcome = self._encode_row(function, value, row)
        encoded = max(0, monotonic_ns() - ran - self.region.waited)
        self.rows += 1
        self._reply([outcome], Times(decoded - received, ran - decoded, encoded), received)

    def _encode_row(self, function: Function, value: object, row: int) -> Outcome:
        encoder = function.encoder
        try:
            encoder.begin(self.region, 1, 8)
            encoder.check([value])
            encoder.put([value])
            outcome = Outcome(DONE, row, 1, encoder.end())
            self._keep(function, 8, [outcome])
            return outcome
        except TooLarge:
            return Outcome(TOO_LARGE, row)
        except BaseException as e:
            return Outcome(FAILED, row, 0, None, encode_failed(row, e))

    def _many(self, function: Function, segments: list, step: int, flags: int, received: int) -> None:
        if not 0 < step <= BLOCK_ROWS_MAX or step & 7:
            raise ProtocolError(f"blocks of {step} rows")
        rows = 0
        for segment in segments:
            if segment.lo & 7 or segment.hi < segment.lo:
                raise ProtocolError(f"rows {segment.lo} to {segment.hi}")
            rows += segment.hi - segment.lo
        measure = flags & MEASURE_CPU != 0
        times, region, keep = Times(), self.region, flags & KEEP_GOING != 0
        self.received = received
        if function.table is not None:
            return self._table(function, segments, step, (measure, keep), received)
        if keep or not function.plain or function.waiting is not None:
            from udfgate_worker.modes import run_special  # 40 KiB that many a worker does without

            outcomes = [run_special(function, segment, step, region, times, measure, keep) for segment in segments]
        else:
            outcomes = [run_segment(function, segment, step, region, times, measure) for segment in segments]
        self.rows += rows
        self._keep(function, step, outcomes)
        if keep and function.marshal:
            self.kept[-1].keep = True
        self._reply(outcomes, times, received)

    def _table(self, function: Function, segments: list, step: int, flags: tuple, received: int) -> None:
        """Answer a CALL of a table function part by part. flags: measure the processor, keep going."""
        from udfgate_worker.table import Run, Sent

        if len(segments) != 1:
            raise ProtocolError(f"{len(segments)} segments of a table function")
        run, ended = Run(self, function, segments[0], step, flags), False
        self.rows += segments[0].hi - segments[0].lo
        while received:
            times = Times()
            outcome, part = run.ended(times) if ended else run.part(times)
            self._keep(function, step, [outcome])
            if function.marshal:
                self.kept[-1].table = Sent(run, part)
            self._reply([outcome], times, received, part.more)
            if not part.more:
                break
            received, remaining, ended = run.asked(self)
            self.facts = received, self.region.call, function, remaining
            self.received = received
        if run.aside:
            self.link.unread(b"".join(run.aside))

    def _refuse(self, why: str, nseg: int, received: int) -> None:
        """No segment can be run at all."""
        if not self.generation:
            raise ProtocolError("CALL before LOAD")
        self._reply([Outcome(FAILED, 0, 0, None, no_row(why)) for _ in range(nseg)], Times(), received)

    def _reply(self, outcomes: list, times: Times, received: int, more: bool = False) -> None:
        region = self.region
        self.calls += not more
        self.received = 0
        if self.asking is not None:
            self.asking.close(any([outcome.status == DONE for outcome in outcomes]))
        sent = self.sending(received)
        where = region.arena, region.base, region.used
        self.sender()(
            result_frame(region.call, (received, sent), times, self.peak, where, outcomes, MORE if more else 0)
        )

    def sender(self):
        """What sends a RESULT frame."""
        return self.region.deliver if self.arenas.private else self.link.send

    def sending(self, received: int) -> int:
        """The instant to stamp a RESULT with; looks at the peak first if that is due."""
        sent = monotonic_ns()
        if sent - received > PEAK_NS_MIN and sent > self.peak_due:
            self.peak = peak_bytes()
            sent = monotonic_ns()
            self.peak_due = sent + PEAK_NS_EVERY
        return sent

    def _keep(self, function: Function, step: int, outcomes: list) -> None:
        if function.marshal:
            region = self.region
            place = region.arena, region.base, region.limit
            self.kept = [*self.kept[1 - ANSWERS_KEPT :], Answer(region.call, function, step, place, 0, outcomes)]

    def stats(self) -> dict:
        """What STATS answers."""
        return {
            "peak_bytes": peak_bytes(),
            "calls": self.calls + self.singles,
            "rows": self.rows + self.singles,
        }

    def recode(self, call: int) -> None:
        """Encode the answer of a call once more, value by value, and answer again."""
        received = monotonic_ns()
        found = [answer for answer in self.kept if answer.call == call]
        if not found:
            raise ProtocolError(f"RECODE of call {call}, whose answer is gone")
        answer = found[-1]
        self._place(call, *answer.place)
        if answer.outcomes is None:
            answer.outcomes = [Outcome(DONE, answer.row, 1, (FORM_MARSHAL, 1, 0, 0, 16, 16, 0))]
        read = [(self._read_back(outcome.column), self._read_back(outcome.errors)) for outcome in answer.outcomes]
        restored = answer.function.encoder.restored
        read = [(list(map(restored, blocks)), texts) for blocks, texts in read]
        recode = self._recode_keeping if answer.keep else self._recode_segment
        if answer.table is not None:
            recode = self._recode_table
        outcomes = [recode(answer, outcome, *blocks) for outcome, blocks in zip(answer.outcomes, read)]
        answer.outcomes, answer.place = outcomes, (self.region.arena, self.region.base, self.region.limit)
        more = answer.table is not None and answer.table.more
        self._reply(outcomes, Times(0, 0, max(0, monotonic_ns() - received - self.region.waited)), received, more)

    def _read_back(self, column: "tuple | None") -> list:
        """The blocks of a column as lists of values."""
        if column is None:
            return []
        form, blocks, _, index, _, data, *_ = column
        if form != FORM_MARSHAL:
            raise ProtocolError(f"RECODE of an answer in form {form}")
        region = self.region
        first = region.base + index >> 3
        ends = self.arenas.views["Q"][region.arena][first : first + blocks + 1].tolist()
        memory, data = region.view, region.base + data
        return [loads(memory[data + start : data + end]) for start, end in zip(ends, ends[1:])]

    def _recode_keeping(self, answer: Answer, outcome: Outcome, blocks: list, texts: list) -> Outcome:
        if outcome.column is None:
            return outcome
        from udfgate_worker.keeping import Keeper, rows_failed

        try:
            keeper = Keeper(answer.function.encoder, self.region, outcome.rows, answer.step)
            for number, values in enumerate(blocks):
                keeper.put_strictly(values, rows_failed(texts[number]) if texts else {})
            again = Outcome(DONE, outcome.lo, outcome.rows)
            again.column, again.errors = keeper.end()
            return again
        except TooLarge:
            return Outcome(TOO_LARGE, outcome.lo)
        except MemoryError as e:
            return Outcome(FAILED, outcome.lo, 0, None, all_rows(e))

    def _recode_table(self, answer: Answer, outcome: Outcome, blocks: list, texts: list) -> Outcome:
        if outcome.column is None:
            return outcome
        return answer.table.again([value for block in blocks for value in block], [one for all in texts for one in all])

    def _recode_segment(self, answer: Answer, outcome: Outcome, blocks: list, _texts: list) -> Outcome:
        if outcome.column is None:
            return outcome
        encoder, row = answer.function.encoder, outcome.lo
        try:
            encoder.begin(self.region, outcome.rows, answer.step)
            for values in blocks:
                encoder.put_exact(exact_values(encoder.type_name, encoder.nullable, values))
                row += len(values)
            return Outcome(DONE, outcome.lo, outcome.rows, encoder.end())
        except TooLarge:
            return Outcome(TOO_LARGE, outcome.lo)
        except BaseException as e:
            return Outcome(FAILED, outcome.lo, 0, None, encode_failed(row, e))


def peak_bytes() -> int:
    """Peak resident bytes of this process; 0 if the kernel does not say.

    Not getrusage: its ru_maxrss is inherited from the process that started this one.
    """
    try:
        status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(status, 4096)
        finally:
            os.close(status)
        return int(text.partition(b"VmHWM:")[2].split(None, 1)[0]) << 10
    except (OSError, IndexError, ValueError):
        return 0
