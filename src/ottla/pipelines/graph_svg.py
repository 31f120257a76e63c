"""A pipeline's graph as one self-contained SVG, in the colours of the page that shows it."""

from html import escape

from ottla.pipelines.graph import Graph, GraphEdge, GraphNode
from ottla.pipelines.graph_layout import Place, layout

_WIDTH, _HEIGHT = 196, 58
_GAP_X, _GAP_Y = 72, 26
_MARGIN = 24
_TITLE = 34
_NAME_MAX, _DETAIL_MAX = 22, 31
"""So many letters of their fonts fit into a box."""

_STYLE = """
  svg { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .ground { fill: #ffffff } .title { fill: #111827; font-size: 17px; font-weight: 650 }
  .box { stroke-width: 1.4; fill: #f9fafb; stroke: #9ca3af } .name { fill: #111827; font-size: 14px; font-weight: 600 }
  .what { font-size: 10.5px; font-weight: 600; letter-spacing: .04em; fill: #6b7280 }
  .detail { fill: #4b5563; font-size: 10.5px; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
  .stream .box { fill: #eff6ff; stroke: #3b82f6 } .table .box { fill: #eef2ff; stroke: #6366f1 }
  .sink .box { fill: #f0fdf4; stroke: #22c55e } .dead_letters .box { fill: #fef2f2; stroke: #ef4444 }
  .stream .what { fill: #2563eb } .table .what { fill: #4f46e5 } .sink .what { fill: #15803d }
  .dead_letters .what { fill: #dc2626 }
  .arrow { fill: none; stroke: #9ca3af; stroke-width: 1.6 } .tip { fill: #9ca3af }
  .refused { stroke: #ef4444; stroke-dasharray: 5 4; stroke-opacity: .75 } .refused-tip { fill: #ef4444 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .title, .name { fill: #f0f6fc } .detail { fill: #b1bac4 } .what { fill: #8b949e }
    .box { fill: #161b22; stroke: #6e7681 } .stream .box { fill: #0f2038 } .table .box { fill: #1a1c3d }
    .sink .box { fill: #0f2a1a } .dead_letters .box { fill: #33141a }
    .stream .what { fill: #79b8ff } .table .what { fill: #a5b4fc } .sink .what { fill: #56d364 }
    .dead_letters .what { fill: #ff7b72 }
  }
"""


def svg(graph: Graph) -> str:
    """The SVG text of a graph."""
    boxes, ways = layout(graph)
    width = _left(max(layer for layer, _ in boxes.values())) + _WIDTH + _MARGIN
    places = [*boxes.values(), *(place for way in ways.values() for place in way)]
    height = _top(max(row for _, row in places)) + _HEIGHT + _MARGIN
    size = f'width="{width}" height="{height:g}"'
    label = escape(f"The pipeline {graph.pipeline}")
    space = "http://www.w3.org/2000/svg"
    parts = [
        f'<svg xmlns="{space}" {size} viewBox="0 0 {width} {height:g}" role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        _tip("tip"),
        _tip("refused-tip"),
        f'<rect class="ground" {size} rx="10"/>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(graph.pipeline)}</text>',
        *[_arrow(edge, boxes, ways[edge]) for edge in graph.edges],
        *[_box(node, boxes[node.name]) for node in graph.nodes],
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _left(layer: int) -> int:
    return _MARGIN + layer * (_WIDTH + _GAP_X)


def _top(row: float) -> float:
    return _MARGIN + _TITLE + row * (_HEIGHT + _GAP_Y)


def _tip(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="{name}" d="M0,0 L8,4 L0,8 z"/></marker>'
    )


def _box(node: GraphNode, place: Place) -> str:
    x, y = _left(place[0]), _top(place[1])
    round_ = {"stream": _HEIGHT // 2, "table": 4}.get(node.kind, 9)
    inset = 22 if node.kind == "stream" else 14
    title = escape(f"{node.name}: {node.what} {node.detail}")
    name = escape(_cut(node.name, _NAME_MAX - len(node.what) // 2))
    detail = escape(_cut(node.detail, _DETAIL_MAX - inset // 4))
    return (
        f'<g class="{node.kind}"><title>{title}</title>'
        f'<rect class="box" x="{x}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{round_}"/>'
        f'<text class="name" x="{x + inset}" y="{y + 24:g}">{name}</text>'
        f'<text class="what" x="{x + _WIDTH - inset}" y="{y + 23:g}" text-anchor="end">{escape(node.what)}</text>'
        f'<text class="detail" x="{x + inset}" y="{y + 42:g}">{detail}</text></g>'
    )


def _arrow(edge: GraphEdge, boxes: dict[str, Place], way: list[Place]) -> str:
    """A curve from box to box that runs level through the layers between them."""
    (layer, row), (end_layer, end_row) = boxes[edge.start], boxes[edge.end]
    x, y = _left(layer) + _WIDTH, _top(row) + _HEIGHT / 2
    path = [f"M{x},{y:g}"]
    for next_layer, next_row in way:
        left, level = _left(next_layer), _top(next_row) + _HEIGHT / 2
        path.append(f"{_curve(x, y, left, level)} H{left + _WIDTH}")
        x, y = left + _WIDTH, level
    path.append(_curve(x, y, _left(end_layer), _top(end_row) + _HEIGHT / 2))
    kind, tip = ("arrow refused", "refused-tip") if edge.dead_letters else ("arrow", "tip")
    return f'<path class="{kind}" marker-end="url(#{tip})" d="{" ".join(path)}"/>'


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
