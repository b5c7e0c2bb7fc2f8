"""Files of arrow-udf and databend-udf through a gateway: every function of cases.py, and what their suites assert beside values."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from calls import answers, ended_by_cancelling, info, refused, staged, values
from cases import ARROW, DATABEND, Case, batch_of, ints, rows, stage, texts
from served import Gateway

S3 = {"type": "s3", "bucket": "bucket"}
ELSEWHERE = {  # functions whose answers are not a list of values that stands still
    *("most_at_once", "noticed", "in_wrong_form", "who", "cancels", "header", "header_all", "header_raw", "between"),
    *("stage_summary", "multi_stage_process", "describe_stage", "renamed_stage", "annotated_stage"),
    *("slow_add_limited", "slow_add_unlimited", "single_concurrency", "table_func_limited", "slow_add_wait"),
}


@pytest.mark.parametrize("case", ARROW + DATABEND, ids=lambda case: case.function)
def test_function(served_files: Gateway, counts: dict[str, int], case: Case) -> None:
    whole = batch_of(case.columns)
    assert values(served_files, case.function, whole, case.headers) == case.answer
    package = case.function.partition("_")[0]
    counts[f"functions of {package}_udf"] = counts.get(f"functions of {package}_udf", 0) + 1


def test_every_function_has_a_case(served_files: Gateway, counts: dict[str, int]) -> None:
    listed = [flight_info.descriptor.path[0].decode() for flight_info in served_files.client.list_flights()]
    assert len(set(listed)) == len(listed)
    called = {case.function.rpartition(".")[2] for case in ARROW + DATABEND} | ELSEWHERE
    assert {name.rpartition(".")[2] for name in listed} == called
    counts["functions with tests of their own"] = len(ELSEWHERE)


def test_schemas(served_files: Gateway) -> None:
    """Inputs and result of GetFlightInfo, with the metadata that engines look at."""
    found = info(served_files, "extract_tcp_info")
    members = [("src_addr", pa.utf8()), ("dst_addr", pa.utf8()), ("src_port", pa.int16()), ("dst_port", pa.int16())]
    wanted = pa.schema([("tcp_packet", pa.binary()), ("extract_tcp_info", pa.struct(members))])
    assert (found.total_records, found.schema.remove_metadata()) == (1, wanted)
    wanted = pa.schema([("n", pa.int32()), pa.field("row", pa.int32(), False), ("range", pa.int32())])
    assert info(served_files, "range").schema.remove_metadata() == wanted
    pair = pa.struct([("", pa.utf8()), ("", pa.int32())])
    assert info(served_files, "split").schema.field("split").type == pair
    extension = info(served_files, "json_array_access").schema.field("json").metadata
    assert extension[b"ARROW:extension:name"] == b"arrowudf.json"
    assert not info(served_files, "array_index_of").schema.field("array_index_of").nullable


def test_databend_metadata(served_files: Gateway) -> None:
    """VARIANT and VECTOR are told by Databend's own key, of arguments and results, inside lists and on the wire too."""
    variant = info(served_files, "wrap_variant").schema
    for name in ("v", "wrap_variant"):
        assert variant.field(name).type == pa.large_binary()
        assert variant.field(name).metadata[b"Extension"] == b"Variant"
    item = info(served_files, "databend_example.json_concat").schema.field("list").type.value_field
    assert item.metadata[b"Extension"] == b"Variant"
    vector = info(served_files, "normalize_vector").schema.field("v")
    assert vector.type.list_size == 4
    assert (vector.metadata[b"Extension"], vector.metadata[b"vector_size"]) == (b"Vector", b"4")
    key = {"Extension": "Variant"}  # as Databend sends it
    schema = pa.schema([pa.field("v", pa.large_binary(), metadata=key)])
    answered, parts = answers(
        served_files, "wrap_variant", pa.record_batch([pa.array([b"1"], pa.large_binary())], schema)
    )
    assert answered.field(0).metadata[b"Extension"] == b"Variant"
    assert parts[0].column(0).to_pylist() == [b'{"value": 1}']


def test_io_threads(served_files: Gateway, counts: dict[str, int]) -> None:
    """Rows of wait run one by one, those of wait_concurrent at once; both answer in order."""
    batch = batch_of([ints(*range(64))])

    def most(name: str) -> int:
        assert values(served_files, name, batch) == list(range(64))
        return 0

    values(served_files, "most_at_once", batch_of(rows(1)))
    most("arrow_suite.wait")
    assert values(served_files, "most_at_once", batch_of(rows(1))) == [1]
    most("arrow_suite.wait_concurrent")
    (at_once,) = values(served_files, "most_at_once", batch_of(rows(1)))
    assert 2 <= at_once <= 32
    counts["rows of wait_concurrent at once"] = at_once


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (0, "ValueError: wanted the column 'text', got 'n'"),
        (1, "ValueError: wanted columns of one length, got 2, 1 values"),
        (2, r"result: wanted struct<n int32, text large_utf8>, got tuple \(1, 'a', True\)"),
        (3, "TypeError: result: wanted struct<n int32, text large_utf8>, got int 5"),
        (4, "ValueError: wanted a column 'text', got 'n'"),
        (5, r"TypeError: result: wanted int32 at \.n, got None"),
    ],
)
def test_rows_that_are_none(served_files: Gateway, form: int, told: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=f"in_wrong_form: row 1: .*{told}"):
        values(served_files, "in_wrong_form", batch_of([ints(9, form)]))


def test_rows_by_name_may_hold_more(served_files: Gateway) -> None:
    rows = [{"n": 1, "text": "a"}, {"n": 2, "text": "b"}]
    wanted = [(at, row) for at in range(2) for row in rows]
    assert values(served_files, "in_wrong_form", batch_of([ints(6, 7)])) == wanted


def test_headers(served_files: Gateway) -> None:
    headers = (
        ("x-databend-tenant", "acme"),
        ("x-databend-query-id", "q-1"),
        ("x-several", "a"),
        ("x-several", "b"),
        ("authorization", "Bearer secret"),
        ("cookie", "c=1"),
    )

    def call(name: str, *columns: pa.Array) -> list:
        return values(served_files, name, batch_of(list(columns) or rows(1)), headers)

    assert call("who") == ["acme/q-1/False"]
    assert values(served_files, "who", batch_of(rows(1))) == ["//False"]
    assert call("header", texts("X-Several", "nowhere", "authorization", "cookie")) == ["a", None, None, None]
    assert call("header_all", texts("x-several", "nowhere")) == [["a", "b"], []]
    assert call("header_raw", texts("x-several", "x-databend-tenant")) == [["a", "b"], ["acme"]]


def test_stages(served_files: Gateway) -> None:
    def call(name: str, value: int, *entries: dict) -> list:
        return values(served_files, name, batch_of([ints(value)]), staged(*entries))

    storage = {"type": "s3", "bucket": "input-bucket", "access_key_id": "ak"}
    one = stage("data_stage", "data/input/", **storage)
    assert call("stage_summary", 5, one) == ["data_stage:input-bucket:data/input/:5"]
    gcs = stage("data_stage", "gcs/", "gcs_stage", type="gcs", bucket="b", credential="{}")
    assert call("stage_summary", 3, gcs) == ["gcs_stage:b:gcs/:3"]
    azure = stage("data_stage", "a/", "az", type="azblob", container="container", account_key="k==")
    assert call("stage_summary", 4, azure) == ["az:container:a/:4"]
    both = [stage("input_stage", **S3), stage("output_stage", **S3)]
    assert call("multi_stage_process", 10, *both) == [10 + 2 * len("bucket")]
    assert call("describe_stage", 1, stage("stage_loc", "input/2024/", **S3)) == ["stage_loc:input/2024/:1"]
    assert call("renamed_stage", 7, both[0]) == [7]
    assert call("annotated_stage", 5, stage("stage", **S3)) == [5]
    assert call("between", 2, stage("here", **S3), stage("there", type="gcs")) == ["here>there gcs 2"]


def test_stages_as_one_object(served_files: Gateway) -> None:
    """The header may be an object by parameter, and parts of it text."""
    header = '{"stage_loc": {"path": "p/", "stage_info": "{\\"stage_name\\": \\"s\\", \\"stage_type\\": {\\"type\\": \\"External\\"}}", "storage": {"type": "s3"}}}'
    headers = (("databend_stage_mapping", header),)
    assert values(served_files, "describe_stage", batch_of([ints(1)]), headers) == ["s:p/:1"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (None, r"Missing stage mapping for parameter\(s\): data_stage.*CREATE FUNCTION"),
        (stage("data_stage", type="fs", root="/tmp"), "'data_stage': 'fs' storage"),
        (stage("data_stage", kind="Internal", **S3), "'data_stage': wanted an External stage, got Internal"),
        (stage("data_stage"), "'data_stage': the stage data_stage has no storage configuration"),
    ],
)
def test_stages_that_are_refused(served_files: Gateway, entry: dict | None, told: str) -> None:
    headers = staged(entry) if entry else (("databend-stage-mapping", "no JSON: secret"),)
    with pytest.raises(pa.ArrowInvalid, match=rf"stage_summary: row 0: ValueError: .*{told}"):
        values(served_files, "stage_summary", batch_of([ints(1)]), headers)


def test_stages_are_not_logged(served_files: Gateway) -> None:
    entry = stage("data_stage", type="s3", bucket="b", secret_access_key="very-secret")
    values(served_files, "stage_summary", batch_of([ints(1)]), staged(entry))
    assert "very-secret" not in served_files.log.read_text()


def test_cancelling_oneself(served_files: Gateway) -> None:
    with pytest.raises(pa.ArrowInvalid, match="cancels: row 2: QueryCancelledError: Query cancelled"):
        values(served_files, "cancels", batch_of([ints(1, 2, 3)]))
    assert values(served_files, "cancels", batch_of([ints(1, 2)])) == [1, 2]


def test_a_caller_that_goes(served_files: Gateway) -> None:
    """Cancelling ends a table function that asks, long before its rows are done, and its worker lives."""
    assert ended_by_cancelling(served_files, "cancellable_counter", 100_000)
    assert values(served_files, "cancellable_counter", batch_of([ints(1)])) == [(0, {"value": 0})]


def calls(gateway: Gateway, name: str, count: int) -> tuple:
    """(answers, errors) of calls at once."""
    begin = threading.Barrier(count)

    def call(_: int) -> object:
        client = flight.connect(gateway.location)
        begin.wait()
        try:
            writer, reader = client.do_exchange(flight.FlightDescriptor.for_path(name))
            with writer:
                batch = batch_of([ints(1)])
                writer.begin(batch.schema)
                writer.write_batch(batch)
                writer.done_writing()
                return reader.read_all().num_rows
        except (pa.ArrowException, flight.FlightError) as e:
            return e
        finally:
            client.close()

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(call, range(count)))
    return [one for one in found if isinstance(one, int)], [one for one in found if not isinstance(one, int)]


@pytest.mark.parametrize(
    ("name", "at_once"), [("slow_add_limited", 2), ("single_concurrency", 1), ("table_func_limited", 2)]
)
def test_too_many_at_once(served_files: Gateway, name: str, at_once: int) -> None:
    told = refused(served_files, name, at_once)
    assert f"{name}: waited 100ms for one of {at_once} chunks at once (concurrency)" in told
    for _ in range(2):
        assert values(served_files, name, batch_of([ints(1)]))


@pytest.mark.parametrize("name", ["slow_add_unlimited", "slow_add_wait"])
def test_all_that_wait_are_served(served_files: Gateway, name: str) -> None:
    assert calls(served_files, name, 4) == ([1] * 4, [])


def test_one_after_the_other(served_files: Gateway) -> None:
    for n in range(3):
        assert values(served_files, "slow_add_limited", batch_of([ints(n)])) == [n + 1]
