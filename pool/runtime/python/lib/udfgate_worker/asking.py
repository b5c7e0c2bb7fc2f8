"""What a running body asks and tells: who calls (CONTEXT), what it has counted (COUNTS), its log (LOG).

Imported by udfgate.context() and udfgate.counter(), and Calls.asking is None until then. Bodies may call from any
thread. Whoever uses the link during a call holds its lock; the main thread takes it once more before it answers, so
that no answer overtakes a question.
"""

from _thread import get_ident
from struct import Struct
from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.call import Calls
from udfgate_worker.errors import cut
from udfgate_worker.frames import (
    CONTEXT,
    COUNTS,
    HEADER,
    LOG,
    ONE_HEAD,
    SKIPPABLE,
    ProtocolError,
)
from udfgate_worker.function import Function
from udfgate_worker.plainjson import decode, encode
from udfgate_worker.region import tidied

EVERYTHING, CANCELLED = 1, 2  # what a CONTEXT frame asks for
CANCELLED_NS_EVERY = 10_000_000
COUNTER_NAMES_MAX = 32
COUNTER_NAME_MAX = 64
COUNT_MAX = 1 << 53
LOG_BYTES_MAX = 64 << 10
NOT_RUNNING = "udfgate.{} is for bodies: no call is running"
NOBODY = {"stream": 0, "batch": 0, "principal": "", "headers": [], "cancelled": False}  # who calls in a warm-up
_WHAT, _REMAINING = Struct("<I"), Struct("<Q")
_REMAINING_AT = 24  # of a CALL, its header included


class Running:
    """The call that runs, from its first question on. `deadline` is an instant, or None.

    `counts`: by name, since the last part of its answer. `facts`: the gateway's answer, or None. `kept`: whatever the
    authors' side keeps with it.
    """

    def __init__(self, call: int, function: Function) -> None:
        self.call, self.function = call, function
        self.received, self.deadline = 0, None
        self.counts: dict = {}
        self.facts: dict | None = None
        self.kept = None
        self.cancelled, self.asked = False, 0


class Asking:
    """The questions of one worker."""

    def __init__(self, calls: Calls) -> None:
        self.calls, self.link, self.lock = calls, calls.link, calls.link.lock
        self.running: Running | None = None
        self.names: dict = {}  # of counters that have been sent, by function
        self.asker = 0  # the thread that waits for an answer

    def current(self, who: str) -> Running:
        """The call that runs. RuntimeError without one; who: for its text."""
        calls = self.calls
        with self.lock:
            received = calls.received or calls.instant()
            found = self.running
            if not self.link.forked and calls.warming is not None:
                if found is None or found.function is not calls.warming:
                    found = self.running = Running(0, calls.warming)
                    found.facts = NOBODY
                return found
            if not received or self.link.forked:
                raise RuntimeError(NOT_RUNNING.format(who))
            if found is not None and found.received == received:
                return found
            facts = calls.facts
            call, function, remaining = facts[1:] if facts[0] == received else self._single()
            if found is None or found.call != call or found.function is not function:
                found = self.running = Running(call, function)
            found.received = received  # of a table function's part maybe, whose call has asked before
            found.deadline = received + remaining if remaining else None
            return found

    def _single(self) -> tuple:
        """The call of one row whose frame is the last that was taken from the link's buffer, which begins with one."""
        buffer, at, then = self.link.buffer, 0, 0
        while then < self.link.start:
            at = then
            then += HEADER.size + HEADER.unpack_from(buffer, at)[0]
        _, _, call, number, *_ = ONE_HEAD.unpack_from(buffer, at)
        return call, self.calls.functions[number], _REMAINING.unpack_from(buffer, at + _REMAINING_AT)[0]

    def alive(self, running: Running, who: str) -> None:
        """Raise RuntimeError if the call is not the one that runs."""
        if self.current(who) is not running:
            raise RuntimeError(f"udfgate.{who} is for the call that it was made in, which has ended")

    def ask(self, running: Running, what: int, who: str) -> dict:
        """Ask the gateway. RuntimeError if the call does not run."""
        link = self.link
        with self.lock:
            self.alive(running, who)
            if what == EVERYTHING and running.facts is not None:
                return running.facts
            if self.asker == get_ident():
                raise RuntimeError(f"udfgate.{who}: asked in the midst of another question (signal handler, __del__)")
            self.asker = get_ident()
            try:
                link.owed += 1  # an exception of a signal handler may come between question and answer
                link.put(CONTEXT, running.call, _WHAT.pack(what))
                answer = self._answer()
            finally:
                self.asker = 0
            running.asked = monotonic_ns()
            running.cancelled = running.cancelled or answer.get("cancelled") is True
            if what == EVERYTHING:
                running.facts = answer
            return answer

    def _answer(self) -> dict:
        """Read until the answer; a CALL that is queued ahead is put back."""
        link, arenas, aside = self.link, self.calls.arenas, []
        answer = None
        while answer is None:
            frame = kind, flags, call, at, length = link.frame()
            if kind == CONTEXT and link.owed == 1:  # earlier ones answer questions that were broken off
                link.owed = 0
                answer = decode(bytes(link.buffer[at : at + length]))
            elif not tidied(link, arenas, frame):
                aside.append(HEADER.pack(length, kind, flags, call) + link.buffer[at : at + length])
        if aside:
            link.unread(b"".join(aside))
        if type(answer) is not dict:
            raise ProtocolError(f"CONTEXT: wanted an object, got {answer!r}")
        return answer

    def cancelled(self, running: Running, who: str) -> bool:
        """Whether the caller has gone, as of at most CANCELLED_NS_EVERY ago."""
        with self.lock:
            self.alive(running, who)
            if running.facts is NOBODY:
                return False
            if not running.cancelled and monotonic_ns() - running.asked >= CANCELLED_NS_EVERY:
                self.ask(running, CANCELLED, who)
            return running.cancelled

    def count(self, name: str, number: int) -> None:
        """Add to a counter of the call that runs. RuntimeError without one, ValueError over a bound."""
        with self.lock:
            running = self.current(f"counter({name!r}).add()")
            if not number:
                return
            counts = running.counts
            if name not in counts:
                sent = self.names.setdefault(running.function, set())
                if name not in sent and len(sent | set(counts)) >= COUNTER_NAMES_MAX:
                    raise ValueError(f"a function has at most {COUNTER_NAMES_MAX} counters, {name!r} is one more")
            total = counts.get(name, 0) + number
            if total > COUNT_MAX:
                raise ValueError(f"counter {name!r}: at most 2^53 in one call, got {total}")
            counts[name] = total

    def counted(self) -> dict:
        """What the call that runs has counted so far."""
        with self.lock:
            return {} if self.running is None else dict(self.running.counts)

    def recount(self, counts: dict) -> None:
        """Forget what has been counted since counted() gave these."""
        with self.lock:
            if self.running is not None:
                self.running.counts = counts

    def close(self, good: bool) -> None:
        """The call or a part of it has run: send what it counted if its answer is good. The RESULT comes next."""
        with self.lock:
            running = self.running
            if running is None or not running.counts:
                return
            counts, running.counts = running.counts, {}
            if good:
                self.names.setdefault(running.function, set()).update(counts)
                self.link.put(COUNTS, running.call, encode(counts), SKIPPABLE)

    def log(self, running: Running, level: str, text: str) -> None:
        """Send a line to the gateway's log."""
        function = running.function
        line = {"level": level, "message": str(cut(text, LOG_BYTES_MAX), "utf-8"), "function": function.canonical}
        with self.lock:
            self.alive(running, "context().logger")
            self.link.put(LOG, running.call, encode(line), SKIPPABLE)


def asking() -> "Asking | None":
    """The questions of this process's worker; None where there is none."""
    calls = Calls.only
    if calls is None:
        return None
    if calls.asking is None:
        with calls.link.lock:
            if calls.asking is None:
                calls.asking = Asking(calls)
    return calls.asking
