"""Memory that the gateway handed over, or that is kept for what it sends, as typed views by arena id."""

import mmap
import os
import sys

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import DATA_HEAD, ROLE_INPUT, ROLE_OUTPUT, ProtocolError
from udfgate_worker.library import library

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
        self._descriptors: dict[int, int] = {}  # of shared inputs, while they may be lent
        self._lent: dict[int, tuple] = {}  # map and address
        self.lending = True  # until LOAD finds no function that takes input without a copy
        self.private = False  # the arenas are this process's own: what an answer uses of one is to be sent

    def add(self, arena: int, role: int, size: int, descriptor: int) -> None:
        """Map an arena and close its descriptor; without one (-1) it is private memory."""
        memory = self._private(arena, role, size) if descriptor < 0 else self._shared(arena, role, size, descriptor)
        self._maps[arena] = memory
        whole = memoryview(memory)
        if role == ROLE_INPUT:
            whole = whole.toreadonly()
        self._view(arena, whole)
        if role == ROLE_OUTPUT:
            self._outputs.append(arena)

    def _check(self, arena: int, role: int, size: int) -> None:
        if role not in (ROLE_INPUT, ROLE_OUTPUT) or arena in self._maps or size <= 0:
            raise ProtocolError(f"arena {arena} of role {role} and {size} bytes")

    def _private(self, arena: int, role: int, size: int) -> mmap.mmap:
        self._check(arena, role, size)
        self.private = True
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)

    def _shared(self, arena: int, role: int, size: int, descriptor: int) -> mmap.mmap:
        try:
            self._check(arena, role, size)
            if os.fstat(descriptor).st_size < size:
                raise ProtocolError(f"arena {arena} of {size} bytes has {os.fstat(descriptor).st_size}")
            rights = mmap.PROT_READ | (mmap.PROT_WRITE if role == ROLE_OUTPUT else 0)
            memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=rights, **_NO_DESCRIPTOR)
            if role == ROLE_INPUT and self.lending:
                self._descriptors[arena] = os.dup(descriptor)
            return memory
        finally:
            os.close(descriptor)

    def write(self, buffer: bytearray, at: int, length: int) -> None:
        """Take up the DATA frame whose payload lies at buffer[at : at + length]."""
        if length < DATA_HEAD.size:
            raise ProtocolError(f"DATA of {length} bytes")
        arena, offset = DATA_HEAD.unpack_from(buffer, at)
        memory = self._maps.get(arena)
        if memory is None or arena in self._outputs or not self.private:
            raise ProtocolError(f"DATA of arena {arena}, which is no private input")
        size = length - DATA_HEAD.size
        if offset + size > len(memory):
            raise ProtocolError(f"DATA of {size} bytes at {offset} of an arena of {len(memory)}")
        at += DATA_HEAD.size
        with memoryview(buffer) as view:
            memory[offset : offset + size] = view[at : at + size]

    def lend(self, arena: int) -> "tuple | None":
        """(memory, address) of an input arena that a body may keep a part of; None: it has to be copied.

        Of shared arenas it is a second mapping, read-only too, of which pages can become this process's own.
        """
        if self.private:
            memory = self._maps[arena]
            return memoryview(memory).toreadonly(), _address_of(memory)
        lent = self._lent.get(arena)
        if lent is None:
            lent = self._lend(arena)
        return lent and (memoryview(lent[0]), lent[1])

    def _lend(self, arena: int) -> "tuple | None":
        if arena not in self._descriptors or _ctypes() is None:
            return None
        size = len(self.raw[arena])
        try:
            memory = mmap.mmap(
                self._descriptors[arena], size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ, **_NO_DESCRIPTOR
            )
        except OSError:  # a limit on this process's memory
            return None
        lent = self._lent[arena] = memory, _address_of(memory)
        return lent

    def surrender(self, arena: int, ranges: list) -> None:
        """Make what was lent this process's own, in its place: the gateway writes there again."""
        if self.private:
            old = self._maps[arena]
            new = self._maps[arena] = mmap.mmap(-1, len(old), flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
            new[:] = old
            self._release(arena)
            self._view(arena, memoryview(new).toreadonly())
            return
        memory, address = self._lent.pop(arena)
        ctypes = _ctypes()
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        start, length = ctypes.c_void_p(address), ctypes.c_size_t(len(memory))
        if ctypes.CDLL(None).mprotect(start, length, rights):
            raise OSError("mprotect refused to make a body's input its own")
        for offset, size in ranges:
            # Each page is written to, with what it holds: who reads it meanwhile sees no change.
            ctypes.memmove(address + offset, memory[offset : offset + size], size)
        ctypes.CDLL(None).mprotect(start, length, mmap.PROT_READ)

    def lend_nothing(self) -> None:
        """No function takes input without a copy."""
        self.lending = False
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _view(self, arena: int, whole: memoryview) -> None:
        for code, views in self.views.items():
            views[arena] = whole[: len(whole) & ~7].cast(code)
        self.raw[arena] = whole

    def drop(self, arena: int) -> None:
        """Unmap an arena, or forget it if a view of it is still held."""
        memory = self._maps.pop(arena, None)
        if memory is None:
            raise ProtocolError(f"DROP of arena {arena}, which is not mapped")
        self._release(arena)
        if arena in self._descriptors:
            os.close(self._descriptors.pop(arena))
        for one in (memory, *self._lent.pop(arena, ())[:1]):
            try:
                one.close()
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


def _address_of(memory: mmap.mmap) -> int:
    """Where memory lies, told by whichever library will be given it."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        return pyarrow.py_buffer(memory).address
    return sys.modules["numpy"].frombuffer(memory, "u1").__array_interface__["data"][0]


def _ctypes() -> "object | None":
    """ctypes, if this interpreter has it."""
    try:
        return library("ctypes")
    except ImportError:
        return None
