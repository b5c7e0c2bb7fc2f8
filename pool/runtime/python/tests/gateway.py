"""The gateway's side of the worker protocol, for tests: one worker process, arenas, frames made and taken by hand."""

import array
import fcntl
import json
import marshal
import mmap
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import textwrap

import forms
from answers import Error, Result, SegmentResult

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(os.path.dirname(HERE), "worker.py")
TIMEOUT = 30.0  # seconds that a test waits for a frame before it fails

HELLO, ARENA, DROP, LOAD, LOADED, CALL, RESULT, NEED = 1, 2, 3, 4, 5, 6, 7, 8
REFUSE, RECODE, PING, PONG, LOG, STATS, BYE = 9, 10, 11, 12, 13, 14, 15
DATA = 17
CONTEXT, COUNTS = 19, 20
PRIVATE = 1  # flag of ARENA
CALLER = {
    "stream": 17, "batch": 3, "principal": "10.0.0.7", "cancelled": False,
    "headers": [["x-tenant", "a"], ["x-tag", "1"], ["x-tag", "2"]],
}  # fmt: skip
# UDFGATE_TEST_ARENAS=private runs every test that does not say otherwise over private arenas.
ARENAS = os.environ.get("UDFGATE_TEST_ARENAS", "shared")
DATA_BYTES = 20_011  # of one DATA frame; ends anywhere
SKIPPABLE = 0x8000
ARROW, MARSHAL, FLAT = 1, 2, 3
INPUT, OUTPUT = 1, 2
CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float32": "f", "float64": "d",
}  # fmt: skip
WIDE = {**CODES, **forms.NUMBERS}
VARIABLE = ("utf8", "binary")
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL if hasattr(fcntl, "F_SEAL_SEAL") else 0xF & ~8


class Gone(Exception):
    """The worker closed its end."""


class Arena:
    """One memfd, mapped, with a cursor for placing buffers at multiples of 64."""

    def __init__(self, number, role, size):
        self.number, self.role, self.size = number, role, size
        self.descriptor = os.memfd_create("arena", os.MFD_CLOEXEC | 2)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)
        seals = 0x1 | 0x2 | 0x4 | (0x10 if role == INPUT else 0)  # SEAL, SHRINK, GROW, FUTURE_WRITE
        fcntl.fcntl(self.descriptor, 1033, seals)
        self.at = 0

    def place(self, data):
        at = self.at
        self.memory[at : at + len(data)] = data
        self.at = -(-(at + len(data) + 32) // 64) * 64
        return at, len(data)

    def unsent(self):
        """Nothing is ever to be sent."""
        return []

    def close(self):
        self.memory.close()
        os.close(self.descriptor)


class PrivateArena:
    """The gateway's copy of an arena; what is placed in it is to be sent."""

    def __init__(self, number, role, size):
        self.number, self.role, self.size, self.at = number, role, size, 0
        self.memory = bytearray(size)
        self.placed = []

    def place(self, data):
        at = self.at
        self.memory[at : at + len(data)] = data
        self.placed.append((at, len(data)))
        self.at = -(-(at + len(data) + 32) // 64) * 64
        return at, len(data)

    def unsent(self):
        """DATA payloads of what was placed since the last time."""
        placed, self.placed = self.placed, []
        return [
            data_head(self.number, start) + self.memory[start : min(start + DATA_BYTES, at + size)]
            for at, size in placed
            for start in range(at, at + size, DATA_BYTES)
        ]

    def close(self):
        pass


class Gateway:
    """Starts a worker and speaks to it."""

    def __init__(self, python=sys.executable, flags=("-I",), env=None, out_size=1 << 20, in_size=8 << 20,
                 worker=WORKER, arenas=ARENAS):  # fmt: skip
        self.private = arenas == "private"
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (theirs.fileno(), out_write, err_write)]
        null = fcntl.fcntl(os.open(os.devnull, os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 20)
        actions = [
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, high[1], 1),
            (os.POSIX_SPAWN_DUP2, high[2], 2),
            (os.POSIX_SPAWN_DUP2, high[0], 3),
        ]
        self.pid = os.posix_spawn(
            python,
            [python, *flags, worker],
            env if env is not None else {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
            file_actions=actions,
        )
        theirs.close()
        for descriptor in (out_write, err_write, null, *high):
            os.close(descriptor)
        self.stdout = open(out_read, "rb")  # noqa: SIM115  lives as long as the gateway, which closes it
        self.stderr = open(err_read, "rb")  # noqa: SIM115  the same
        self.socket = ours
        self.socket.settimeout(TIMEOUT)
        self.pending = b""
        self.arenas = {}
        self.status = None
        self.folder = None
        self.next_call = 1
        self.asked, self.counted, self.logged, self.deaf = [], [], [], False
        self.caller = dict(CALLER)
        kind, _, _, payload = self.read()
        assert kind == HELLO, kind
        self.hello = json.loads(payload)
        self.input = self.add_arena(INPUT, in_size)
        self.output = self.add_arena(OUTPUT, out_size)

    # frames

    def send(self, data, pieces=None):
        if pieces is None:
            self.socket.sendall(data)
        else:
            for at in range(0, len(data), pieces):
                self.socket.sendall(data[at : at + pieces])

    def put(self, kind, call=0, payload=b"", flags=0):
        self.send(frame(kind, call, payload, flags))

    def read(self):
        while True:
            if len(self.pending) >= 16:
                length, kind, flags, call = struct.unpack_from("<IHHQ", self.pending)
                if len(self.pending) >= 16 + length:
                    payload = self.pending[16 : 16 + length]
                    self.pending = self.pending[16 + length :]
                    if kind == DATA and self.private:
                        self.take_data(payload)
                        continue
                    if kind in (CONTEXT, COUNTS) or (kind == LOG and call):
                        self.heard(kind, flags, call, payload)
                        continue
                    return kind, flags, call, payload
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone
            self.pending += data

    def heard(self, kind, flags, call, payload):
        """What a body asks, counts or logs. `caller` is what it is told, `asked` has what came."""
        if kind == CONTEXT:
            assert not flags and len(payload) == 4, (flags, payload)
            (what,) = struct.unpack("<I", payload)
            self.asked.append((call, what))
            if self.deaf:
                return
            answer = self.caller if what == 1 else {"cancelled": self.caller["cancelled"]}
            self.put(CONTEXT, call, json.dumps(answer).encode())
        else:
            assert flags == SKIPPABLE, flags
            (self.counted if kind == COUNTS else self.logged).append((call, json.loads(payload)))

    def expect(self, kind):
        got, flags, call, payload = self.read()
        assert got == kind, f"wanted a frame of type {kind}, got {got}: {payload[:200]}"
        return call, payload

    # arenas

    def add_arena(self, role, size, number=None):
        arena = (PrivateArena if self.private else Arena)(number or len(self.arenas) + 1, role, size)
        self.arenas[arena.number] = arena
        payload = struct.pack("<IIQ", arena.number, role, size)
        if self.private:
            self.put(ARENA, 0, payload, PRIVATE)
            return arena
        data = frame(ARENA, 0, payload)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [arena.descriptor]))]
        sent = self.socket.sendmsg([data], rights)
        self.socket.sendall(data[sent:])
        return arena

    def take_data(self, payload):
        """The worker's DATA: into our copy of an output arena."""
        number, _, offset = struct.unpack_from("<IIQ", payload)
        arena, data = self.arenas[number], payload[16:]
        assert arena.role == OUTPUT and offset + len(data) <= arena.size, (number, offset, len(data))
        arena.memory[offset : offset + len(data)] = data

    # load

    def load(self, modules, path=(), generation=1):
        self.generation = generation
        request = {"modules": modules, "path": list(path), "generation": generation}
        self.put(LOAD, 0, json.dumps(request).encode())
        kind, flags, _, payload = self.read()
        self.logs = []
        while kind == LOG:
            assert flags == SKIPPABLE, flags
            self.logs.append(json.loads(payload))
            kind, flags, _, payload = self.read()
        assert kind == LOADED, (kind, payload[:200])
        self.loaded = json.loads(payload)
        return self.loaded

    def write(self, source, name="served"):
        """A file in a folder that goes with this worker."""
        if self.folder is None:
            self.folder = tempfile.TemporaryDirectory(prefix="udfgate-test-")
        file = os.path.join(self.folder.name, name + ".py")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(source))
        return file

    def load_source(self, source, name="served"):
        file = self.write(source, name)
        return self.load([{"name": name, "file": file}], [self.folder.name])

    def function(self, name):
        for function in self.loaded["functions"]:
            if function["name"] == name:
                return function
        raise AssertionError(f"{name} is not among {self.loaded}")

    # calls

    def call(self, name, *columns, **options):
        """Send one CALL of one segment and read its RESULT. Each column is a list of values."""
        number = self.send_call(name, *columns, **options)
        result = self.result(name)
        if any(segment.misfit for segment in result.segments):  # as the gateway does
            self.put(RECODE, number)
            result = self.result(name)
            assert not any(segment.misfit for segment in result.segments)
        return result

    def send_call(self, name, *columns, pieces=None, **options):
        number, data = self.call_frame(name, *columns, **options)
        self.send(data, pieces)
        return number

    def call_frame(self, name, *columns, rows=None, lo=0, hi=None, block=4096, forms=None, flags=0, base=0, limit=None,
                   out=None, generation=None, number=None, remaining=0, segments=None):  # fmt: skip
        function = self.function(name)
        out = out or self.output
        rows = rows if rows is not None else len(columns[0]) if columns else 0
        call, self.next_call = self.next_call, self.next_call + 1
        if segments is None:
            self.input.at = 0
            segments = [self.segment(function, columns, rows, lo, rows if hi is None else hi, block, forms)]
        head = struct.pack(
            "<IIQIIQQHHI", function["number"] if number is None else number, generation or self.generation, remaining,
            out.number, block, base, out.size - base if limit is None else limit, len(segments), flags, 0,
        )  # fmt: skip
        self.block = block
        data = b"".join([frame(DATA, call, payload) for payload in self.input.unsent()])
        return call, data + frame(CALL, call, head + b"".join(segments))

    def segment(self, function, columns, rows, lo, hi, block=4096, given=None):
        types = [arg["type"] for arg in function["args"]]
        types += ["int64"] * (len(columns) - len(types))
        data = struct.pack("<QQQQIIHHI", rows, lo, hi, 0, 0, 0, len(columns), 0, 0)
        for at, (kind, values) in enumerate(zip(types, columns)):
            form = given[at] if given else usual_form(kind)
            buffers = self.column(kind, values, form, lo, hi, block)
            data += struct.pack("<HHIQ", form, len(buffers), self.input.number, values.count(None))
            for offset, length in buffers:
                data += struct.pack("<QQ", offset, length)
        return data

    def column(self, kind, values, form, lo, hi, block):
        place = self.input.place
        if form == MARSHAL:
            write = marshal_block if forms.is_plain(kind) else forms.block
            blocks = [write(kind, values[at : min(at + block, hi)]) for at in range(lo, hi, block)]
            ends = [0]
            for one in blocks:
                ends.append(ends[-1] + len(one))
            return [place(struct.pack(f"<{len(ends)}Q", *ends)), place(b"".join(blocks))]
        validity = place(bits([value is not None for value in values])) if None in values else (0, 0)
        if kind == "bool":
            return [validity, place(bits([bool(value) for value in values]))]
        kind = forms.kind_of(kind)
        if kind in WIDE:
            filled = [77 if value is None else value for value in values]  # what lies under a null is undefined
            return [validity, place(struct.pack(f"<{len(values)}{WIDE[kind]}", *filled))]
        ends, data = [0], b""
        for value in values:
            data += b"" if value is None else value.encode() if kind == "utf8" else value
            ends.append(len(data))
        return [validity, place(struct.pack(f"<{len(ends)}i", *ends)), place(data)]

    def result(self, name):
        """Read a RESULT, giving the worker every room that it needs."""
        while True:
            kind, _, call, payload = self.read()
            if kind != NEED:
                break
            (size,) = struct.unpack("<Q", payload)
            self.output = self.add_arena(OUTPUT, -(-size // 4096) * 4096)
        assert kind == RESULT, f"wanted a RESULT, got a frame of type {kind}"
        field = self.function(name)["result"]
        return self.parse(call, payload, field["type"], field["nullable"])

    def parse(self, call, payload, kind, nullable=True):
        head = struct.Struct("<QQQQQQQIIQQHHI")
        names = ("recv", "send", "decode", "body", "encode", "body_cpu", "peak", "out_arena", "res", "out_base",
                 "out_used", "nseg", "flags", "res2")  # fmt: skip
        fields = dict(zip(names, head.unpack_from(payload)))
        assert fields["decode"] + fields["body"] + fields["encode"] <= fields["send"] - fields["recv"], fields
        region = self.arenas[fields["out_arena"]].memory[fields["out_base"] :][: fields["out_used"]]
        at, segments = head.size, []
        for _ in range(fields["nseg"]):
            status, columns, _, errors, rows = struct.unpack_from("<BBHIQ", payload, at)
            at += 16
            values, nulls, texts, index, found = None, None, None, None, []
            for number in range(columns):
                form, count, blocks, nulls = struct.unpack_from("<HHIQ", payload, at)
                buffers = [struct.unpack_from("<QQ", payload, at + 16 + 16 * k) for k in range(count)]
                at += 16 + 16 * count
                if number == 1 and form == ARROW:  # of a table function
                    (_, none), (start, size) = buffers
                    assert not none and not nulls and not start % 8 and size == 4 * rows, (buffers, nulls, rows)
                    index = list(struct.unpack(f"<{rows}i", region[start : start + size]))
                elif number:
                    assert form == MARSHAL, form
                    texts = self.values("utf8", rows, form, blocks, nulls, buffers, region)
                    assert any(text is not None for text in texts), "an error column without an error"
                else:
                    values, count = self.values(kind, rows, form, blocks, nulls, buffers, region), nulls
                    own = form
            nulls = count if columns else None
            for _ in range(errors):
                row, error_kind, n1, n2, n3, _ = struct.unpack_from("<QHHIII", payload, at)
                at += 24
                parts = []
                for size in (n1, n2, n3):
                    parts.append(payload[at : at + size].decode())
                    at += size
                found.append(Error(row, error_kind, *parts))
            segments.append(SegmentResult(status, rows, values, nulls, found, texts, index))
            if values is not None and own == MARSHAL and not forms.is_plain(kind):
                good = [forms.fits(kind, nullable or (texts and texts[at]), v) for at, v in enumerate(values)]
                segments[-1].misfit = not all(good)
                segments[-1].values = [forms.plainly(kind, v) for v in values] if all(good) else values
        assert at == len(payload), (at, len(payload))
        return Result(call, fields, segments)

    def values(self, kind, rows, form, blocks, nulls, buffers, region):
        for offset, length in buffers:
            assert offset % 8 == 0 and offset + length <= len(region), (offset, length, len(region))
        parts = [region[offset : offset + length] for offset, length in buffers]
        if form == MARSHAL:
            assert usual_form(kind) == MARSHAL and nulls == 0
            ends = struct.unpack(f"<{blocks + 1}Q", parts[0])
            assert ends[-1] == len(parts[1])
            values = []
            for number, (start, end) in enumerate(zip(ends, ends[1:])):
                block = marshal.loads(parts[1][start:end])
                assert len(block) == min(self.block, rows - number * self.block)
                values += block
            assert len(values) == rows
            return values
        assert form == FLAT
        if kind == "bool":
            assert set(parts[1]) <= {0, 1}
            values = [byte == 1 for byte in parts[1]]
        else:
            values = list(struct.unpack(f"<{rows}{WIDE[forms.kind_of(kind)]}", parts[1]))
        assert len(values) == rows
        if parts[0]:
            assert len(parts[0]) == rows and set(parts[0]) <= {0, 1} and parts[0].count(0) == nulls
            values = [value if valid else None for value, valid in zip(values, parts[0])]
        else:
            assert nulls == 0
        return values

    # end

    def wait(self):
        """Exit status, or minus the signal."""
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.status

    def close(self):
        self.socket.close()
        if self.status is None and not _ended(self.pid, TIMEOUT):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()
        for stream in (self.stdout, self.stderr):
            stream.close()
        for arena in self.arenas.values():
            arena.close()
        self.arenas.clear()
        if self.folder:
            self.folder.cleanup()


def _ended(pid, seconds):
    """Wait for a child without reaping it."""
    if not hasattr(os, "pidfd_open"):
        return True
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def usual_form(type_):
    """The form in which a type crosses."""
    return ARROW if forms.kind_of(type_) in (*WIDE, "bool") else MARSHAL


def frame(kind, call=0, payload=b"", flags=0):
    return struct.pack("<IHHQ", len(payload), kind, flags, call) + payload


def data_head(arena, offset):
    return struct.pack("<IIQ", arena, 0, offset)


def bits(flags):
    out = bytearray((len(flags) + 7) // 8)
    for at, flag in enumerate(flags):
        out[at >> 3] |= flag << (at & 7)
    return bytes(out)


def marshal_block(kind, values):
    """A block as the gateway writes it."""
    out = [b"[" + struct.pack("<I", len(values))]
    for value in values:
        if value is None:
            out.append(b"N")
        elif kind == "binary":
            out.append(b"s" + struct.pack("<I", len(value)) + value)
        elif value.isascii():
            data = value.encode()
            out.append((b"z" + bytes([len(data)]) if len(data) < 256 else b"a" + struct.pack("<I", len(data))) + data)
        else:
            data = value.encode()
            out.append(b"u" + struct.pack("<I", len(data)) + data)
    return b"".join(out)
