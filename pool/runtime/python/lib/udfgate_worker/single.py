"""The shortest way through a worker: CALLs of one row, answered in 2 to 3 µs besides the two system calls.

Nothing is decided here that call.py would decide otherwise. Whatever is not the plain case is left to it: the frame
stays in the link's buffer, or the outcome is handed over.
"""

from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.call import PEAK_NS_MIN, Answer, Calls
from udfgate_worker.frames import CALL, HEADER, ONE_HEAD, ONE_RESULT, ONE_RESULT_BYTES, RESULT, WIDTH_TWO
from udfgate_worker.link import Link
from udfgate_worker.strict import BadArguments

ROOM_MIN = 64  # bytes in which a row of fixed width fits
_RESULT_HEAD = (ONE_RESULT_BYTES - HEADER.size) | RESULT << 32
_ONE_SEGMENT = 1  # nseg 1 and no flags, read as one u32


def serve_single_rows(link: Link, calls: Calls) -> None:
    """Answer one-row CALLs until the next frame is another one, which is left for Link.frame."""
    now, unpack, pack, send = monotonic_ns, ONE_HEAD.unpack_from, ONE_RESULT.pack, calls.sender()
    functions, region, head_bytes = calls.functions, calls.region, ONE_HEAD.size
    running = 0  # when the call came whose body runs: asking.py reads it, and to set it costs less than an attribute

    def instant() -> int:
        return running

    calls.instant = instant
    while True:
        start, end = link.start, link.end
        if start == end:
            link.fill()
            start, end = 0, link.end
        received = now()
        buffer = link.buffer
        have = end - start
        if have < head_bytes:
            return
        # fmt: off
        (length, kind, call, number, generation, arena, base, limit, segments, row, top, chosen) = unpack(buffer, start)
        # fmt: on
        if kind != CALL or top - row != 1 or number >= len(functions) or arena != region.arena:
            return
        function = functions[number]
        if length != function.length or have < 16 + length or segments != _ONE_SEGMENT or chosen or limit < ROOM_MIN:
            return
        fields = function.columns.unpack_from(buffer, start + head_bytes)
        if fields[::WIDTH_TWO] != function.forms or generation != calls.generation:
            return
        link.start = start + 16 + length
        try:
            args = [one(fields, i, row) for one, i in function.ones]
        except BadArguments:
            calls.single_unheld(function, fields, (call, base, limit), row, received)
            continue
        running = received
        decoded = now()
        try:
            value = function.body(*args)
        except BaseException as e:
            running = 0
            calls.single_raised((call, base, limit), row, e, (received, decoded, now()))
            continue
        ran = now()
        running = 0
        tail = function.one(value, arena, base, limit)
        if tail is None:
            args = None
            calls.single_slowly(function, (call, base, limit), row, value, (received, decoded, ran))
            continue
        calls.singles += 1
        if calls.asking is not None:
            calls.asking.close(True)
        if function.marshal:
            calls.kept = [*calls.kept[-1:], Answer(call, function, 8, (arena, base, limit), row)]
        sent = now()
        if sent - received > PEAK_NS_MIN:
            sent = calls.sending(received)
        decode, body, encode = decoded - received, ran - decoded, sent - ran
        send(pack(_RESULT_HEAD, call, received, sent, decode, body, encode, 0, calls.peak, arena, base) + tail)
        args = value = tail = None  # the next call may be long in coming
