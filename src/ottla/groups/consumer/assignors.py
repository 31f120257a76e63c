"""The assignors of consumer groups, by the names that members ask for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.groups.consumer.assignor import Assignor
from ottla.groups.consumer.range_assignor import assign_ranges
from ottla.groups.consumer.uniform_assignor import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
