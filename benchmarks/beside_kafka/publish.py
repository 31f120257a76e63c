"""Puts a run into the documents: its figures, its picture, and the tables of docs/performance.md, which nobody types.

.venv/bin/python -m benchmarks.beside_kafka.publish [RESULTS]     # build/bench when not said otherwise
.venv/bin/python -m benchmarks.beside_kafka.publish --rows [RESULTS]

With `--rows` the rows of that run take the place of those that are published, and the document says which they are.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks.beside_kafka.picture import draw
from benchmarks.beside_kafka.report import Report, markdown

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "docs" / "performance.json"
PICTURE = ROOT / "docs" / "performance.png"
BEGIN = "<!-- Written by benchmarks/beside_kafka/publish.py from performance.json; change nothing by hand. -->"
END = "<!-- End of what was written. -->"


def with_tables(document: str, report: Report) -> str:
    """The document with its tables made anew.

    Raises:
        ValueError: it has no place for them.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no place for the tables")
    return f"{before}{BEGIN}\n\n{markdown(report)}\n{END}{after}"


def published() -> Report:
    """The run that the documents show."""
    return Report.from_json(json.loads(FIGURES.read_text()))


def main(arguments: list[str]) -> None:
    """Copy and rewrite."""
    only_rows = arguments[:1] == ["--rows"]
    paths = arguments[only_rows:]
    results = Path(paths[0]) if paths else ROOT / "build" / "bench"
    if only_rows:
        report = published().with_rows_of(Report.from_json(json.loads((results / "bench.json").read_text())))
        FIGURES.write_text(json.dumps(report.as_json(), indent=1) + "\n")
        draw(report, PICTURE)
    else:
        shutil.copy(results / "bench.json", FIGURES)
        shutil.copy(results / "bench.png", PICTURE)
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(), published()))
    print(f"wrote {DOCUMENT.relative_to(ROOT)}, {FIGURES.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
