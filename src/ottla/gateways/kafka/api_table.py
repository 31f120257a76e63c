"""APIs by key, each read from its file when it is first asked for.

A broker that starts needs none of them, and its first client a few: most of a start is spent on reading Python files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ottla.gateways.kafka.api import Api, Handler, HandleSingle
from ottla.protocol.api_keys import ApiKey


class Row(NamedTuple):
    """What is known of an API without its file: its constant `API` says the same."""

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    advertised_min_version: int | None = None
    is_between_brokers: bool = False
    """Whether clients are not told of it."""

    @classmethod
    def of(cls, api: Api) -> "Row":
        """The row of an API that is here already."""
        return cls(api.key, api.min_version, api.max_version, "", api.advertised_min_version, api.is_between_brokers)


class Route(NamedTuple):
    """What becomes of a request of one API in one version: made of its frame and the offset of its body, handled.

    `handle_single` gets those that the kernel has made already.
    """

    decode: Callable[[memoryview, int], Any]
    handle: Handler
    is_async: bool
    handle_single: HandleSingle | None
    is_decided_by_controller: bool
    is_local: Callable[[Any], bool] | None
    starts_eagerly: bool
    after_responses: bool


class ApiTable(Mapping[int, Api]):
    """APIs by key, in the order of the keys."""

    def __init__(self, rows: Iterable[Row], loaded: Iterable[Api] = ()) -> None:
        self.rows: Mapping[int, Row] = {int(row.key): row for row in sorted(rows)}
        self._loaded = {int(api.key): api for api in loaded}
        self.routes: dict[tuple[int, int], Route] = {}
        """Routes by key and version, as far as they have been asked for (`route`)."""

    @classmethod
    def of(cls, apis: Iterable[Api]) -> "ApiTable":
        """A table of APIs that are here already."""
        loaded = tuple(apis)
        return cls(map(Row.of, loaded), loaded)

    def without(self, keys: Iterable[ApiKey]) -> "ApiTable":
        """A table that lacks these."""
        return ApiTable(row for key, row in self.rows.items() if key not in set(keys))

    def __getitem__(self, key: int) -> Api:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, key: int) -> Api | None:
        """The API of `key`; None when it is not served."""
        found = self._loaded.get(key)
        if found is None and (row := self.rows.get(key)) is not None:
            found = self._loaded[key] = self._load(row)
        return found

    def route(self, key: int, version: int) -> Route | None:
        """The route of an API and a version; None when they are not served."""
        api = self.find(key)
        if api is None or not api.serves(version):
            return None
        route = self.routes[key, version] = Route(
            api.decoder(version),
            api.handle,
            api.is_async,
            api.handle_single,
            api.is_decided_by_controller,
            api.is_local,
            api.starts_eagerly,
            api.after_responses,
        )
        return route

    def _load(self, row: Row) -> Api:
        api: Api = import_module(f"{__package__}.{row.module}").API
        return api
