"""Layout of the frames: docs/worker-protocol.md as constants and structs. All integers are little-endian."""

from struct import Struct

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401

PROTOCOL = 1

HELLO, ARENA, DROP, LOAD, LOADED, CALL, RESULT, NEED = 1, 2, 3, 4, 5, 6, 7, 8
REFUSE, RECODE, PING, PONG, LOG, STATS, BYE = 9, 10, 11, 12, 13, 14, 15
DATA, NEXT = 17, 18
CONTEXT, COUNTS = 19, 20

SKIPPABLE = 0x8000  # flag of a frame that a receiver may skip if it does not know the type
PRIVATE = 1  # flag of ARENA: no descriptor comes with it
FRAME_BYTES_MAX = 1 << 20
DATA_BYTES = (32 << 10) - 32  # bytes of one DATA frame of this worker; 32 KiB with header and head
LONG_FRAME_BYTES_MAX = 16 << 20
LONG_FRAMES = frozenset((LOAD, LOADED, LOG, STATS, 16))

ROLE_INPUT, ROLE_OUTPUT = 1, 2
FORM_ARROW, FORM_MARSHAL, FORM_FLAT = 1, 2, 3
DONE, FAILED, TOO_LARGE = 0, 1, 2  # status of a segment
RAISED, MISFIT, NO_ROW = 1, 2, 3  # kind of an error
MEASURE_CPU, KEEP_GOING = 1, 2  # flags of CALL
MORE = 1  # flag of RESULT: a table function has more to come
NEXT_END = 1  # flag of NEXT: the body is to end

BLOCK_ROWS_MAX = 4096
CLASS_BYTES_MAX, TEXT_BYTES_MAX, TRACE_BYTES_MAX = 256, 4 << 10, 16 << 10

HEADER = Struct("<IHHQ")  # length, type, flags, call
ARENA_HEAD = Struct("<IIQ")  # arena, role, size
DROP_HEAD = Struct("<I")
DATA_HEAD = Struct("<I4xQ")  # arena, offset
NEXT_HEAD = Struct("<QII")  # remaining, flags, reserved
BYTES = Struct("<Q")  # of NEED, REFUSE, PONG

# CALL and its first segment in one: function, generation, remaining, out_arena, block_rows, out_base, out_limit, nseg, flags,
# row_lo, row_hi, sel_len, ncols
CALL_HEAD = Struct("<IIQIIQQHH4x8xQQ12xIH6x")
CALL_BYTES, SEGMENT_BYTES, COLUMN_BYTES, BUFFER_BYTES = 48, 48, 16, 16
SEGMENT = Struct("<8xQQ12xIH6x")  # row_lo, row_hi, sel_len, ncols
COLUMN = Struct("<HHIQ")  # form, nbuf, arena, nulls
BUFFER = Struct("<QQ")  # offset, length

# A column as decoders see it: form | nbuf << 16, arena, nulls, then offset and length of each buffer.
TWO_BUFFERS = "IIQQQQQ"
WIDTH_TWO, WIDTH_THREE = 7, 9  # fields of a column with two and with three buffers

RESULT_HEAD = Struct("<QQQQQQQIIQQHHI")
RESULT_PLACE = Struct("<8xQ56xI4xQQ")  # of the whole frame: call, out_arena, out_base, out_used
RESULT_SEGMENT = Struct("<BBHIQ")  # status, ncols, reserved, nerr, rows
RESULT_COLUMN = Struct("<HHIQ")  # form, nbuf, blocks, nulls
ERROR_HEAD = Struct("<QHHIII")  # row, kind, class, text and trace lengths, reserved

# Header, CALL and its first segment in one: length, type, call, function, generation, out_arena, out_base, out_limit,
# nseg | flags << 16, row_lo, row_hi, sel_len
ONE_HEAD = Struct("<IH2xQII8xI4xQQI4x8xQQ12xI8x")

# The RESULT of one row. Every field is a u64, small neighbours folded into one: one format code packs faster than
# twenty. First header, recv, send, decode, body, encode, body_cpu, peak, out_arena and out_base; then what seldom
# changes: out_used, nseg, status and ncols, rows, form and nbuf and blocks, nulls, two buffers.
ONE_RESULT, _ONE_TAIL = Struct("<11Q"), Struct("<10Q")
ONE_RESULT_BYTES = ONE_RESULT.size + _ONE_TAIL.size


def one_tail(form: int, blocks: int, used: int, first: tuple, second: tuple) -> bytes:
    """The end of the RESULT of one row; first and second: offset and length of the column's buffers."""
    return _ONE_TAIL.pack(used, 1, DONE | 1 << 8, 1, form | 2 << 16 | blocks << 32, 0, *first, *second)


class ProtocolError(Exception):
    """The gateway broke the protocol; the worker ends."""
