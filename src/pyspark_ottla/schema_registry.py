"""A client of schema registries with Confluent's HTTP API.

An id identifies the schema of a value. It is in five bytes before the value (a zero byte and four of the id), or in
the header `__value_schema_id` (a zero byte and four of the id, or a one and the sixteen of a GUID).
"""

import base64
import json
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pyspark_ottla.options import OptionError, Options

REGISTRY_OPTIONS = ("schemaRegistry", "schemaRegistryTimeoutMs")
SCHEMA_ID_HEADER = "__value_schema_id"
ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""The maximum size of a response of a registry."""

_ID_BYTES = 4


class RegistryError(RuntimeError):
    """The registry did not answer. This says nothing about the value: a retry may succeed."""


class UnknownSchemaError(ValueError):
    """The registry does not know the schema that a value names."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry by its URL. `http://user:password@host:8081` uses basic authentication."""

    url: str
    timeout_s: float

    def latest(self, subject: str) -> str:
        """The newest schema of a subject. Raises OptionError when it has none, and RegistryError."""
        try:
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except UnknownSchemaError:
            raise OptionError(
                f"option schemaRegistry: it has no subject {subject!r}; set valueSubject or valueSchema"
            ) from None
        return _schema(found, subject)

    def by_id(self, schema_id: bytes) -> str:
        """The schema of an id in four bytes, or of a GUID in sixteen. Raises UnknownSchemaError and RegistryError."""
        if len(schema_id) == _ID_BYTES:
            number = int.from_bytes(schema_id, "big")
            return _schema(self._get(f"/schemas/ids/{number}"), f"schema {number}")
        guid = str(uuid.UUID(bytes=schema_id))
        return _schema(self._get(f"/schemas/guids/{guid}"), f"schema {guid}")

    def _get(self, path: str) -> Any:
        # Only here: it is as much to import as all the rest, and most reads have no registry.
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        request = Request(f"{parts.scheme}://{host}{parts.path.rstrip('/')}{path}")  # noqa: S310
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
        try:
            with urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310
                return json.loads(answer.read(ANSWER_BYTES_MAX))
        except HTTPError as error:
            if error.code == 404:
                raise UnknownSchemaError(f"the registry does not know {path}") from None
            raise RegistryError(f"the schema registry at {host} answered {error.code} to {path}") from None
        except (OSError, ValueError) as error:
            raise RegistryError(f"the schema registry at {host} cannot be asked: {error}") from None


def registry_of(options: Options) -> Registry | None:
    """The registry that the options name. Raises OptionError."""
    url = options.text("schemaRegistry")
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError("option schemaRegistry: write a URL as in http://localhost:8081")  # it may hold a password
    return Registry(url, options.integer("schemaRegistryTimeoutMs", 10_000) / 1000)


def split_frame(value: bytes, header: bytes | None) -> tuple[bytes, bytes]:
    """The id of a value's schema and what comes after it. Raises ValueError when it names none."""
    if header is not None:
        return _id(header), value
    if len(value) <= _ID_BYTES or value[0] != 0:
        raise ValueError("no schema id: neither five bytes before the value nor a header __value_schema_id")
    return value[1:5], value[5:]


def _id(header: bytes) -> bytes:
    if len(header) in (5, 17) and header[0] == (len(header) == 17):
        return header[1:]
    raise ValueError(f"header {SCHEMA_ID_HEADER} holds no schema id: {header[:20]!r}")


def _schema(found: Any, what: str) -> str:
    schema = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(schema, str):
        raise RegistryError(f"the schema registry gave no schema for {what}")
    if found.get("references"):
        raise OptionError(f"{what} refers to other schemas, which is not supported: give it whole, by valueSchema")
    return schema
