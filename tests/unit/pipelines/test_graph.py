"""The graph of a pipeline, and its pictures."""

import xml.etree.ElementTree as ET
from pathlib import Path

from ottla.pipelines import spec
from ottla.pipelines.graph import Graph, GraphEdge, GraphNode, graph_of
from ottla.pipelines.graph_layout import layout
from ottla.pipelines.graph_mermaid import mermaid
from ottla.pipelines.graph_svg import svg
from tests.unit.pipelines.spec.pipeline_files import WHOLE

LETTERS = "dead letters"


def _graph(text: str = WHOLE) -> Graph:
    found, mistakes = spec.check_text(text.encode(), file="p.toml", directory=Path())
    assert found is not None, mistakes
    return graph_of(found)


def test_every_part_is_a_box_and_what_it_reads_an_arrow() -> None:
    graph = _graph()
    assert [(node.name, node.what) for node in graph.nodes] == [
        ("events", "stream"),
        ("airlines", "table"),
        ("flown", "sql"),
        ("sane", "expect"),
        ("once", "deduplicate"),
        ("named", "join"),
        ("hourly", "window"),
        ("delays", "topic"),
        ("lake", "parquet"),
        (LETTERS, "topic"),
    ]
    assert {(edge.start, edge.end) for edge in graph.edges if not edge.dead_letters} == {
        ("events", "flown"),
        ("flown", "sane"),
        ("sane", "once"),
        ("once", "named"),
        ("airlines", "named"),
        ("named", "hourly"),
        ("hourly", "delays"),
        ("named", "lake"),
    }
    assert {edge.start for edge in graph.edges if edge.dead_letters} == {"events", "airlines", "sane"}


def test_what_is_read_stands_to_the_left_of_what_reads_it_and_no_two_share_a_place() -> None:
    graph = _graph()
    boxes, ways = layout(graph)
    for edge in graph.edges:
        assert [place[0] for place in ways[edge]] == list(range(boxes[edge.start][0] + 1, boxes[edge.end][0]))
    taken = [*boxes.values(), *(place for way in ways.values() for place in way)]
    assert len(set(taken)) == len(taken)
    assert boxes["airlines"][0] == boxes["named"][0] - 1


def test_boxes_are_sorted_so_that_arrows_do_not_cross() -> None:
    nodes = tuple(GraphNode(name, "step", "sql", "") for name in ("a", "b", "c", "x", "y", "z"))
    graph = Graph("p", nodes, (GraphEdge("a", "z"), GraphEdge("b", "y"), GraphEdge("c", "x")))
    boxes, _ = layout(graph)
    assert [boxes[start][1] for start in "abc"] == [boxes[end][1] for end in "zyx"]


def test_the_picture_is_an_svg_with_all_boxes_and_arrows_in_it() -> None:
    graph = _graph(WHOLE.replace("flight is not null", "flight <> '<&>'"))
    root = ET.fromstring(svg(graph))
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = root.findall(f"{space}g/{space}rect")
    assert len(boxes) == len(graph.nodes)
    for box in boxes:
        assert 0 <= float(box.attrib["x"]) <= width - float(box.attrib["width"])
        assert 0 <= float(box.attrib["y"]) <= height - float(box.attrib["height"])
    arrows = root.findall(f"{space}path")
    assert len(arrows) == len(graph.edges)
    assert sum("refused" in each.attrib["class"] for each in arrows) == 3
    assert "flight <> '<&>'" in "".join(each.text or "" for each in root.iter(f"{space}title"))


def test_mermaid_names_boxes_by_number_and_takes_no_text_for_its_own() -> None:
    text = mermaid(_graph(WHOLE.replace("flight is not null", 'flight <> \\"x\\"')))
    assert text.startswith('flowchart LR\n  n0(["<b>events</b><br/>stream: flights.events"]):::stream\n')
    assert "sql: select * from events where flight #60;#62; #34;x#34;" in text
    assert "n0 --> n2\n" in text
    assert "n3 -.-> n9\n" in text
