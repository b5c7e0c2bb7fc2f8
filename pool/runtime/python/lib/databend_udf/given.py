"""What a body of a databend-udf file is given beside its columns, and the rows that a table function's body means."""

import sys
from _functools import partial

from udfgate_worker.typenames import Unserved

from databend_udf.headers import QueryCancelledError, current

HEADERS, STAGE = "Headers", "StageLocation"


def settle(parameters: list, options: dict) -> list:
    """Take the parameters that are no columns out of the list: [(position among all, name of a stage or "" for the headers)].

    Raises Unserved.
    """
    names = [parameter.name for parameter in parameters]
    refs = options.get("stage_refs") or []
    plan = [(at, "") for at, parameter in enumerate(parameters) if _is_hint(parameter.hint, HEADERS)]
    if names and names[-1] == "headers" and (len(names) - 1, "") not in plan:
        plan.append((len(names) - 1, ""))
    headers = [at for at, _ in plan]
    staged = [at for at, parameter in enumerate(parameters) if _is_hint(parameter.hint, STAGE) and at not in headers]
    if refs and all([name in names for name in refs]):
        staged = [names.index(name) for name in refs]
    if refs and (len(refs) != len(staged) or len(set(refs)) != len(refs)):
        raise Unserved(
            f"stage_refs={refs!r}: wanted a name for each of the {len(staged)} parameters with the hint StageLocation"
        )
    plan += list(zip(staged, refs)) if refs else [(at, names[at]) for at in staged]
    columns = [parameter for at, parameter in enumerate(parameters) if at not in dict(plan)]
    types = options.get("input_types")
    if plan and types is not None and len(types) != len(columns):
        raise Unserved(
            f"input_types has {len(types)} types, the body takes {len(columns)} columns "
            f"({', '.join([parameter.name for parameter in columns])})"
        )
    parameters[:] = columns
    return sorted(plan)


def _is_hint(hint: object, word: str) -> bool:
    """Whether a hint is one of our classes, or that or None, or spells it."""
    if isinstance(hint, str):
        text = hint.replace(" ", "")
        for opening in ("Optional[", "Union["):
            if text.endswith("]") and text.partition(opening)[0] in ("", "typing.", "t."):
                text = text.partition(opening)[2][:-1].replace(",", "|")
        return any([part.strip("'\"").rpartition(".")[2] == word for part in text.split("|")])
    if type(hint).__name__ in ("UnionType", "_UnionGenericAlias", "Union") or _is_union(hint):
        return any([_is_hint(part, word) for part in hint.__args__])
    if type(hint).__name__ == "ForwardRef":
        return _is_hint(hint.__forward_arg__, word)
    ours = str(getattr(hint, "__module__", "")).partition(".")[0] == "databend_udf"
    return ours and getattr(hint, "__name__", "") == word


def _is_union(hint: object) -> bool:
    typing = sys.modules.get("typing")
    return typing is not None and getattr(hint, "__origin__", None) is typing.Union


def given(body: object, plan: list, names: list) -> object:
    """The body that the worker calls, with columns alone: of one row, or whole ones in batch_mode.

    names: of all its parameters.
    """
    if not plan:
        return body
    if plan == [(len(names) - 1, "")]:

        def with_headers(*columns: object) -> object:
            return body(*columns, _headers())

        return with_headers
    staged = any([name for _, name in plan])

    def with_all(*columns: object) -> object:
        headers, arguments = _headers(), list(columns)
        stages = _stages(plan, headers) if staged else {}
        for at, name in plan:
            arguments.insert(at, stages[name] if name else headers)
        return body(*arguments)

    return with_all


def _headers() -> object:
    headers = current()
    if headers.query_state._cancelled:  # a caller that has gone is the gateway's business
        raise QueryCancelledError("Query cancelled")
    return headers


def _stages(plan: list, headers: object) -> dict:
    """The stages of a body's parameters by their names in the request. Raises ValueError."""
    from databend_udf.stages import check

    key = id(plan)
    if key not in headers.checked:
        stages = headers.require_stage_locations([name for _, name in plan if name])
        for name, stage in stages.items():
            check(name, stage)
        headers.checked[key] = stages
    return headers.checked[key]


class Rows(partial):
    """A table function's body whose rows come one by one, as tuples in the order of the columns."""

    def __call__(self, *columns: object) -> object:
        """columns: of one input row; in batch_mode the body sees a batch of that one row."""
        if self.batch:
            columns = [[value] for value in columns]
        yield from _rows(self.func(*columns), self.names)


def table(body: object, names: list, batch: bool) -> object:
    """The body that the worker calls for a table function with columns of these names."""
    made = Rows(body)
    made.names, made.batch = names, batch
    return made


def _rows(result: object, names: list) -> object:
    """The rows of what a body returned or yielded: None, rows, columns by name, batches and tables of pyarrow's."""
    if result is None:
        return
    if isinstance(result, dict) or hasattr(result, "keys"):
        yield from _mapped(result, names)
    elif (getattr(type(result), "__module__", None) or "") == "pyarrow.lib":
        yield from _mapped({name: _column(result, name) for name in names}, names)
    elif isinstance(result, (str, bytes)) or not hasattr(result, "__iter__"):
        raise TypeError(f"wanted rows, columns by name or batches of pyarrow, got {type(result).__name__}")
    else:
        for row in result:
            if isinstance(row, dict) or hasattr(row, "keys") or (type(row).__module__ or "") == "pyarrow.lib":
                yield from _rows(row, names)
            else:
                yield tuple(row) if isinstance(row, list) else row


def _column(batch: object, name: str) -> list:
    if name not in batch.schema.names:
        raise ValueError(f"wanted a column {name!r}, got {', '.join(map(repr, batch.schema.names))}")
    return batch.column(name).to_pylist()


def _mapped(result: object, names: list) -> object:
    """The rows of columns by name, or a row that is a mapping. Members that are no column are left out, as there."""
    lacks = [name for name in names if name not in result]
    if lacks and result:
        raise ValueError(f"wanted the column {lacks[0]!r}, got {', '.join(map(repr, result))}")
    values = [result[name] for name in names] if result else []
    if not all([isinstance(value, (list, tuple, range)) for value in result.values()]):
        yield tuple(values)
        return
    lengths = {len(value) for value in values}
    if len(lengths) > 1:
        raise ValueError(f"wanted columns of one length, got {', '.join(map(str, map(len, values)))} values")
    yield from zip(*values)
