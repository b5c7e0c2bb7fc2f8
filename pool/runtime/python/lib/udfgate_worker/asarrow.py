"""pyarrow: columns as its arrays, over the arena itself, and answers of its classes.

Extensions are their storage here: JSON is its text, a UUID its 16 bytes.
"""

import pyarrow as pa
import pyarrow.compute as pc

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.kinds import DECIMALS, Type
from udfgate_worker.loans import ZERO, Loan
from udfgate_worker.typenames import Unserved
from udfgate_worker.whole import OFFSETS, Whole, width_of

_SIMPLE = {
    "bool": pa.bool_,
    "float16": pa.float16,
    "month_day_nano_interval": pa.month_day_nano_interval,
    "date32": pa.date32,
    "date64": pa.date64,
    "null": pa.null,
    "utf8": pa.utf8,
    "binary": pa.binary,
    "large_utf8": pa.large_utf8,
    "large_binary": pa.large_binary,
}
# Kinds whose values validate() looks at: whether they are UTF-8, a time of day, a whole day, within the precision.
_CHECKED = ("utf8", "large_utf8", "time32", "time64", "date64", *DECIMALS)
_UNITS = {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}


def _checks(*names: str) -> tuple:
    return tuple([getattr(pa.types, name) for name in names if hasattr(pa.types, name)])


_TEXTS = _checks("is_string", "is_large_string", "is_string_view")
_BYTES = _checks("is_binary", "is_large_binary", "is_binary_view")


def arrow_type(type_: Type, loose: bool = False) -> pa.DataType:
    """pyarrow's type. loose: everything within is nullable but keys. Raises Unserved."""
    kind = type_.kind
    children = [
        pa.field(name, arrow_type(child, loose), (loose and (kind != "map" or at > 0)) or nullable)
        for at, (name, child, nullable) in enumerate(type_.children)
    ]
    if kind == "list":
        return pa.list_(children[0])
    if kind == "large_list":
        return pa.large_list(children[0])
    if kind == "fixed_size_list":
        return pa.list_(children[0], type_.size)
    if kind == "struct":
        return pa.struct(children)
    if kind == "map":
        return pa.map_(*children)
    if kind == "fixed_size_binary":
        return pa.binary(type_.size)
    if kind == "timestamp":
        return pa.timestamp(type_.unit, type_.zone or None)
    if kind in _UNITS:
        return _UNITS[kind](type_.unit)
    try:
        if kind in DECIMALS:
            return getattr(pa, kind)(type_.precision, type_.scale)
        return (_SIMPLE.get(kind) or getattr(pa, kind))()
    except AttributeError:
        raise Unserved(f"pyarrow {pa.__version__} has no type {kind}") from None


class Reader:
    """Makes the array of one argument."""

    def __init__(self, type_: Type) -> None:
        self.type_, self.arrow = type_, arrow_type(type_)
        self.flat = not type_.children and type_.kind != "null" and type_.kind not in OFFSETS

    def read(self, loan: Loan, places: list, lo: int, hi: int, nulls: int) -> tuple:
        """(rows [lo, hi), Misfits by index of those that cannot be held).

        places: arena, offset and length of each buffer; nulls: of the rows, -1 if not known.
        """
        if self.flat:  # the shortest way: each step costs several times as much on a core that was halted
            valid = _buffer(loan, *places[0]) if nulls else None
            values = _buffer(loan, *places[1]) or pa.py_buffer(ZERO)
            return pa.Array.from_buffers(self.arrow, hi - lo, [valid, values], 0 if valid is None else nulls, lo), {}
        buffers = iter([_buffer(loan, *place) for place in places])
        return _array(self.type_, self.arrow, buffers, lo, hi, nulls), {}

    def given(self, values: list) -> pa.Array:
        """The column of values that a file has written down. Raises what pyarrow raises over them."""
        return pa.array(values, self.arrow)


def _buffer(loan: Loan, arena: int, offset: int, size: int) -> "pa.Buffer | None":
    if not size:
        return None
    memory = loan.check(arena, offset, size)
    owner = loan.owner(arena, offset, size)
    if owner is None:
        return pa.py_buffer(bytes(memory[offset : offset + size]))
    return pa.foreign_buffer(owner.address + offset, size, owner)


def _end(offsets: "pa.Buffer | None", width: int, rows: int) -> int:
    """Where a child ends: the last offset."""
    if offsets is None:
        return 0
    at = memoryview(offsets).cast("B")[rows * width : (rows + 1) * width]
    return int.from_bytes(at, "little", signed=True)


def _array(type_: Type, arrow: pa.DataType, buffers: object, lo: int, hi: int, nulls: int = -1) -> pa.Array:
    kind, count = type_.kind, hi - lo
    if kind == "null":
        return pa.nulls(count)
    valid = next(buffers)
    if valid is None:
        nulls = 0
    if kind in OFFSETS:
        offsets = next(buffers)
        last = _end(offsets, OFFSETS[kind], hi)
        own = [valid, pa.py_buffer(ZERO) if offsets is None else offsets]
        if kind == "map":
            return pa.Array.from_buffers(arrow, count, own, nulls, lo, [_entries(type_, arrow, buffers, last)])
        if type_.children:
            item = _array(type_.children[0][1], arrow.value_type, buffers, 0, last)
            return pa.Array.from_buffers(arrow, count, own, nulls, lo, [item])
        return pa.Array.from_buffers(arrow, count, [*own, next(buffers) or pa.py_buffer(b"")], nulls, lo)
    if kind == "fixed_size_list":
        item = _array(type_.children[0][1], arrow.value_type, buffers, 0, hi * type_.size)
        return pa.Array.from_buffers(arrow, count, [valid], nulls, lo, [item])
    if kind == "struct":
        members = [_array(one[1], arrow.field(at).type, buffers, 0, hi) for at, one in enumerate(type_.children)]
        return pa.Array.from_buffers(arrow, count, [valid], nulls, lo, members)
    return pa.Array.from_buffers(arrow, count, [valid, next(buffers) or pa.py_buffer(ZERO)], nulls, lo)


def _entries(type_: Type, arrow: pa.DataType, buffers: object, last: int) -> pa.Array:
    next(buffers)  # entries are never null
    (_, key, _), (_, value, _) = type_.children
    parts = [_array(key, arrow.key_type, buffers, 0, last), _array(value, arrow.item_type, buffers, 0, last)]
    return pa.Array.from_buffers(pa.struct([arrow.key_field, arrow.item_field]), last, [None], 0, 0, parts)


class Writer:
    """Takes answers of pyarrow's classes."""

    def __init__(self, type_: Type, nullable: bool) -> None:
        self.type_, self.nullable, self.loose = type_, nullable, arrow_type(type_, True)
        self.checked = bool(type_.children) or type_.kind in _CHECKED

    def whole(self, answer: pa.Array) -> "Whole | None":
        """The answer in the column's type where that is exact; None: the strict rules must decide."""
        try:
            if answer.type != self.loose:
                answer = self._cast(answer)
                if answer is None:
                    return None
            if self.checked:
                answer.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
        if (answer.null_count and not self.nullable) or not _filled(answer, self.type_):
            return None
        pieces: list = []
        _pieces(answer, self.type_, pieces)
        return Whole(len(answer), answer.null_count, pieces)

    def _cast(self, answer: pa.Array) -> "pa.Array | None":
        have, want = answer.type, self.loose
        if pa.types.is_floating(have) and pa.types.is_floating(want) and have.bit_width > want.bit_width:
            if have.bit_width == 64 and want.bit_width == 16:
                return None  # by way of 32 bits it would be rounded twice
            rounded = answer.cast(want, safe=False)
            if want.bit_width == 16:
                rounded32 = rounded.cast(pa.float32())
                beyond = pc.and_not(pc.is_inf(rounded32), pc.is_inf(answer))
            else:
                beyond = pc.and_not(pc.is_inf(rounded), pc.is_inf(answer))
            return None if pc.any(beyond).as_py() else rounded
        return answer.cast(want) if castable(have, want) else None


def castable(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a safe cast keeps each value or raises, and takes no more than the strict rules do."""
    is_ = pa.types
    if have == want or is_.is_null(have):
        return True
    if is_.is_integer(want):
        return is_.is_integer(have) or is_.is_boolean(have)
    if is_.is_floating(want):
        # To float16 pyarrow's cast of integers is not checked.
        return (is_.is_integer(have) and want.bit_width > 16) or (
            is_.is_floating(have) and have.bit_width < want.bit_width
        )
    for several in (_TEXTS, _BYTES):
        if any([one(want) for one in several]):
            fixed = several is _BYTES and is_.is_fixed_size_binary(have)
            return fixed or any([one(have) for one in several])
    if is_.is_fixed_size_binary(want):
        return any([one(have) for one in _BYTES])
    if is_.is_timestamp(want):
        return is_.is_timestamp(have) and (have.tz is None) == (want.tz is None)
    if is_.is_date64(want):
        return is_.is_date32(have)
    for same in (is_.is_time, is_.is_duration, is_.is_decimal):
        if same(want):
            return same(have)
    return _nested_castable(have, want)


def _nested_castable(have: pa.DataType, want: pa.DataType) -> bool:
    is_ = pa.types
    lists = (is_.is_list, is_.is_large_list)
    if any([one(want) for one in lists]):
        return any([one(have) for one in lists]) and castable(have.value_type, want.value_type)
    if is_.is_fixed_size_list(want):
        same = is_.is_fixed_size_list(have) and have.list_size == want.list_size
        return same and castable(have.value_type, want.value_type)
    if is_.is_map(want):
        return is_.is_map(have) and castable(have.key_type, want.key_type) and castable(have.item_type, want.item_type)
    if is_.is_struct(want) and is_.is_struct(have) and [f.name for f in have] == [f.name for f in want]:
        return all([castable(one.type, other.type) for one, other in zip(have, want)])
    return False


def _children(answer: pa.Array, type_: Type) -> list:
    if type_.kind == "struct":
        return [answer.field(at) for at in range(len(type_.children))]
    return [answer.keys, answer.items] if type_.kind == "map" else [answer.values]


def _filled(answer: pa.Array, type_: Type) -> bool:
    """Whether nothing within is null that must not be. What no row refers to counts too; the strict rules know."""
    if not type_.children:
        return True
    for part, (_, child, nullable) in zip(_children(answer, type_), type_.children):
        if (part.null_count and not nullable) or not _filled(part, child):
            return False
    return True


def _bits(buffer: pa.Buffer, at: int, count: int) -> "bytes | memoryview":
    data = memoryview(buffer).cast("B")[at >> 3 : at + count + 7 >> 3]
    if not at & 7:
        return data
    return (int.from_bytes(data, "little") >> (at & 7)).to_bytes(len(data), "little")[: count + 7 >> 3]


def _pieces(answer: pa.Array, type_: Type, out: list) -> None:
    """Append the buffers of an answer, its first row at 0."""
    kind, count, at = type_.kind, len(answer), answer.offset
    if kind == "null":
        return
    buffers = answer.buffers()
    out.append(_bits(buffers[0], at, count) if answer.null_count else b"")
    if kind in OFFSETS:
        first, last = _put_offsets(buffers[1], OFFSETS[kind], at, count, out)
        if kind == "map":
            out.append(b"")
        if not type_.children:
            out.append(memoryview(buffers[2]).cast("B")[first:last] if last > first else b"")
            return
        for part, (_, child, _) in zip(_children(answer, type_), type_.children):
            _pieces(part.slice(first, last - first), child, out)
    elif kind == "fixed_size_list":
        _pieces(answer.values.slice(at * type_.size, count * type_.size), type_.children[0][1], out)
    elif kind == "struct":
        for part, (_, child, _) in zip(_children(answer, type_), type_.children):
            _pieces(part, child, out)
    elif buffers[1] is None:
        out.append(b"")
    elif kind == "bool":
        out.append(_bits(buffers[1], at, count))
    else:
        width = width_of(type_)
        out.append(memoryview(buffers[1]).cast("B")[at * width : (at + count) * width])


def _put_offsets(buffer: "pa.Buffer | None", width: int, at: int, count: int, out: list) -> tuple:
    """Append the offsets, the first of them 0; (first, last) as they were."""
    if buffer is None or not count:
        out.append(ZERO[:width])
        return 0, 0
    first, last = _end(buffer, width, at), _end(buffer, width, at + count)
    if first:
        kind = pa.int32() if width == 4 else pa.int64()
        whole = pa.Array.from_buffers(kind, count + 1, [None, buffer], 0, at)
        whole = pc.subtract(whole, pa.scalar(first, kind))
        buffer, at = whole.buffers()[1], whole.offset
    out.append(memoryview(buffer).cast("B")[at * width : (at + count + 1) * width])
    return first, last


def array_of(answer: object) -> pa.Array:
    """A pyarrow array of whatever pyarrow class, plain: one chunk, no dictionary, runs or extension."""
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
        if isinstance(answer, pa.ChunkedArray):
            answer = answer.chunk(0) if answer.num_chunks == 1 else pa.concat_arrays(answer.chunks)
    while True:
        if isinstance(answer, pa.ExtensionArray):
            answer = answer.storage
        elif isinstance(answer, pa.DictionaryArray):
            answer = answer.dictionary_decode()
        elif isinstance(answer, getattr(pa, "RunEndEncodedArray", ())):
            answer = pc.run_end_decode(answer)
        else:
            return answer


def listed(answer: pa.Array) -> list:
    """An answer as values for the strict rules; those that Python's classes do not hold are pyarrow's scalars."""
    if not _lossy(answer.type):
        try:
            return answer.to_pylist()
        except MemoryError:
            raise
        except Exception:
            pass
    return list(map(_value, answer))


def _lossy(kind: pa.DataType) -> bool:
    """Whether to_pylist() may cut a value: nanoseconds or days of a time, hours of a date."""
    if pa.types.is_time(kind) or pa.types.is_date64(kind):
        return True
    return any([_lossy(kind.field(at).type) for at in range(kind.num_fields)])


def _value(scalar: pa.Scalar) -> object:
    try:
        value = scalar.as_py()
        if pa.scalar(value, scalar.type).equals(scalar):
            return value
    except MemoryError:
        raise
    except Exception:
        pass
    return _parts(scalar)


def _parts(scalar: pa.Scalar) -> object:
    """A value of which Python's classes do not hold some part: that part is pyarrow's, the rest is Python's."""
    is_, kind = pa.types, scalar.type
    if not scalar.is_valid:
        return None
    if is_.is_map(kind):
        return [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return list(map(_value, scalar.values))
    names = [kind.field(at).name for at in range(kind.num_fields)] if is_.is_struct(kind) else []
    if names and len(set(names)) == len(names):
        return {name: _value(scalar[at]) for at, name in enumerate(names)}
    return scalar


def spread(answer: pa.Array, seen: list, rows: int) -> pa.Array:
    """The answer for the rows seen as one for all rows, null elsewhere."""
    where: list = [None] * rows
    for number, at in enumerate(seen):
        where[at] = number
    return answer.take(pa.array(where, pa.int64()))
