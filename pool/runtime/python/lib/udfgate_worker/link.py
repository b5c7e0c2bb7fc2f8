"""The protocol socket: frames in, frames out, and the descriptors that come with ARENA frames."""

import _socket
import os
from _thread import RLock

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.frames import FRAME_BYTES_MAX, HEADER, LONG_FRAME_BYTES_MAX, LONG_FRAMES, ProtocolError

BUFFER_BYTES = 16 << 10
HIGH_DESCRIPTOR = 512  # out of the way of bodies that close "the first few" descriptors; below the usual limit of 1024
RIGHTS_BYTES = _socket.CMSG_SPACE(4 * 4)
_TYPE_AT = 4  # of a frame's header: no type is 0
CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class Link:
    """One end of a stream socket pair, owned by the main thread; during a call by whoever holds `lock` (asking.py).

    `buffer[start:end]` holds bytes that were read and not yet taken up. Every read is a recvmsg, because an ARENA
    frame may come at any time and its descriptor is lost if its first byte is read any other way.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = _move(descriptor)
        self.socket = _socket.socket(fileno=self.descriptor)
        self.socket.setblocking(True)
        self._receive = self.socket.recvmsg_into
        self._send = self.socket.sendall
        self.forked = False
        self.lock = RLock()
        self.owed = 0  # answers to CONTEXT that are still to come
        self.rights: list[int] = []  # descriptors received, oldest first
        self._buffer(bytearray(BUFFER_BYTES), 0)

    def _buffer(self, buffer: bytearray, end: int) -> None:
        self.buffer = buffer
        self._whole = [memoryview(buffer)]
        self.start, self.end = 0, end

    def fill(self) -> None:
        """Wait for bytes while nothing is left. Ends the process at end of file: the gateway is gone.

        Most of a worker's time is spent here, and so is that of a timer which a body has left behind: what its handler
        raises is told and forgotten, if nothing has been read. While a body's own question waits here, it is the body's.
        """
        buffer = self.buffer
        buffer[_TYPE_AT] = 0
        while True:
            try:
                end, rights, _, _ = self._receive(self._whole, RIGHTS_BYTES, CLOSE_ON_EXEC)
                break
            except BaseException as e:
                if (
                    self.owed
                    or buffer[_TYPE_AT]
                    or getattr(e, "errno", None) is not None
                    or issubclass(type(e), MemoryError)
                ):
                    raise  # a frame that was read is lost, or it is of the socket
                _tell(e)
        if rights:
            self._keep(rights)
        if not end:
            os._exit(0)
        self.start, self.end = 0, end

    def frame(self) -> tuple[int, int, int, int, int]:
        """Wait for a frame: type, flags, call, and where in `buffer` its payload begins and how long it is.

        The payload stays valid until the next call.
        """
        if self.start == self.end:
            self.fill()
        start, have = self.start, self.end - self.start
        if have >= 16:
            length, kind, flags, call = HEADER.unpack_from(self.buffer, start)
            if have >= 16 + length:
                start += 16
                self.start = start + length
                return kind, flags, call, start, length
        return self._pieces(have)

    def _pieces(self, have: int) -> tuple[int, int, int, int, int]:
        """Read on until the frame that begins at `start` is complete."""
        buffer = self.buffer
        buffer[:have] = buffer[self.start : self.end]
        have = self._more(have, 16)
        length, kind, flags, call = HEADER.unpack_from(buffer)
        if length > (LONG_FRAME_BYTES_MAX if kind in LONG_FRAMES else FRAME_BYTES_MAX):
            raise ProtocolError(f"frame of type {kind} has {length} bytes")
        if 16 + length > len(buffer):
            grown = bytearray(16 + length)
            grown[:have] = buffer[:have]
            self._buffer(grown, have)
        self.end = self._more(have, 16 + length)
        self.start = 16 + length
        return kind, flags, call, 16, length

    def _more(self, have: int, want: int) -> int:
        view = self._whole[0]
        while have < want:
            count, rights, _, _ = self._receive([view[have:]], RIGHTS_BYTES, CLOSE_ON_EXEC)
            if rights:
                self._keep(rights)
            if not count:
                os._exit(0)
            have += count
        return have

    def unread(self, frames: bytes) -> None:
        """Put whole frames back in front of what is still to be taken up."""
        rest = frames + self.buffer[self.start : self.end]
        buffer = bytearray(max(len(rest), BUFFER_BYTES))
        buffer[: len(rest)] = rest
        self._buffer(buffer, len(rest))

    def shrink(self) -> None:
        """Give a buffer back that LOAD made large."""
        if len(self.buffer) > FRAME_BYTES_MAX and self.start == self.end:
            self._buffer(bytearray(BUFFER_BYTES), 0)

    def _keep(self, rights: list) -> None:
        for level, kind, data in rights:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                self.rights += memoryview(data)[: len(data) // 4 * 4].cast("i")

    def right(self) -> int:
        """The descriptor that came with the ARENA frame just read."""
        if not self.rights:
            raise ProtocolError("an ARENA frame without descriptor")
        return self.rights.pop(0)

    def send(self, frame: bytes) -> None:
        """Write a whole frame. Ends the process if the gateway is gone."""
        try:
            self._send(frame)
        except OSError:
            os._exit(0)

    def put(self, kind: int, call: int, payload: bytes, flags: int = 0) -> None:
        """Write header and payload."""
        self.send(HEADER.pack(len(payload), kind, flags, call) + payload)

    def abandon(self) -> None:
        """In a forked child: let go of the socket, so that only the parent speaks on it and keeps it open."""
        self.forked = True
        os.close(self.socket.detach())


def _tell(error: BaseException) -> None:
    from udfgate_worker.errors import traceback_of

    try:
        os.write(2, traceback_of(error, ()).encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def _move(descriptor: int) -> int:
    """Move a descriptor to a high number that programs started by bodies do not inherit."""
    for high in (HIGH_DESCRIPTOR, 64):
        try:
            os.dup2(descriptor, high, inheritable=False)
        except OSError:  # over RLIMIT_NOFILE
            continue
        os.close(descriptor)
        return high
    os.set_inheritable(descriptor, False)
    return descriptor
