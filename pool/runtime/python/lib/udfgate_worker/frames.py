"""Layout of the frames: docs/worker-protocol.md as constants and structs. All integers are little-endian."""

from struct import Struct

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401

PROTOCOL = 1

HELLO, ARENA, DROP, LOAD, LOADED, CALL, RESULT, NEED = 1, 2, 3, 4, 5, 6, 7, 8
REFUSE, RECODE, PING, PONG, LOG, STATS, BYE = 9, 10, 11, 12, 13, 14, 15

SKIPPABLE = 0x8000  # flag of a frame that a receiver may skip if it does not know the type
FRAME_BYTES_MAX = 1 << 20
LONG_FRAME_BYTES_MAX = 16 << 20
LONG_FRAMES = frozenset((LOAD, LOADED, LOG, STATS, 16))

ROLE_INPUT, ROLE_OUTPUT = 1, 2
FORM_ARROW, FORM_MARSHAL, FORM_FLAT = 1, 2, 3
DONE, FAILED, TOO_LARGE = 0, 1, 2  # status of a segment
RAISED, MISFIT, NO_ROW = 1, 2, 3  # kind of an error
MEASURE_CPU = 1  # flag of CALL

BLOCK_ROWS_MAX = 4096
CLASS_BYTES_MAX, TEXT_BYTES_MAX, TRACE_BYTES_MAX = 256, 4 << 10, 16 << 10

HEADER = Struct("<IHHQ")  # length, type, flags, call
ARENA_HEAD = Struct("<IIQ")  # arena, role, size
DROP_HEAD = Struct("<I")
BYTES = Struct("<Q")  # of NEED, REFUSE, PONG

# CALL and its first segment in one: function, generation, out_arena, block_rows, out_base, out_limit, nseg, flags,
# row_lo, row_hi, sel_len, ncols
CALL_HEAD = Struct("<II8xIIQQHH4x8xQQ12xIH6x")
CALL_BYTES, SEGMENT_BYTES, COLUMN_BYTES, BUFFER_BYTES = 48, 48, 16, 16
SEGMENT = Struct("<8xQQ12xIH6x")  # row_lo, row_hi, sel_len, ncols
COLUMN = Struct("<HHIQ")  # form, nbuf, arena, nulls
BUFFER = Struct("<QQ")  # offset, length

# A column as decoders see it: form | nbuf << 16, arena, nulls, then offset and length of each buffer.
TWO_BUFFERS = "IIQQQQQ"
WIDTH_TWO, WIDTH_THREE = 7, 9  # fields of a column with two and with three buffers

RESULT_HEAD = Struct("<QQQQQQQIIQQHHI")
RESULT_SEGMENT = Struct("<BBHIQ")  # status, ncols, reserved, nerr, rows
RESULT_COLUMN = Struct("<HHIQ")  # form, nbuf, blocks, nulls
ERROR_HEAD = Struct("<QHHIII")  # row, kind, class, text and trace lengths, reserved

# The whole RESULT of one segment with one column of two buffers: header | recv, send, decode, body, encode, body_cpu,
# peak, out_arena, out_base, out_used, nseg | status and ncols, rows | form and nbuf and blocks, nulls, two buffers.
# Every field is a u64 here, small neighbours folded into one: one format code packs faster than twenty.
ONE_RESULT = Struct("<21Q")
ONE_RESULT_HEAD = (ONE_RESULT.size - HEADER.size) | RESULT << 32
ONE_SEGMENT_DONE = DONE | 1 << 8


def column_word(form: int, blocks: int) -> int:
    """The first eight bytes of a result column with two buffers, as one u64."""
    return form | 2 << 16 | blocks << 32


class ProtocolError(Exception):
    """The gateway broke the protocol; the worker ends."""
