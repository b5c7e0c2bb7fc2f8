"""Stages of Databend: where the files lie that a query hands to a function."""

from udfgate_worker.library import library

_json, _logging = library("json"), library("logging")
_dataclass = library("dataclasses").dataclass
_PARAMETER = ("param_name", "name", "arg_name", "stage_param", "parameter", "param")
_PATH = ("relative_path", "path", "stage_path", "prefix", "pattern", "file_path")


@_dataclass
class StageLocation:
    """A stage as the request describes it. `name` is the function's parameter, `storage` where it lies and how to get in."""

    name: str
    stage_name: str
    stage_type: str
    storage: dict
    relative_path: str
    raw_info: dict

    @classmethod
    def from_header_entry(cls, param_name: str, entry: dict) -> "StageLocation":
        """The stage of one entry of the header. What is missing stays empty."""
        entry = entry if isinstance(entry, dict) else {}
        info = _mapping(_first(entry, ("stage_info", "stage", "info")))
        kind = entry["stage_type"] if entry.get("stage_type") is not None else info.get("stage_type")
        if isinstance(kind, dict):
            kind = _first(kind, ("type", "stage_type")) or next(iter(kind.values()), None)
        path = _first(entry, _PATH)
        if isinstance(path, dict):
            path = _first(path, ("path", "value"))
        return cls(
            name=str(param_name),
            stage_name=str(_first(entry, ("stage_name",)) or info.get("stage_name") or entry.get("name") or param_name),
            stage_type="" if kind is None else str(kind),
            storage=_mapping(entry.get("storage")) or _mapping(_mapping(info.get("stage_params")).get("storage")),
            relative_path="" if path is None else str(path),
            raw_info=info or entry,
        )


def read_mapping(text: "str | None") -> dict:
    """The stages of a header's JSON: parameter → StageLocation. What is no such JSON has none."""
    payload = _parsed(text) if text and text.strip() else None
    if text and text.strip() and payload is None:
        _logging.getLogger(__name__).warning("databend-stage-mapping: wanted JSON")  # its text has credentials
    if isinstance(payload, dict) and not _first(payload, _PARAMETER):
        named = [(name, entry) for name, entry in payload.items() if isinstance(entry, dict)]
    else:
        entries = payload if isinstance(payload, list) else [payload]
        named = [(_first(entry, _PARAMETER), entry) for entry in entries if isinstance(entry, dict)]
    return {str(name): StageLocation.from_header_entry(name, entry) for name, entry in named if name}


def check(parameter: str, stage: StageLocation) -> None:
    """Raise ValueError for a stage that a body cannot reach: an internal one, one without a storage, one on a file system."""
    if stage.stage_type and stage.stage_type.lower() != "external":
        raise ValueError(f"Stage parameter {parameter!r}: wanted an External stage, got {stage.stage_type}")
    if not stage.storage:
        raise ValueError(f"Stage parameter {parameter!r}: the stage {stage.stage_name} has no storage configuration")
    if str(stage.storage.get("type", "")).lower() == "fs":
        raise ValueError(f"Stage parameter {parameter!r}: 'fs' storage is the database's own disk and cannot be used")


def _first(entry: dict, names: tuple) -> object:
    """The first of several members that says something."""
    return next((entry[name] for name in names if entry.get(name)), None)


def _mapping(value: object) -> dict:
    """A dict, also one that is given as the text of its JSON."""
    if isinstance(value, str):
        value = _parsed(value)
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> object:
    try:
        return _json.loads(text)
    except ValueError:
        return None
