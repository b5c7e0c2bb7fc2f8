"""Types of columns beyond the plain ones.

A plain type (decode.TYPES) is its name, a str. Every other type is a Type: a str too, whose text is the name of its
kind, with what the kind needs to be told. Only workers that serve such a type import this module.
"""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.decode import TYPES
from udfgate_worker.library import library
from udfgate_worker.typenames import Unserved

JSON, ARROW_JSON, UDF_DECIMAL, UUID, VARIANT = (
    "arrowudf.json",
    "arrow.json",
    "arrowudf.decimal",
    "arrow.uuid",
    "Variant",
)
VECTOR = "Vector"  # changes nothing for a body, and is named for Databend
EXTENSIONS = (JSON, ARROW_JSON, UDF_DECIMAL, UUID, VARIANT)  # those that change what a body sees
DECIMALS = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}  # most digits
# Struct code and shift of kinds that cross as numbers, besides the plain ones.
NUMBERS = {
    "float16": ("e", 1),
    "date32": ("i", 2),
    "date64": ("q", 3),
    "time32": ("i", 2),
    "time64": ("q", 3),
    "timestamp": ("q", 3),
    "duration": ("q", 3),
}
INTERVALS = ("month_interval", "day_time_interval", "month_day_nano_interval")
LISTS = ("list", "large_list", "fixed_size_list")
KINDS = (
    *TYPES,
    "null",
    *DECIMALS,
    *NUMBERS,
    *INTERVALS,
    "large_utf8",
    "large_binary",
    "fixed_size_binary",
    *LISTS,
    "struct",
    "map",
)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # per second
DEPTH_MAX, MEMBERS_MAX = 32, 10_000  # what the gateway reads of LOADED
_NAME_DEPTH_MAX, _NAME_MEMBERS_MAX = 6, 16  # types are the author's to write, messages are short


class Inexact(Exception):
    """A value lies between two of those that a column or a class holds."""


class Type(str):
    """A column's type. Attributes that its kind has no use for are empty or 0.

    `kind` is the text as a plain str. `unit`: s, ms, us, ns. `zone`: of timestamps, "" for wall clock. `precision` and
    `scale`: of decimals. `size`: bytes, or items. `view`: "tuple" of structs, "pairs" of maps, "" for dicts; it is no
    part of what the type is. `children`: (name, Type, nullable) of the item, of each member, of key and value.
    """

    __slots__ = ("children", "extension", "kind", "made", "precision", "scale", "shown", "size", "unit", "view", "zone")

    def __new__(
        cls,
        kind: str,
        *,
        unit: str = "",
        zone: str = "",
        precision: int = 0,
        scale: int = 0,
        size: int = 0,
        extension: str = "",
        view: str = "",
        children: tuple = (),
    ) -> "Type":
        """children may have plain types as str. Raises ValueError for what nests too deep."""
        self = str.__new__(cls, kind)
        self.kind, self.unit, self.zone, self.precision, self.scale = kind, unit, zone, precision, scale
        self.size, self.extension, self.view, self.made = size, extension, view, {}
        self.children = tuple([(name, as_type(type_), nullable) for name, type_, nullable in children])
        if self.depth() > DEPTH_MAX:
            raise ValueError(f"nested more than {DEPTH_MAX} deep")
        if len(children) > MEMBERS_MAX:
            raise ValueError(f"{len(children)} members, wanted at most {MEMBERS_MAX}")
        self.shown = self._shown(0)
        return self

    def mutable(self) -> bool:
        """Whether a body gets values that it can change."""
        return bool(self.children) or self.extension in (JSON, ARROW_JSON, VARIANT)

    def nameless(self) -> bool:
        """Whether the members of a struct are told apart by their places alone."""
        names = [name for name, _, _ in self.children]
        return len(set(names)) < len(names) or names == [""]

    def depth(self) -> int:
        """1 for a type without children."""
        return 1 + max([child.depth() for _, child, _ in self.children], default=0)

    def _key(self) -> tuple:
        numbers = self.precision, self.scale, self.size
        return self.kind, self.unit, self.zone, numbers, self.extension, self.children

    def __eq__(self, other: object) -> bool:
        if type(other) is Type:
            return self._key() == other._key()
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return self.shown

    def __format__(self, spec: str) -> str:
        return format(self.shown, spec)

    __repr__ = __str__

    def plain(self) -> "str | Type":
        """The name of a plain type, else the type itself."""
        return self.kind if self.kind in TYPES and not self.extension else self

    def described(self) -> "str | dict":
        """The type as LOADED has it."""
        entry: dict = {"name": self.kind}
        for name in ("unit", "zone", "size", "extension", "view"):
            if getattr(self, name):
                entry[name] = getattr(self, name)
        if self.kind in DECIMALS:
            entry["precision"], entry["scale"] = self.precision, self.scale
        if self.kind == "fixed_size_list" or self.kind == "fixed_size_binary":
            entry["size"] = self.size
        if self.kind in (*LISTS, "struct", "map"):
            entry["children"] = [
                {"name": name, "type": child.described(), "nullable": nullable}
                for name, child, nullable in self.children
            ]
        return entry if len(entry) > 1 else self.kind

    def _shown(self, depth: int) -> str:
        """The name in messages."""
        if depth > _NAME_DEPTH_MAX:
            return "…"
        text = self.kind
        if text in DECIMALS:
            text += f"({self.precision}, {self.scale})"
        elif self.unit:
            text += f"[{self.unit}, {self.zone}]" if self.zone else f"[{self.unit}]"
        elif text == "fixed_size_binary":
            text += f"[{self.size}]"
        elif self.children or text == "struct":
            named = text == "struct"
            shown = [
                (f"{name} " if named and name else "") + child._shown(depth + 1)
                for name, child, _ in self.children[:_NAME_MEMBERS_MAX]
            ]
            if len(self.children) > _NAME_MEMBERS_MAX:
                shown.append("…")
            text += f"<{', '.join(shown)}>"
            if self.kind == "fixed_size_list":
                text += f"[{self.size}]"
        return f"{text} as {self.extension}" if self.extension and not depth else text


def standard(module: str, name: str) -> object:
    """A class of the standard library. Raises Unserved where a served file has taken the module's name."""
    try:
        return getattr(library(module), name)
    except AttributeError:
        raise Unserved(f"a served file called {module} hides Python's own {module}; rename it") from None


def as_type(kind: "str | Type") -> Type:
    """A plain type's name as a Type."""
    return kind if type(kind) is Type else Type(kind)


def list_of(item: "str | Type", nullable: bool = True, kind: str = "list", size: int = 0) -> Type:
    """A list type. Raises ValueError for lists of a fixed size below 1."""
    if kind == "fixed_size_list" and size < 1:
        raise ValueError(f"a fixed_size_list of {size} items, wanted at least 1")
    return Type(kind, size=size, children=(("item", item, nullable),))


def map_of(key: "str | Type", value: "str | Type", nullable: bool = True, view: str = "") -> Type:
    """A map type. Raises ValueError for keys that no dict takes."""
    key = as_type(key)
    if key.children or key.kind == "null" or key.extension in (JSON, ARROW_JSON, VARIANT):
        raise ValueError(f"{key} cannot be the key of a map")
    return Type("map", view=view, children=(("key", key, False), ("value", value, nullable)))


def decimal_of(precision: int, scale: int, kind: str = "") -> Type:
    """A decimal type, of 128 bits where they are enough. Raises ValueError."""
    kind = kind or ("decimal128" if precision <= 38 else "decimal256")
    most = DECIMALS[kind]
    if not 1 <= precision <= most:
        raise ValueError(f"precision {precision} is not from 1 to {most}")
    if not -precision <= scale <= precision:
        raise ValueError(f"scale {scale} is beyond the precision {precision}")
    return Type(kind, precision=precision, scale=scale)


def json_type() -> Type:
    """JSON as RisingWave sends it."""
    return Type("utf8", extension=JSON)


def uuid_type() -> Type:
    """UUID as Arrow has it."""
    return Type("fixed_size_binary", size=16, extension=UUID)


def views(type_: Type, struct: str, map_: str) -> Type:
    """The type with the views of a package all the way down."""
    if not type_.children:
        return type_
    view = {"struct": struct, "map": map_}.get(type_.kind, "")
    children = tuple([(name, views(child, struct, map_), nullable) for name, child, nullable in type_.children])
    return Type(type_.kind, size=type_.size, extension=type_.extension, view=view, children=children)
