"""A gateway that serves a file of this folder, or one that a test has written; UDFGATE_BINARY names the program."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.flight as flight

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 60
CALL_SECONDS_MAX = 60


class Gateway:
    """A running gateway, its workers in the interpreter of the tests, and a client."""

    def __init__(self, folder: pathlib.Path, file: str | pathlib.Path | list, *flags: str):
        """file: one, or a list of them."""
        folder.mkdir(parents=True, exist_ok=True)
        ready = folder / "ready.json"
        self.log = folder / "log"
        files = [str(HERE / one) for one in (file if isinstance(file, list) else [file])]
        command = [os.environ.get("UDFGATE_BINARY", "udfgate"), "serve", *files, "--python", sys.executable]
        command += ["--listen", "127.0.0.1:0", "--http", "off", "--ready-file", str(ready)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, *flags], stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + START_SECONDS_MAX
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(self.log.read_text())
            time.sleep(0.01)
        told = json.loads(ready.read_text())
        self.location, self.http = f"grpc://{told['flight'][0]}", told["http"]
        self.client = flight.connect(self.location)

    def stop(self) -> None:
        """Ends the gateway; it must go as asked."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(START_SECONDS_MAX) == 0, self.log.read_text()

    def exchange(self, name: str, *batches: pa.RecordBatch, headers=(), ipc: pa.ipc.IpcWriteOptions | None = None):
        """The answers of a stream of batches: (their schema, one batch each, as they came)."""
        headers = [(key.encode(), value.encode()) for key, value in headers]
        options = flight.FlightCallOptions(timeout=CALL_SECONDS_MAX, headers=headers, write_options=ipc)
        writer, reader = self.client.do_exchange(flight.FlightDescriptor.for_path(name), options)
        with writer:
            writer.begin(batches[0].schema, options=ipc)
            answers = []
            for batch in batches:
                writer.write_batch(batch)
                answers.append(reader.read_chunk().data)
            writer.done_writing()
            schema = reader.schema
            for rest in reader:
                raise AssertionError(f"an answer too many: {rest.data.num_rows} rows")
        return schema, answers

    def column(self, name: str, *columns: pa.Array, headers=(), ipc=None) -> pa.Array:
        """The result of one batch."""
        _, (answer,) = self.exchange(name, batch_of(*columns), headers=headers, ipc=ipc)
        answer.validate(full=True)
        return answer.column(0)


def batch_of(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[f"c{at}" for at in range(len(columns))])
