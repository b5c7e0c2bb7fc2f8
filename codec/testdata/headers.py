"""Prints headers.txt: message headers as pyarrow (C++) and arro3 (arrow-rs) write them, one per line.

python -m venv v && v/bin/pip install pyarrow==26.0.1 numpy arro3-io==0.9.1 arro3-core==0.9.1
v/bin/python headers.py > headers.txt
"""

import base64
import io
import struct

import arro3.core
import arro3.io
import numpy
import pyarrow as pa

KINDS = [
    ("bool", pa.bool_()),
    ("int8", pa.int8()),
    ("int16", pa.int16()),
    ("int32", pa.int32()),
    ("int64", pa.int64()),
    ("uint8", pa.uint8()),
    ("uint16", pa.uint16()),
    ("uint32", pa.uint32()),
    ("uint64", pa.uint64()),
    ("float32", pa.float32()),
    ("float64", pa.float64()),
    ("utf8", pa.utf8()),
    ("binary", pa.binary()),
]

DEEP = pa.int64()
for _ in range(40):
    DEEP = pa.list_(DEEP)

TYPES = [
    ("struct", pa.struct([("x", pa.int64())])),
    ("list", pa.list_(pa.utf8())),
    ("union", pa.dense_union([pa.field("x", pa.int64())])),
    ("dictionary", pa.dictionary(pa.int32(), pa.utf8())),
    ("timestamp", pa.timestamp("us")),
    ("timestamp-zone", pa.timestamp("us", "UTC")),
    ("date32", pa.date32()),
    ("date64", pa.date64()),
    ("time32", pa.time32("ms")),
    ("time64", pa.time64("ns")),
    ("decimal128", pa.decimal128(38, 18)),
    ("decimal256", pa.decimal256(76, 0)),
    ("float16", pa.float16()),
    ("large-utf8", pa.large_utf8()),
    ("utf8-view", pa.string_view()),
    ("null", pa.null()),
    ("duration", pa.duration("us")),
    ("map", pa.map_(pa.utf8(), pa.int64())),
    ("run-end", pa.run_end_encoded(pa.int32(), pa.int64())),
    ("deep", DEEP),
]


def show(name, header):
    print(name, base64.b64encode(header).decode())


def headers(stream):
    """The bare headers of the messages of an IPC stream."""
    while len(stream) >= 8 and (size := struct.unpack("<I", stream[4:8])[0]):
        message = pa.ipc.read_message(stream)
        yield stream[8 : 8 + size]
        stream = stream[8 + size + (message.body.size if message.body else 0) :]


def stream(batch, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def rust(batch):
    sink = io.BytesIO()
    arro3.io.write_ipc_stream(arro3.core.Table.from_arrow(pa.Table.from_batches([batch])), sink, compression=None)
    return sink.getvalue()


kinds = pa.schema(
    [
        pa.field(n, t, nullable=i % 2 == 0, metadata={"k": "v"} if n == "utf8" else None)
        for i, (n, t) in enumerate(KINDS)
    ],
    metadata={"origin": "pyarrow", "bytes": b"\x00\xff"},
)
ints = pa.record_batch([pa.array([12, 18]), pa.array([7, 9])], names=["a", "b"])
text = pa.record_batch([pa.array([1, None, 3], pa.int64()), pa.array(["a", None, "ccc"])], names=["a", "s"])

show("schema-kinds", next(headers(kinds.serialize().to_pybytes())))
for name, batch in [("ints", ints), ("text", text)]:
    schema, record = headers(stream(batch))
    show(f"schema-{name}", schema)
    show(f"batch-{name}", record)
    schema, record = headers(rust(batch))
    show(f"rust-schema-{name}", schema)
    show(f"rust-batch-{name}", record)
schema, record = headers(stream(ints, metadata_version=pa.ipc.MetadataVersion.V4))
show("schema-v4", schema)
show("batch-v4", record)
for name, t in TYPES:
    show(
        f"type-{name}",
        next(headers(pa.schema([pa.field("a", pa.int64()), pa.field("s", t)]).serialize().to_pybytes())),
    )
for compression in ["lz4", "zstd"]:
    show(f"packed-{compression}", list(headers(stream(ints, compression=compression)))[1])
words = pa.record_batch([pa.array(["a", "b", "a"]).dictionary_encode()], names=["s"])
show("packed-dictionary", list(headers(stream(words)))[1])
sink = pa.BufferOutputStream()
pa.ipc.write_tensor(pa.Tensor.from_numpy(numpy.zeros((2, 2))), sink)
show("refused-tensor", next(headers(sink.getvalue().to_pybytes())))
