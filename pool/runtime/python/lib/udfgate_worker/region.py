"""The part of an output arena that one CALL may use, and how it grows."""

from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.frames import (
    ARENA,
    ARENA_HEAD,
    BYTES,
    CALL,
    CONTEXT,
    DATA,
    DATA_BYTES,
    DATA_HEAD,
    DROP,
    DROP_HEAD,
    HEADER,
    NEED,
    PRIVATE,
    REFUSE,
    RESULT_PLACE,
    ROLE_OUTPUT,
    SKIPPABLE,
    ProtocolError,
)
from udfgate_worker.link import Link


class TooLarge(Exception):
    """The gateway refused room for the answer."""


class Region:
    """`view[base : base + limit]` of output arena `arena`; `used` bytes of it are taken.

    After room() or take(), view, base and limit may be others: never keep them across.
    """

    def __init__(self, link: Link, arenas: Arenas) -> None:
        self.link, self.arenas = link, arenas
        self.call = self.arena = self.base = self.limit = self.used = self.waited = 0
        self.view: memoryview

    def take(self, size: int) -> int:
        """Reserve size bytes at a multiple of 8; where they begin, counted from base. Raises TooLarge."""
        at = self.used + 7 & ~7
        if at + size > self.limit:
            self.room(at + size, at + size + 4096)
        self.used = at + size
        return at

    def room(self, need: int, wish: int) -> None:
        """Have at least `need` bytes, better `wish`, asking the gateway if they are not there. Raises TooLarge."""
        if need <= self.limit:
            return
        started = monotonic_ns()
        try:
            wish = max(need, wish)
            limit = self._ask(wish)
            if limit is not None and need <= limit < wish:
                limit = self._ask(limit)
            if limit is not None:
                raise TooLarge
            if need > self.limit:
                raise ProtocolError(f"asked for {need} bytes, got an arena of {self.limit}")
        finally:
            self.waited += monotonic_ns() - started

    def _ask(self, size: int) -> "int | None":
        """NEED, then what comes back: None with the new arena in use, or the limit of a REFUSE.

        A CALL queued ahead may lie in the socket in front of the answer; it is put back.
        """
        with self.link.lock:  # a body may have left threads behind that ask
            return self._ask_alone(size)

    def _ask_alone(self, size: int) -> "int | None":
        link = self.link
        link.put(NEED, self.call, BYTES.pack(size))
        aside: list[bytes] = []
        answer = -1
        while answer == -1:
            frame = kind, flags, call, at, length = link.frame()
            if kind == ARENA:
                answer = None if self.take_up(flags, at, length) else answer
            elif kind == REFUSE:
                (answer,) = BYTES.unpack_from(link.buffer, at)
            elif kind == CALL:
                aside.append(HEADER.pack(length, kind, flags, call) + link.buffer[at : at + length])
            elif not tidied(link, self.arenas, frame) and not flags & SKIPPABLE:
                raise ProtocolError(f"frame of type {kind} in answer to NEED")
        if aside:
            link.unread(b"".join(aside))
        return answer

    def deliver(self, result: bytes) -> None:
        """Send a RESULT, and right before it the bytes of its answer: of a private arena."""
        call, arena, start, used = RESULT_PLACE.unpack_from(result)
        view, end = self.arenas.raw[arena], start + used
        while start < end:
            size = min(end - start, DATA_BYTES)
            head = HEADER.pack(DATA_HEAD.size + size, DATA, 0, call) + DATA_HEAD.pack(arena, start)
            frame = b"".join((head, view[start : start + size]))
            start += size
            if start == end:
                result = frame + result  # a short answer is one write
            else:
                self.link.send(frame)
        self.link.send(result)

    def take_up(self, flags: int, at: int, length: int) -> bool:
        """Map an arena; move over to it if it is an output. False if it is not."""
        arena, role, size = map_arena(self.link, self.arenas, flags, at, length)
        if role != ROLE_OUTPUT:
            return False
        view = self.arenas.raw[arena]
        kept = min(self.limit, size)
        view[:kept] = self.view[self.base : self.base + kept]
        self.arena, self.view, self.base, self.limit = arena, view, 0, size
        return True


def tidied(link: Link, arenas: Arenas, frame: tuple) -> bool:
    """See to a frame that is of no call's concern, whatever the worker waits for; False if it is another.

    frame: as Link.frame returns it. An answer to CONTEXT is one that comes too late: a signal handler's exception has
    broken into the question.
    """
    kind, flags, _, at, length = frame
    if kind == ARENA:
        map_arena(link, arenas, flags, at, length)
    elif kind == DROP:
        arenas.drop(*DROP_HEAD.unpack_from(link.buffer, at))
    elif kind == DATA:
        arenas.write(link.buffer, at, length)
    elif kind == CONTEXT and link.owed:
        link.owed -= 1
    else:
        return False
    return True


def map_arena(link: Link, arenas: Arenas, flags: int, at: int, length: int) -> tuple:
    """Take up an ARENA frame: its arena, role and size."""
    descriptor = -1 if flags & PRIVATE else link.right()
    if length < ARENA_HEAD.size:
        raise ProtocolError(f"ARENA of {length} bytes")
    arena, role, size = ARENA_HEAD.unpack_from(link.buffer, at)
    arenas.add(arena, role, size, descriptor)
    return arena, role, size
