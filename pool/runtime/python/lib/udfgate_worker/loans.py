"""Input memory that a body is given without a copy, and may keep.

A slot of the gateway is used again once its call has been answered. So what is lent hangs on an owner, and when the
owner is still alive after the body and its answer, somebody has kept a part of it: before the RESULT is sent the pages
are made this process's own, where they are (Arenas.surrender), and the function's input is copied from then on.
"""

from weakref import ref

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.frames import ProtocolError

ZERO = bytes(64)  # stands for buffers that have no byte


class Owner:
    """Keeps one arena's memory mapped. numpy makes arrays of it by __array_interface__, pyarrow names it as base."""

    __slots__ = ("__array_interface__", "__weakref__", "address", "memory")

    def __init__(self, memory: memoryview, address: int) -> None:
        self.memory, self.address = memory, address
        self.__array_interface__ = {"data": (address, True), "shape": (len(memory),), "typestr": "|u1", "version": 3}


class Loan:
    """What one segment's body is given of the arenas."""

    def __init__(self, arenas: Arenas, copies: bool) -> None:
        """copies: lend nothing, the memory is the body's own."""
        self.arenas, self.copies = arenas, copies
        self.owners: dict = {}
        self.ranges: dict = {}

    def check(self, arena: int, offset: int, size: int) -> memoryview:
        """The whole arena, in which the range must lie."""
        memory = self.arenas.raw.get(arena)
        if memory is None or offset & 7 or offset + size > len(memory):
            raise ProtocolError(f"buffer of {size} bytes at {offset} of arena {arena}")
        return memory

    def owner(self, arena: int, offset: int, size: int) -> "Owner | None":
        """The owner of an arena of which a range is lent; None: make a copy of it."""
        if self.copies:
            return None
        found = self.owners.get(arena)
        if found is None:
            lent = self.arenas.lend(arena)
            if lent is None:
                self.copies = True
                return None
            found = self.owners[arena] = Owner(*lent)
            self.ranges[arena] = []
        self.ranges[arena].append((offset, size))
        return found

    def settle(self) -> bool:
        """The body and its answer are done: whether something of the loan was kept, which is safe now."""
        if not self.owners:
            return False
        weak = {arena: ref(owner) for arena, owner in self.owners.items()}
        self.owners = {}
        kept = [arena for arena, owner in weak.items() if owner() is not None]
        for arena in kept:
            self.arenas.surrender(arena, self.ranges[arena])
        return bool(kept)
