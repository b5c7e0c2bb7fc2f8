"""Columns in arrow form between the tests and a worker, by way of pyarrow: only for interpreters that have it."""

import struct

import pyarrow as pa
from gateway import ARROW, Gateway

FIXED_WIDTHS = pa.types.is_primitive, pa.types.is_decimal, pa.types.is_fixed_size_binary


_ODD = {
    "utf8": pa.string(), "large_utf8": pa.large_string(), "large_binary": pa.large_binary(), "null": pa.null(),
    "month_day_nano_interval": pa.month_day_nano_interval(),
}  # fmt: skip


def arrow_of(kind):
    """The pyarrow type of a type of LOADED."""
    if isinstance(kind, str):
        return _ODD.get(kind) or pa.type_for_alias(kind)
    name = kind["name"]
    children = [pa.field(one["name"], arrow_of(one["type"]), one["nullable"]) for one in kind.get("children", [])]
    if name.startswith("decimal"):
        return getattr(pa, name)(kind["precision"], kind["scale"])
    if name == "timestamp":
        return pa.timestamp(kind["unit"], kind.get("zone"))
    if name in ("time32", "time64", "duration"):
        return getattr(pa, name)(kind["unit"])
    if name == "fixed_size_binary":
        return pa.binary(kind["size"])
    if name == "fixed_size_list":
        return pa.list_(children[0], kind["size"])
    if name in ("list", "large_list"):
        return {"list": pa.list_, "large_list": pa.large_list}[name](children[0])
    if name == "map":
        return pa.map_(*children)
    return pa.struct(children) if name == "struct" else arrow_of(name)


def fields_of(kind):
    """The child types."""
    if pa.types.is_struct(kind):
        return [kind.field(at).type for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [pa.struct([kind.key_field, kind.item_field])]
    return [kind.value_type] if pa.types.is_nested(kind) else []


def rebased(array):
    """The same values with offset 0 all the way down."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([pa.field("x", array.type)])) as writer:
        writer.write_batch(pa.record_batch([array], names=["x"]))
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)


def buffers_of(array):
    """Pre-order buffers as bytes, b"" for none."""
    return (
        []
        if pa.types.is_null(array.type)
        else [b"" if one is None else one.to_pybytes() for one in rebased(array).buffers()]
    )


def array_from(kind, buffers, rows):
    """The array of an answer: an iterator of bytes in pre-order, each child's length following from its parent."""
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    valid = next(buffers)
    own = [pa.py_buffer(valid) if valid else None]
    inner = rows
    if pa.types.is_fixed_size_list(kind):
        inner = rows * kind.list_size
    elif not pa.types.is_struct(kind):
        data = next(buffers)
        own.append(pa.py_buffer(data))
        if not any(check(kind) for check in FIXED_WIDTHS) and kind != pa.month_day_nano_interval():
            width = 8 if "large" in str(kind).split("<")[0] else 4
            inner = int.from_bytes(data[rows * width : (rows + 1) * width], "little")
            assert int.from_bytes(data[:width], "little") == 0
    if not fields_of(kind):
        if len(own) == 2 and (
            pa.types.is_large_string(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_string(kind)
            or pa.types.is_binary(kind)
        ):
            own.append(pa.py_buffer(next(buffers)))
        return pa.Array.from_buffers(kind, rows, own)
    children = [array_from(child, buffers, inner) for child in fields_of(kind)]
    return pa.Array.from_buffers(kind, rows, own, children=children)


class ArrowGateway(Gateway):
    """A gateway whose columns are pyarrow arrays."""

    def segment_of(self, arrays, lo=0, hi=None, rows=None):
        rows = len(arrays[0]) if rows is None else rows
        hi = rows if hi is None else hi
        data = struct.pack("<QQQQIIHHI", rows, lo, hi, 0, 0, 0, len(arrays), 0, 0)
        for array in arrays:
            buffers = [self.input.place(one) if one else (0, 0) for one in buffers_of(array)]
            data += struct.pack("<HHIQ", ARROW, len(buffers), self.input.number, array.null_count)
            data += b"".join([struct.pack("<QQ", *one) for one in buffers])
        return data

    def ask(self, name, *arrays, lo=0, hi=None, rows=None, **options):
        """One CALL of one segment; the values are a pyarrow array if the answer came in arrow form."""
        self.input.at = options.pop("at", 0)
        segment = self.segment_of(arrays, lo, hi, rows)
        return self.call(name, segments=[segment], **options)

    def values(self, kind, rows, form, blocks, nulls, buffers, region):
        if form != ARROW:
            return super().values(kind, rows, form, blocks, nulls, buffers, region)
        for offset, length in buffers:
            assert offset % 8 == 0 and offset + length <= len(region), (offset, length, len(region))
        parts = iter([bytes(region[offset : offset + length]) for offset, length in buffers])
        array = array_from(arrow_of(kind), parts, rows)
        assert not list(parts), "more buffers than the type has"
        array.validate(full=True)
        assert array.null_count == nulls, (array.null_count, nulls)
        return array
