"""The life of a worker: HELLO, then one frame after the other until the gateway says BYE or is gone."""

import _signal
import faulthandler
import os
import sys
from time import monotonic_ns

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.arenas import Arenas
from udfgate_worker.call import Calls, peak_bytes
from udfgate_worker.errors import describe, traceback_of
from udfgate_worker.frames import (
    BYE,
    BYTES,
    CALL,
    HELLO,
    LOAD,
    LOADED,
    LOG,
    LONG_FRAME_BYTES_MAX,
    PING,
    PONG,
    PROTOCOL,
    RECODE,
    SKIPPABLE,
    STATS,
    ProtocolError,
)
from udfgate_worker.link import Link
from udfgate_worker.plainjson import decode, encode
from udfgate_worker.region import tidied
from udfgate_worker.single import serve_single_rows

PROTOCOL_DESCRIPTOR = 3
EXIT_BROKEN = 70  # EX_SOFTWARE: the gateway or this worker broke the protocol
FORMS = ["arrow", "flat", "marshal"]
ARENAS = ["shared", "private"]


def main() -> None:
    """Serve until BYE. Leaves the process by os._exit in every other case."""
    link = Link(PROTOCOL_DESCRIPTOR)
    worker = Worker(link)
    _settle(link, worker.arenas)
    try:
        worker.hello()
        worker.loop()
        if "udfgate_worker.tasks" in sys.modules:
            sys.modules["udfgate_worker.tasks"].end()
        link.socket.close()  # CPython 3.9 crashes over a socket that is open when the interpreter goes
    except BaseException as e:
        if link.forked:  # a body forked and its child came back: it is no worker
            os._exit(0)
        broken = issubclass(type(e), ProtocolError)
        what = f"protocol error: {e}" if broken else f"worker failed:\n{traceback_of(e, ())}"
        _last_words(f"udfgate worker: {what}\n")
        os._exit(EXIT_BROKEN)


def _settle(link: Link, arenas: Arenas) -> None:
    """Signals, standard streams and forks."""
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(_signal.SIGUSR1, file=2, all_threads=True)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # ^C in a terminal goes to the gateway, which drains
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True, errors="backslashreplace")

    def in_child() -> None:
        link.abandon()
        arenas.abandon()

    os.register_at_fork(after_in_child=in_child)


def _last_words(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()
    except BaseException:
        pass  # a body may have closed or replaced either


class Worker:
    """Answers every frame but CALL, which goes to Calls."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.arenas = Arenas()
        self.calls = Calls(link, self.arenas)
        self.loaded = False
        self.importing = ""  # the file that LOAD has come to

    def hello(self) -> None:
        """Introduce the worker."""
        site = [folder for folder in sys.path if folder.endswith(("/site-packages", "/dist-packages"))]
        hello = {
            "protocol": PROTOCOL,
            "runtime": "python",
            "version": "%d.%d.%d" % sys.version_info[:3],
            "pid": os.getpid(),
            "slots": 1,
            "forms": FORMS,
            "arenas": ARENAS,
            "site": site,
        }
        self.link.put(HELLO, 0, encode(hello))

    def loop(self) -> None:
        """Take frames until BYE."""
        link, run = self.link, self.calls.run
        while True:
            serve_single_rows(link, self.calls)
            kind, flags, call, at, length = link.frame()
            if kind == CALL:
                run(call, at, length)
            elif kind == BYE:
                return
            else:
                self._other(kind, flags, call, at, length)

    def _other(self, kind: int, flags: int, call: int, at: int, length: int) -> None:
        now = monotonic_ns()
        link = self.link
        if kind == PING:
            link.put(PONG, call, BYTES.pack(now))
        elif kind == RECODE:
            self.calls.recode(call)
        elif kind == STATS:
            link.put(STATS, call, encode(self.calls.stats()))
        elif kind == LOAD and not self.loaded:
            self.loaded = True
            self._load(call, bytes(link.buffer[at : at + length]))
            link.shrink()
        elif not tidied(link, self.arenas, (kind, flags, call, at, length)) and not flags & SKIPPABLE:
            raise ProtocolError(f"frame of type {kind} is not expected here")

    def _load(self, call: int, data: bytes) -> None:
        from udfgate_worker.load import load

        request = decode(data)
        folders = tuple([folder.rstrip("/") + "/" for folder in request.get("path") or []])
        try:
            self.calls.functions, entries, skipped = load(request, self.arenas.views, self._imports, self._tells)
            self.calls.generation = request["generation"]
            if not any([function.vector for function in self.calls.functions]):
                self.arenas.lend_nothing()
            reply = encode({"functions": entries, "skipped": skipped} if skipped else {"functions": entries})
            if len(reply) > LONG_FRAME_BYTES_MAX:
                raise ValueError(f"{len(entries)} functions need {len(reply)} bytes of LOADED")
        except BaseException as e:
            reply = encode({"error": describe(e, folders, self.importing)})
        self.calls.peak = peak_bytes()
        self.link.put(LOADED, call, reply)

    def _imports(self, file: str, count: int) -> None:
        """Note the file that is imported next; one of several is told, since a module may end the process."""
        self.importing = file
        if count > 1:
            self._tells(f"importing {file}")

    def _tells(self, what: str) -> None:
        self.link.put(LOG, 0, encode({"level": "debug", "message": what, "function": ""}), SKIPPABLE)
