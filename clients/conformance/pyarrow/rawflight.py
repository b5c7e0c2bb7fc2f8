"""Flight's DoExchange byte by byte: for messages that no proper client would send."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

METHOD = "/arrow.flight.protocol.FlightService/DoExchange"


def _flight_data_class():
    """FlightData's wire form (Flight.proto of Apache Arrow), declared here because pyarrow does not expose it."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="raw_flight.proto", package="raw", syntax="proto3")
    descriptor = file.message_type.add(name="FlightDescriptor")
    descriptor.field.add(name="type", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    descriptor.field.add(name="cmd", number=2, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    descriptor.field.add(name="path", number=3, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    data = file.message_type.add(name="FlightData")
    data.field.add(
        name="flight_descriptor",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".raw.FlightDescriptor",
        label=field.LABEL_OPTIONAL,
    )
    for name, number in (("data_header", 2), ("app_metadata", 3), ("data_body", 1000)):
        data.field.add(name=name, number=number, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("raw.FlightData"))


FlightData = _flight_data_class()


def split(batch: pa.RecordBatch) -> list[tuple[bytes, bytes]]:
    """(header, body) of the schema message and of the batch's message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    out = []
    for message in reader:
        body = message.body.to_pybytes() if message.body is not None else b""
        out.append((message.metadata.to_pybytes(), body))
    return out


def encapsulate(header: bytes, body: bytes) -> bytes:
    header += b"\0" * (-len(header) % 8)
    return b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little") + header + body


def exchange_bytes(function: str, batch: pa.RecordBatch) -> list[bytes]:
    """The FlightData messages of a call as a client sends them: descriptor and schema, then the batch."""
    (schema, _), (header, body) = split(batch)
    first = FlightData(data_header=schema)
    first.flight_descriptor.type = 1
    first.flight_descriptor.path.append(function)
    return [first.SerializeToString(), FlightData(data_header=header, data_body=body).SerializeToString()]


@dataclass
class Answer:
    """Either a table or a status."""

    table: pa.Table | None
    code: grpc.StatusCode
    text: str


def call(channel: grpc.Channel, messages: list[bytes], timeout: float = 10) -> Answer:
    method = channel.stream_stream(METHOD, request_serializer=None, response_deserializer=None)
    stream = b""
    try:
        for raw in method(iter(messages), timeout=timeout):
            data = FlightData.FromString(raw)
            if data.data_header:
                stream += encapsulate(data.data_header, data.data_body)
    except grpc.RpcError as e:
        return Answer(None, e.code(), e.details())
    table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    return Answer(table, grpc.StatusCode.OK, "")


def decode(messages: list[bytes]) -> pa.Table:
    """What pyarrow reads in the messages, fully checked; raises where it finds them invalid."""
    stream = b""
    for raw in messages:
        data = FlightData.FromString(raw)
        if data.data_header:
            stream += encapsulate(data.data_header, data.data_body)
    table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    return table
