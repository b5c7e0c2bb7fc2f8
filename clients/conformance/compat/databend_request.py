"""What databend-udf 0.2 gives to bodies beside columns: headers, stages, the state of the query. And limits."""

import time

from databend_udf import Headers, StageLocation, UDFServer, udf
from databend_udf.udf import QueryCancelledError


@udf(stage_refs=["data_stage"], input_types=["INT"], result_type="VARCHAR")
def stage_summary(stage: StageLocation, value: int) -> str:
    assert stage.stage_type.lower() == "external"
    place = stage.storage.get("bucket") or stage.storage.get("container") or ""
    return ":".join((stage.stage_name, place, stage.relative_path, str(value)))


@udf(stage_refs=["input_stage", "output_stage"], input_types=["INT"], result_type="INT")
def multi_stage_process(input_stage: StageLocation, output_stage: StageLocation, value: int) -> int:
    return value + sum(len(stage.storage["bucket"]) for stage in (input_stage, output_stage))


@udf(stage_refs=["stage_loc"], input_types=["INT"], result_type="VARCHAR")
def describe_stage(stage: StageLocation, value: int) -> str:
    return f"{stage.stage_name}:{stage.relative_path}:{value}"


@udf(stage_refs=["input_stage"], input_types=["INT"], result_type="INT")
def renamed_stage(input_stage: StageLocation, value: int) -> int:
    return value if input_stage.storage else None


@udf(input_types=["INT"], result_type="INT")
def annotated_stage(stage: StageLocation, value: int) -> int:
    return value if stage.storage else None


@udf(stage_refs=["here", "there"], input_types=["INT"], result_type="VARCHAR")
def between(value: int, here: StageLocation, there: StageLocation, headers) -> str:
    located = headers.stage_locations
    assert located == {"here": here, "there": there} and headers.get_stage_location("elsewhere") is None
    return f"{here.name}>{there.name} {there.raw_info['stage_params']['storage']['type']} {value}"


@udf(input_types=["VARCHAR"], result_type="VARCHAR")
def header(name: str, headers):
    return headers.get(name)


@udf(input_types=["VARCHAR"], result_type="ARRAY(VARCHAR)")
def header_all(name: str, headers: Headers):
    return headers.get_all(name.upper())


@udf(input_types=["VARCHAR"], result_type="ARRAY(VARCHAR)", batch_mode=True)
def header_raw(names, request: Headers):
    return [request.raw_headers.get(name, []) for name in names]


@udf(input_types=[], result_type="VARCHAR")
def who(headers):
    return f"{headers.tenant}/{headers.queryid}/{headers.query_state.is_cancelled()}"


@udf(input_types=["INT"], result_type="INT")
def cancels(x, headers):
    if x == 2:
        headers.query_state.cancel()
    return x


@udf(input_types=["INT"], result_type="INT", max_concurrency=2, concurrency_timeout=0.1)
def slow_add_limited(x):
    time.sleep(x / 1000)
    return x + 1


@udf(input_types=["INT"], result_type="INT")
def slow_add_unlimited(x):
    time.sleep(0.1)
    return x + 1


@udf(input_types=["INT"], result_type="INT", max_concurrency=1, concurrency_timeout=0.1)
def single_concurrency(x):
    time.sleep(x / 1000)
    return 2 * x


@udf(input_types=["INT"], result_type=[("value", "INT")], max_concurrency=2, concurrency_timeout=0.1)
def table_func_limited(x):
    time.sleep(x / 1000)
    return [{"value": x + step} for step in range(3)]


@udf(input_types=["INT"], result_type="INT", max_concurrency=2)
def slow_add_wait(x):
    time.sleep(0.1)
    return x + 1


if __name__ == "__main__":
    server = UDFServer("0.0.0.0:8815")
    assert issubclass(QueryCancelledError, RuntimeError)
    server.add_function(stage_summary)
    server.serve()
