"""Canonical JSON (RFC 8785), the ledger's restricted profile of it, and fingerprints."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

MAX_SAFE_INTEGER = 2**53 - 1
_KEY = re.compile(r"[a-z0-9_]+\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NON_FINITE = {"non-finite(nan)": math.nan, "non-finite(+inf)": math.inf}
_NON_FINITE["non-finite(-inf)"] = -math.inf

Json: TypeAlias = Any
"""What ``json`` reads and writes; the profile check narrows it at run time."""


def decimal(value: float) -> str:
    """Return the shortest decimal string that reads back to the same double.

    Non-finite values are marked ``non-finite(nan)``, ``non-finite(+inf)``, ``non-finite(-inf)``,
    never coerced.
    """
    if math.isfinite(value):
        return repr(float(value))
    sign = "nan" if math.isnan(value) else ("+inf" if value > 0 else "-inf")
    return f"non-finite({sign})"


def from_decimal(text: str) -> float:
    """Return the double that `decimal` wrote.

    Raises:
        ValueError: the text is not one that `decimal` writes.
    """
    marked = _NON_FINITE.get(text)
    value = float(text) if marked is None else marked
    if decimal(value) != text:
        raise ValueError(f"{text!r} is not a canonical decimal string ({decimal(value)!r} is)")
    return value


def freeze(value: Json) -> Json:
    """Return the value in the restricted profile: floats as decimal strings, nulls dropped.

    Raises:
        ValueError: a value that no JSON can carry, or a key outside ``[a-z0-9_]``.
    """
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float):
        return decimal(value)
    if isinstance(value, Mapping):
        return {key: freeze(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [freeze(item) for item in value]
    raise ValueError(f"{type(value).__name__} {value!r} cannot be recorded as JSON")


def profile_faults(value: Json, path: str = "$") -> list[str]:
    """Return every breach of the ledger's JSON profile (record-format.md, "JSON profile")."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        safe = -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
        return [] if safe else [f"{path}: integer {value} is outside ±(2^53-1)"]
    if isinstance(value, str):
        return _string_faults(value, path)
    if isinstance(value, Mapping):
        return [fault for key, item in value.items() for fault in _member_faults(key, item, path)]
    if isinstance(value, list | tuple):
        pairs = enumerate(value)
        return [fault for i, item in pairs for fault in profile_faults(item, f"{path}[{i}]")]
    return [f"{path}: {type(value).__name__} {value!r} is not allowed"]


def _string_faults(text: str, path: str) -> list[str]:
    if _SURROGATE.search(text):
        return [f"{path}: lone surrogate in a string"]
    if not unicodedata.is_normalized("NFC", text):
        return [f"{path}: string is not in Unicode normal form C"]
    return []


def _member_faults(key: Json, item: Json, path: str) -> list[str]:
    if not isinstance(key, str) or not _KEY.match(key):
        return [f"{path}: key {key!r} is not ASCII snake_case"]
    return profile_faults(item, f"{path}.{key}")


def canonical_json(value: Json) -> bytes:
    """Return RFC 8785 bytes of a JSON value.

    Raises:
        ValueError: NaN, an infinity, a lone surrogate or a value outside JSON.
    """
    return _encode(value).encode("utf-8")


def _encode(value: Json) -> str:
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _encode_string(value)
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        return _encode_number(value)
    if isinstance(value, Mapping):
        # RFC 8785 section 3.2.3 orders keys by their UTF-16 code units.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_encode_string(k)}:{_encode(value[k])}" for k in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_encode(item) for item in value) + "]"
    raise ValueError(f"{type(value).__name__} {value!r} is not a JSON value")


def _encode_string(text: str) -> str:
    if _SURROGATE.search(text):
        raise ValueError("a lone surrogate has no UTF-8 form")
    return encode_basestring(text)


def _encode_integer(value: int) -> str:
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise ValueError(f"integer {value} is outside ±(2^53-1)")
    return str(value)


def _encode_number(value: float) -> str:
    """ECMAScript ``Number::toString`` (ECMA-262 section 6.1.6.1.20) of a finite double."""
    if not math.isfinite(value):
        raise ValueError(f"{value!r} has no JSON form")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    # point: position of the decimal point counted from the first significant digit
    point = len(whole + fraction) - len(fraction) + int(exponent_text or 0)
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    return sign + _ecma_layout(digits, point)


def _ecma_layout(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    exponent = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return digits[0] + (f".{digits[1:]}" if count > 1 else "") + exponent


def parse_json(data: bytes) -> Json:
    """Parse JSON and refuse duplicate keys, NaN and infinities.

    Raises:
        ValueError: the bytes are not such a JSON text.
    """
    return json.loads(data, object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {key!r}")
        found[key] = value
    return found


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


def sha256_hex(data: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: Json) -> str:
    """Return ``sha256:…`` over the canonical JSON of the frozen value: an identity by content."""
    return f"sha256:{sha256_hex(canonical_json(freeze(value)))}"
