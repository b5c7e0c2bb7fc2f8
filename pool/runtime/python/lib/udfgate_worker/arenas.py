"""Shared memory that the gateway handed over, as typed views by arena id."""

import mmap
import os
import sys

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import ROLE_INPUT, ROLE_OUTPUT, ProtocolError

CODES = "bBhHiIqQfd"
# Before 3.13 a map keeps a descriptor of its own, for resizing, and closes that number when it goes.
_NO_DESCRIPTOR: dict = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class Arenas:
    """`views[code][arena]` is the whole arena as native values of a struct code.

    Decoders and encoders keep the inner dicts: one lookup leads from an arena's id to its memory. Input arenas are
    mapped read-only. All but the newest output arena go once a CALL names that one and nobody needs them.
    """

    def __init__(self) -> None:
        self.views: dict[str, dict[int, memoryview]] = {code: {} for code in CODES}
        self.raw = self.views["B"]
        self._maps: dict[int, mmap.mmap] = {}
        self._outputs: list[int] = []  # oldest first

    def add(self, arena: int, role: int, size: int, descriptor: int) -> None:
        """Map an arena and close its descriptor."""
        try:
            if role not in (ROLE_INPUT, ROLE_OUTPUT) or arena in self._maps or size <= 0:
                raise ProtocolError(f"arena {arena} of role {role} and {size} bytes")
            if os.fstat(descriptor).st_size < size:
                raise ProtocolError(f"arena {arena} of {size} bytes has {os.fstat(descriptor).st_size}")
            rights = mmap.PROT_READ | (mmap.PROT_WRITE if role == ROLE_OUTPUT else 0)
            memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=rights, **_NO_DESCRIPTOR)
        finally:
            os.close(descriptor)
        self._maps[arena] = memory
        whole = memoryview(memory)
        for code, views in self.views.items():
            views[arena] = whole[: size & ~7].cast(code)
        self.raw[arena] = whole
        if role == ROLE_OUTPUT:
            self._outputs.append(arena)

    def drop(self, arena: int) -> None:
        """Unmap an arena, or forget it if a view of it is still held."""
        memory = self._maps.pop(arena, None)
        if memory is None:
            raise ProtocolError(f"DROP of arena {arena}, which is not mapped")
        self._release(arena)
        try:
            memory.close()
        except BufferError:
            pass  # unmapped with the last view
        if arena in self._outputs:
            self._outputs.remove(arena)

    def _release(self, arena: int) -> None:
        for views in self.views.values():
            try:
                views.pop(arena).release()
            except BufferError:
                pass

    def output(self, arena: int, needed: set) -> memoryview:
        """The output arena that a CALL names; older ones go, but for those in `needed`."""
        if arena not in self._outputs:
            raise ProtocolError(f"output arena {arena} is not mapped")
        for old in self._outputs[: self._outputs.index(arena)]:
            if old not in needed:
                self.drop(old)
        return self.raw[arena]

    def abandon(self) -> None:
        """In a forked child: make every output unreachable, the parent goes on writing there."""
        for arena in self._outputs:
            self._release(arena)
