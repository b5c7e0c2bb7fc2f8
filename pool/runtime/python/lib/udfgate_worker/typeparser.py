"""Names of types with parameters or parts: SQL's, Arrow's as pyarrow prints them, this gateway's own.

    DECIMAL(10, 2) · VARCHAR[] · ARRAY(INT NOT NULL) · STRUCT<a INT, b: VARCHAR> · MAP(VARCHAR, INT)
    list<item: int64> · timestamp[us, tz=UTC] · fixed_size_list<item: float>[3] · extension<arrow.uuid>

Names are case-insensitive, but int8 (typenames.py says why); names of members are kept as they are.
"""

from udfgate_worker import BUILTINS as __builtins__  # noqa: F401
from udfgate_worker.kinds import (
    DECIMALS,
    INTERVALS,
    UNITS,
    Type,
    decimal_of,
    json_type,
    list_of,
    map_of,
    uuid_type,
    views,
)
from udfgate_worker.moments import zone_of
from udfgate_worker.typenames import Unserved, plain_name

_OPEN = {"(": ")", "<": ">", "[": "]"}
_TOKEN = "()<>[],:="
_ARROW_ONLY = {
    "dictionary": "dictionary",
    "string_view": "string_view",
    "utf8_view": "utf8_view",
    "binary_view": "binary_view",
    "list_view": "list_view",
    "large_list_view": "large_list_view",
    "run_end_encoded": "run_end_encoded",
}
_REFUSED = frozenset(
    [
        "TIMETZ",
        "NUMBER",
        "MONEY",
        "HUGEINT",
        "UHUGEINT",
        "INT128",
        "UINT128",
        "UNION",
        "DENSE_UNION",
        "SPARSE_UNION",
        "ENUM",
        "EXTENSION",
        "GEOMETRY",
        "GEOGRAPHY",
        "BITMAP",
        "BIT",
        "VECTOR",
        "TUPLE",
        "VARIANT",
    ]
)
_TIME_ZONES = {("WITH", "TIME", "ZONE"): True, ("WITHOUT", "TIME", "ZONE"): False}
_LISTS = {"ARRAY": "list", "LIST": "list", "LARGE_LIST": "large_list", "FIXED_SIZE_LIST": "fixed_size_list"}
_SIMPLE = {
    "DATE": ("date32", ""),
    "DATE32": ("date32", ""),
    "DATE64": ("date64", ""),
    "FLOAT16": ("float16", ""),
    "HALF": ("float16", ""),
    "HALFFLOAT": ("float16", ""),
    "HALF_FLOAT": ("float16", ""),
    "NULL": ("null", ""),
    "LARGE_STRING": ("large_utf8", ""),
    "LARGE_UTF8": ("large_utf8", ""),
    "LARGE_BINARY": ("large_binary", ""),
    "TIMESTAMP_S": ("timestamp", "s"),
    "TIMESTAMP_MS": ("timestamp", "ms"),
    "TIMESTAMP_US": ("timestamp", "us"),
    "TIMESTAMP_NS": ("timestamp", "ns"),
    "DATETIME": ("timestamp", "us"),
    "INTERVAL": ("month_day_nano_interval", ""),
}
_TEMPORAL = {  # the units that Arrow gives a kind
    "time32": ("s", "ms"),
    "time64": ("us", "ns"),
    "timestamp": tuple(UNITS),
    "duration": tuple(UNITS),
}
_SPELLED = {"float": "float32", "double": "float64", "string": "utf8"}  # pyarrow's names of plain types


class Flavour:
    """How names are read in files of one package."""

    def __init__(self, plain: object, own: object, struct: str = "", pairs: str = "", inner: bool = True) -> None:
        """plain(name) → plain type or ""; own(parser, word) → type or None, before all else; views of structs and
        maps; inner: whether parts of a type are nullable unless they say otherwise."""
        self.plain, self.own, self.struct, self.pairs, self.inner = plain, own, struct, pairs, inner


def _plain_or_not(name: str) -> str:
    try:
        return plain_name(name)
    except Unserved:
        return ""


OURS = Flavour(_plain_or_not, lambda parser, word: None)
_ARROW = Flavour(lambda name: _SPELLED.get(name) or _plain_or_not(name), lambda parser, word: None)


def parse(text: str, flavour: Flavour = OURS, unknown: "Unserved | None" = None) -> "str | Type":
    """The type of a name without NOT NULL. Raises Unserved, `unknown` where a type is followed by something else."""
    parser = Parser(text, flavour)
    text = text if len(text) <= 200 else text[:197] + "..."
    try:
        found = parser.type()
    except ValueError as e:
        raise Unserved(f"{text}: {e}") from None
    if parser.at < len(parser.tokens):
        raise unknown or Unserved(f"{text}: not understood from {parser.tokens[parser.at]!r} on")
    if type(found) is Type:
        return views(found, flavour.struct, flavour.pairs).plain()
    return found


class Parser:
    """One text. `tokens`: words, numbers and signs; a quoted name is a word that begins with its quote."""

    def __init__(self, text: str, flavour: Flavour) -> None:
        self.text, self.flavour, self.tokens, self.at, self.depth = text, flavour, _tokens(text), 0, 0
        self.null = False  # the type that was taken last said that it is nullable

    def peek(self, ahead: int = 0) -> str:
        """A token further on, or nothing."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self) -> str:
        """The next token."""
        token = self.peek()
        self.at += 1
        return token

    def open(self) -> str:
        """Take an opening bracket; what closes it."""
        token = self.take()
        if token not in _OPEN:
            raise ValueError(f"wanted ( or <, got {token or 'the end'}")
        return _OPEN[token]

    def close(self, sign: str) -> None:
        """Take what closes a bracket."""
        token = self.take()
        if token != sign:
            raise ValueError(f"wanted {sign}, got {token or 'the end'}")

    def number(self) -> int:
        """Take a number."""
        token = self.take()
        digits = token[1:] if token[:1] == "-" else token
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
            raise ValueError(f"wanted a number, got {token or 'the end'}")
        return int(token)

    def type(self) -> "str | Type":
        """Take a type with its [] behind."""
        self.depth += 1
        if self.depth > 64:
            raise ValueError("nested too deep")
        found = self._base()
        while self.peek() == "[":
            self.take()
            if self.peek() == "]":
                found = list_of(found)
            else:
                found = list_of(found, kind="fixed_size_list", size=self.number())
            self.close("]")
        self.depth -= 1
        return found

    def part(self) -> tuple:
        """Take (type, nullable) of a part of a type."""
        self.null = False
        found = self.type()
        nullable, self.null = self.flavour.inner or self.null, False
        if self.peek().upper() == "NOT" and self.peek(1).upper() == "NULL":
            self.at += 2
            nullable = False
        elif self.peek().upper() == "NULL":
            self.at += 1
            nullable = True
        return found, nullable

    def _base(self) -> "str | Type":
        word = self.take()
        if not word or word in _TOKEN:
            raise ValueError(f"wanted a type, got {word or 'the end'}")
        upper = word.upper()
        own = self.flavour.own(self, upper)
        if own is not None:
            return own
        if word == "float" and self.at > 1 and self.tokens[self.at - 2] == ":":
            return "float32"  # list<item: float> is how pyarrow spells it
        plain = self._plain(word)
        if plain:
            return plain
        if word.lower() in _ARROW_ONLY:
            raise Unserved(f"{word.lower()} cannot be declared: such columns are taken for what they hold")
        if upper in _LISTS and self.peek() in ("(", "<"):
            return self._list(_LISTS[upper])
        if upper in ("STRUCT", "ROW"):
            return self._struct()
        if upper == "MAP":
            return self._map()
        if upper in ("DECIMAL", "NUMERIC", "DEC") or word.lower() in DECIMALS:
            return self._decimal(upper)
        return self._other(word, upper)

    def _plain(self, word: str) -> str:
        """A plain type, of up to three words."""
        words = [word]
        for ahead in range(2):
            if not self.peek(ahead).isalpha():
                break
            words.append(self.peek(ahead))
        for count in range(len(words), 0, -1):
            found = self.flavour.plain(" ".join(words[:count]))
            if found:
                self.at += count - 1
                if self.peek() == "(":
                    raise ValueError(f"a length or precision is not supported, write {word}")
                return found
        return ""

    def _other(self, word: str, upper: str) -> Type:
        if upper == "TIMESTAMP" or upper == "TIME":
            return self._sql_time(upper)
        if word.lower() in _TEMPORAL:
            return self._arrow_time(word.lower())
        if upper == "TIMESTAMPTZ":
            return Type("timestamp", unit="us", zone="UTC")
        if upper in ("JSON", "JSONB"):
            return json_type()
        if upper == "UUID":
            return uuid_type()
        if word.lower() in INTERVALS:
            return Type(word.lower())
        if upper == "FIXED_SIZE_BINARY":
            closing = self.open()
            size = self.number()
            self.close(closing)
            return Type("fixed_size_binary", size=size)
        if upper == "EXTENSION" and self.peek() == "<":
            return self._extension()
        if upper in _SIMPLE:
            kind, unit = _SIMPLE[upper]
            if kind.startswith("date") and self.peek(1) in ("day", "ms"):  # date32[day]
                self.at += 2
                self.close("]")
            return Type(kind, unit=unit)
        if upper in _LISTS or upper in _REFUSED:
            why = "needs the type of its items, as in ARRAY(INT)" if upper in _LISTS else "is not supported"
            raise Unserved(f"{word} {why}")
        plain_name(word)  # raises, saying what is close
        raise Unserved(f"no type is called {word}")

    def _list(self, kind: str) -> Type:
        closing = self.open()
        if self.peek(1) == ":":  # list<item: int64>
            self.at += 2
        item, nullable = self.part()
        size = 0
        if kind == "fixed_size_list" and self.peek() == ",":
            self.take()
            size = self.number()
        self.close(closing)
        if kind == "fixed_size_list" and self.peek() == "[":
            self.take()
            size = self.number()
            self.close("]")
        return list_of(item, nullable, kind, size)

    def _struct(self) -> Type:
        closing = self.open()
        children: list = []
        while self.peek() != closing:
            if children:
                self.close(",")
                if self.peek() == closing:  # a comma behind the last member, as arrow-udf takes it
                    break
            name = self.take()
            if not name or name in _TOKEN:
                raise ValueError(f"wanted the name of a member, got {name or 'the end'}")
            if self.peek() == ":":
                self.take()
            name = name[1:] if name[0] in '"`' else name
            if any(name == other for other, _, _ in children):
                raise ValueError(f"two members are called {name}")
            children.append((name, *self.part()))
        self.close(closing)
        return Type("struct", children=tuple(children))

    def _map(self) -> Type:
        closing = self.open()
        key, _ = self.part()
        self.close(",")
        value, nullable = self.part()
        if self.peek() == "," and self.peek(1) == "keys_sorted":
            self.at += 2
        self.close(closing)
        return map_of(key, value, nullable)

    def _decimal(self, upper: str) -> Type:
        kind = upper.lower() if upper.lower() in DECIMALS else ""
        if self.peek() != "(":
            return decimal_of(DECIMALS[kind] if kind else 38, 18 if kind not in ("decimal32", "decimal64") else 4, kind)
        self.take()
        precision, scale = self.number(), 0
        if self.peek() == ",":
            self.take()
            scale = self.number()
        self.close(")")
        return decimal_of(precision, scale, kind)

    def _sql_time(self, upper: str) -> Type:
        """TIME and TIMESTAMP, with a precision and a zone or without; Arrow's timestamp[us, tz=UTC]."""
        if self.peek() == "[" and self.peek(1) in UNITS:
            return self._arrow_time(upper.lower())
        unit = "us"
        if self.peek() == "(":
            self.take()
            digits = self.number()
            self.close(")")
            if digits not in (0, 3, 6, 9):
                raise ValueError("wanted a precision of 0, 3, 6 or 9 digits")
            unit = ("s", "ms", "us", "ns")[digits // 3]
        words = tuple([self.peek(ahead).upper() for ahead in range(3)])
        zoned = _TIME_ZONES.get(words)
        if zoned is not None:
            self.at += 3
        if upper == "TIME":
            if zoned:
                raise ValueError("a time of day with a zone is not supported")
            return Type("time32" if unit in ("s", "ms") else "time64", unit=unit)
        return Type("timestamp", unit=unit, zone="UTC" if zoned else "")

    def _arrow_time(self, kind: str) -> Type:
        if self.peek() != "[" or self.peek(1) == "]":
            return Type(kind, unit="ms" if kind == "time32" else "us")
        self.take()
        unit, zone = self.take(), ""
        if unit not in _TEMPORAL.get(kind, ()):
            raise ValueError(f"wanted one of the units {', '.join(_TEMPORAL.get(kind, ()))}, got {unit or 'the end'}")
        if kind == "timestamp" and self.peek() == ",":
            self.take()
            if self.peek() == "tz":
                self.at += 2
            while self.peek() not in ("]", ""):
                zone += self.take()  # +05:30 is several tokens
            zone_of(zone)
        self.close("]")
        return Type(kind, unit=unit, zone=zone)

    def _extension(self) -> Type:
        self.take()
        name = self.take()
        if self.peek() == "<":  # extension<arrowudf.json<JsonType>>
            self.at += 2
            self.close(">")
        self.close(">")
        found = extension_type(name)
        if found is None:
            raise Unserved(f"the extension type {name} is not supported")
        return found


def extension_type(name: str) -> "Type | None":
    """The type of an extension by its name, if it is one that a body sees otherwise."""
    if name == "arrow.uuid":
        return uuid_type()
    return Type("utf8", extension=name) if name in ("arrow.json", "arrowudf.json", "arrowudf.decimal") else None


def _tokens(text: str) -> list:
    tokens, at = [], 0
    while at < len(text):
        sign = text[at]
        start = at
        if sign.isspace():
            at += 1
            continue
        if sign in '"`':
            at = text.find(sign, at + 1)
            if at < 0:
                raise Unserved(f"{text}: a quote without its end")
            tokens.append(text[start:at])
            at += 1
            continue
        at += 1
        if sign not in _TOKEN:
            while at < len(text) and text[at] not in _TOKEN and not text[at].isspace() and text[at] not in '"`':
                at += 1
        tokens.append(text[start:at])
    return tokens


def from_pyarrow(given: object, struct: str = "", pairs: str = "", depth: int = 0) -> "str | Type":
    """The type of a pyarrow type object, by what it says of itself. Raises Unserved."""
    if depth > 64:
        raise Unserved("nested too deep")
    extension = getattr(given, "extension_name", "")
    if extension:
        found = extension_type(extension)
        if found is None:
            raise Unserved(f"the extension type {extension} is not supported")
        return found

    def inside(field: object) -> tuple:
        return from_pyarrow(field.type, struct, pairs, depth + 1), bool(field.nullable)

    name = type(given).__name__
    try:
        if name in ("ListType", "LargeListType", "FixedSizeListType"):
            kind = {"ListType": "list", "LargeListType": "large_list"}.get(name, "fixed_size_list")
            return list_of(*inside(given.value_field), kind, getattr(given, "list_size", 0))
        if name == "StructType":
            fields = [given.field(number) for number in range(given.num_fields)]
            return Type("struct", view=struct, children=tuple([(field.name, *inside(field)) for field in fields]))
        if name == "MapType":
            key = from_pyarrow(given.key_type, struct, pairs, depth + 1)
            if hasattr(given, "item_field"):
                return map_of(key, *inside(given.item_field), pairs)
            return map_of(key, from_pyarrow(given.item_type, struct, pairs, depth + 1), True, pairs)
    except ValueError as e:
        raise Unserved(f"{given}: {e}") from None
    return parse(str(given), _ARROW)
