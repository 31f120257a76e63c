"""A pipeline's graph in Mermaid, which GitHub and most notebooks draw."""

from ottla.pipelines.graph import Graph, GraphNode, Kind

_SHAPES: dict[Kind, tuple[str, str]] = {
    "stream": ("([", "])"),
    "table": ("[(", ")]"),
    "step": ("[", "]"),
    "sink": ("[[", "]]"),
    "dead_letters": (">", "]"),
}
_COLOURS: dict[Kind, str] = {
    "stream": "fill:#dbeafe,stroke:#2563eb,color:#111827",
    "table": "fill:#e0e7ff,stroke:#4f46e5,color:#111827",
    "step": "fill:#f3f4f6,stroke:#6b7280,color:#111827",
    "sink": "fill:#dcfce7,stroke:#16a34a,color:#111827",
    "dead_letters": "fill:#fee2e2,stroke:#dc2626,color:#111827",
}
_DETAIL_MAX = 48


def mermaid(graph: Graph) -> str:
    """The graph as the text of a flow chart, from left to right."""
    ids = {node.name: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {ids[node.name]}{_box(node)}:::{node.kind}" for node in graph.nodes]
    for edge in graph.edges:
        arrow = "-.->" if edge.dead_letters else "-->"
        lines.append(f"  {ids[edge.start]} {arrow} {ids[edge.end]}")
    kinds = dict.fromkeys(node.kind for node in graph.nodes)
    lines += [f"  classDef {kind} {_COLOURS[kind]}" for kind in kinds]
    return "\n".join(lines) + "\n"


def _box(node: GraphNode) -> str:
    detail = node.detail if len(node.detail) <= _DETAIL_MAX else node.detail[: _DETAIL_MAX - 1] + "…"
    before, after = _SHAPES[node.kind]
    return f'{before}"<b>{_escape(node.name)}</b><br/>{_escape(node.what)}: {_escape(detail)}"{after}'


def _escape(text: str) -> str:
    """As entities everything that Mermaid or HTML would take for its own."""
    return "".join(each if each.isalnum() or each in " .,_-/:*" else f"#{ord(each)};" for each in text)
