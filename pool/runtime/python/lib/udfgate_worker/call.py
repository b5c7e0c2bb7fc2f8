"""CALL → RESULT, and RECODE."""

import os
from marshal import loads
from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.errors import Failure, misfit, no_row, raised
from udfgate_worker.frames import (
    BLOCK_ROWS_MAX,
    CALL_BYTES,
    CALL_HEAD,
    DONE,
    FAILED,
    FORM_MARSHAL,
    MEASURE_CPU,
    ONE_RESULT,
    ONE_RESULT_HEAD,
    ONE_SEGMENT_DONE,
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
from udfgate_worker.strict import Misfit, exact_values

CPU_ROWS_MIN = 257  # below, two reads of the thread's clock (0.45 µs each) would be felt
PEAK_NS_MIN = 2_000_000  # calls shorter than this do not pay 25 µs to ask the kernel for the peak
ONE_ROW_BYTES_MIN = 64  # room in which a single row of fixed width fits whatever it is
ANSWERS_KEPT = 2  # with one chunk queued ahead, RECODE may mean the answer before the last


class Answer:
    """A marshal answer that RECODE may ask for again."""

    __slots__ = ("call", "function", "step", "arena", "base", "limit", "outcomes")

    def __init__(self, call: int, function: Function, step: int, region: Region, outcomes: list) -> None:
        self.call, self.function, self.step, self.outcomes = call, function, step, outcomes
        self.arena, self.base, self.limit = region.arena, region.base, region.limit


class Calls:
    """Runs the calls of one worker, one at a time."""

    def __init__(self, link: Link, arenas: Arenas) -> None:
        self.link, self.arenas = link, arenas
        self.region = Region(link, arenas)
        self.functions: list[Function] = []
        self.generation = 0
        self.calls = self.rows = self.peak = 0
        self.kept: list[Answer] = []

    def run(self, call: int, at: int, length: int) -> None:
        """Answer the CALL whose payload lies at link.buffer[at : at + length]."""
        received = monotonic_ns()
        buffer = self.link.buffer
        if length < CALL_BYTES + SEGMENT_BYTES:
            raise ProtocolError(f"CALL of {length} bytes")
        number, generation, arena, step, base, limit, nseg, flags, lo, hi, chosen, _ = CALL_HEAD.unpack_from(buffer, at)
        self._place(call, arena, base, limit)
        if generation != self.generation or number >= len(self.functions):
            return self._refuse(f"function {number} of generation {generation} is gone", nseg, received)
        function = self.functions[number]
        if length == function.length and nseg == 1 and not chosen:
            fields = function.columns.unpack_from(buffer, at + 96)
            if fields[::WIDTH_TWO] == function.forms:
                if hi - lo == 1 and not flags and limit >= ONE_ROW_BYTES_MIN:
                    return self._one(function, fields, lo, received)
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
            region.view = self.arenas.output(arena, {answer.arena for answer in self.kept})
            region.arena = arena

    def _one(self, function: Function, fields: tuple, row: int, received: int) -> None:
        """The usual CALL of one row: values are read and written in place."""
        args = [one(fields, i, row) for one, i in function.ones]
        region, encoder = self.region, function.encoder
        decoded = monotonic_ns()
        try:
            value = function.body(*args)
        except BaseException as e:
            ran = monotonic_ns()
            outcome = Outcome(FAILED, row, 0, None, raised(row, e))
            return self._reply([outcome], Times(decoded - received, ran - decoded), received)
        ran = monotonic_ns()
        column = encoder.one(value, region)
        if column is None:
            args = None
            outcome = self._one_slowly(encoder, value, row)
            encoded = max(0, monotonic_ns() - ran - region.waited)
            return self._reply([outcome], Times(decoded - received, ran - decoded, encoded), received)
        at1, size1, at2, size2, used = column
        self.calls += 1
        self.rows += 1
        if size1:
            self._keep(function, 8, [Outcome(DONE, row, 1, (FORM_MARSHAL, 1, 0, at1, size1, at2, size2))])
        sent = monotonic_ns()
        # fmt: off
        self.link.send(ONE_RESULT.pack(
            ONE_RESULT_HEAD, region.call, received, sent, decoded - received, ran - decoded, sent - ran, 0, self.peak,
            region.arena, region.base, used, 1, ONE_SEGMENT_DONE, 1, encoder.word, 0, at1, size1, at2, size2,
        ))
        # fmt: on

    def _one_slowly(self, encoder: object, value: object, row: int) -> Outcome:
        """Encode one row that Encoder.one would not take."""
        try:
            encoder.begin(self.region, 1, 8)
            encoder.put([value])
            return Outcome(DONE, row, 1, encoder.end())
        except Misfit as e:
            return Outcome(FAILED, row, 0, None, misfit(row, e))
        except TooLarge:
            return Outcome(TOO_LARGE, row)

    def _many(self, function: Function, segments: list, step: int, flags: int, received: int) -> None:
        if not 0 < step <= BLOCK_ROWS_MAX or step & 7:
            raise ProtocolError(f"blocks of {step} rows")
        rows = 0
        for segment in segments:
            if segment.lo & 7 or segment.hi < segment.lo:
                raise ProtocolError(f"rows {segment.lo} to {segment.hi}")
            rows += segment.hi - segment.lo
        measure = flags & MEASURE_CPU != 0 or rows >= CPU_ROWS_MIN
        times = Times()
        outcomes = [run_segment(function, segment, step, self.region, times, measure) for segment in segments]
        self.rows += rows
        if any([outcome.column is not None and outcome.column[0] == FORM_MARSHAL for outcome in outcomes]):
            self._keep(function, step, outcomes)
        self._reply(outcomes, times, received)

    def _refuse(self, why: str, nseg: int, received: int) -> None:
        """No segment can be run at all."""
        if not self.generation:
            raise ProtocolError("CALL before LOAD")
        self._reply([Outcome(FAILED, 0, 0, None, no_row(why)) for _ in range(nseg)], Times(), received)

    def _reply(self, outcomes: list, times: Times, received: int) -> None:
        region = self.region
        self.calls += 1
        sent = monotonic_ns()
        if sent - received > PEAK_NS_MIN:
            self.peak = peak_bytes()
            sent = monotonic_ns()
        where = region.arena, region.base, region.used
        self.link.send(result_frame(region.call, (received, sent), times, self.peak, where, outcomes))

    def _keep(self, function: Function, step: int, outcomes: list) -> None:
        self.kept = [*self.kept[1 - ANSWERS_KEPT :], Answer(self.region.call, function, step, self.region, outcomes)]

    def recode(self, call: int) -> None:
        """Encode the answer of a call once more, value by value, and answer again."""
        received = monotonic_ns()
        found = [answer for answer in self.kept if answer.call == call]
        if not found:
            raise ProtocolError(f"RECODE of call {call}, whose answer is gone")
        answer = found[-1]
        self._place(call, answer.arena, answer.base, answer.limit)
        read = [self._read_back(answer, outcome) for outcome in answer.outcomes]
        outcomes = [self._recode_segment(answer, *pair) for pair in zip(answer.outcomes, read)]
        self._reply(outcomes, Times(0, 0, max(0, monotonic_ns() - received - self.region.waited)), received)

    def _read_back(self, answer: Answer, outcome: Outcome) -> list:
        """The blocks of a segment as lists of values."""
        if outcome.column is None:
            return []
        _, blocks, _, index, _, data, _ = outcome.column
        words = self.arenas.views["Q"][answer.arena]
        first = answer.base + index >> 3
        ends = words[first : first + blocks + 1].tolist()
        memory, data = self.region.view, answer.base + data
        return [loads(memory[data + start : data + end]) for start, end in zip(ends, ends[1:])]

    def _recode_segment(self, answer: Answer, outcome: Outcome, blocks: list) -> Outcome:
        if outcome.column is None:
            return outcome
        encoder, row = answer.function.encoder, outcome.lo
        try:
            encoder.begin(self.region, outcome.rows, answer.step)
            for values in blocks:
                encoder.put(exact_values(encoder.type_name, encoder.nullable, values))
                row += len(values)
            return Outcome(DONE, outcome.lo, outcome.rows, encoder.end())
        except Misfit as e:
            return Outcome(FAILED, outcome.lo, 0, None, misfit(row, e))
        except TooLarge:
            return Outcome(TOO_LARGE, outcome.lo)


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
