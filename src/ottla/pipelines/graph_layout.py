"""The layout of a pipeline's graph: layers from left to right, with few crossing arrows.

    layer 0     layer 1    layer 2
    events ───> flown ───> sane ──┐
    airlines ─────── · ───────────┴─> named      an arrow over a layer takes a place (·) in it, so that it meets no box

A box is one layer after the last of its inputs. Within a layer, boxes are sorted by the middle of their neighbours'
positions, in a few passes in both directions (Sugiyama, Tagawa, Toda 1981).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from ottla.pipelines.graph import Graph, GraphEdge

_SWEEPS = 8

Place: TypeAlias = tuple[int, float]
"""The layer, and the position within it."""
_Item: TypeAlias = str | tuple[GraphEdge, int]
"""A box, or what an arrow takes of a layer."""


def layout(graph: Graph) -> tuple[dict[str, Place], dict[GraphEdge, list[Place]]]:
    """The position of each node, and for each edge the positions that it passes between its ends."""
    layers_of = _layers(graph)
    layers: list[list[_Item]] = [[] for _ in range(max(layers_of.values(), default=0) + 1)]
    for node in graph.nodes:
        layers[layers_of[node.name]].append(node.name)
    links: dict[_Item, list[_Item]] = {}
    for edge in graph.edges:
        way: list[_Item] = [edge.start]
        for layer in range(layers_of[edge.start] + 1, layers_of[edge.end]):
            way.append((edge, layer))
            layers[layer].append((edge, layer))
        way.append(edge.end)
        for left, right in pairwise(way):
            links.setdefault(left, []).append(right)
            links.setdefault(right, []).append(left)
    _sort(layers, links)
    tallest = max(map(len, layers))
    places = {
        item: (index, position + (tallest - len(layer)) / 2)
        for index, layer in enumerate(layers)
        for position, item in enumerate(layer)
    }
    boxes = {node.name: places[node.name] for node in graph.nodes}
    ways = {
        edge: [places[edge, layer] for layer in range(layers_of[edge.start] + 1, layers_of[edge.end])]
        for edge in graph.edges
    }
    return boxes, ways


def _layers(graph: Graph) -> dict[str, int]:
    """What reads nothing stands first, or right before what reads it: a table beside the stream it is joined with."""
    inputs: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        inputs[edge.end].append(edge.start)
    found: dict[str, int] = {}
    for node in graph.nodes:  # the order of a file: what is read stands before what reads it
        found[node.name] = max((found[name] + 1 for name in inputs[node.name]), default=0)
    for node in graph.nodes:
        readers = [found[edge.end] for edge in graph.edges if edge.start == node.name and not edge.dead_letters]
        if not inputs[node.name] and readers:
            found[node.name] = min(readers) - 1
    return found


def _sort(layers: list[list[_Item]], links: Mapping[_Item, Sequence[_Item]]) -> None:
    for sweep in range(_SWEEPS):
        order = range(1, len(layers)) if sweep % 2 == 0 else range(len(layers) - 2, -1, -1)
        for index in order:
            beside = layers[index - 1 if sweep % 2 == 0 else index + 1]
            middle = (len(beside) - 1) / 2
            places = {item: position - middle for position, item in enumerate(beside)}
            own = (len(layers[index]) - 1) / 2
            keys = {}
            for position, item in enumerate(layers[index]):
                near = [places[each] for each in links.get(item, ()) if each in places]
                keys[item] = sum(near) / len(near) if near else position - own
            layers[index].sort(key=keys.__getitem__)
