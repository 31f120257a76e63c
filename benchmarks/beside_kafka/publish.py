"""Puts a run into the documents: its figures, its picture, and the tables of docs/performance.md, which nobody types.

.venv/bin/python -m benchmarks.beside_kafka.publish [RESULTS]     # build/bench when not said otherwise
.venv/bin/python -m benchmarks.beside_kafka.publish --rows [RESULTS]

With `--rows` the rows of that run take the place of those that are published, and the document says which they are.
"""

from __future__ import annotations

import argparse
import json
import shutil
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


def main(arguments: list[str] | None = None) -> None:
    """Copy and rewrite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", action="store_true", help="put the rows of this run in the place of those published")
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "build" / "bench", help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    figures, picture = chosen.results / "bench.json", chosen.results / "bench.png"
    if not figures.is_file():
        parser.error(f"{figures} is not there; `make bench` writes it")
    if chosen.rows:
        report = published().with_rows_of(Report.from_json(json.loads(figures.read_text())))
        FIGURES.write_text(json.dumps(report.as_json(), indent=1) + "\n")
        draw(report, PICTURE)
    else:
        shutil.copy(figures, FIGURES)
        shutil.copy(picture, PICTURE)
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(), published()))
    print(f"wrote {DOCUMENT.relative_to(ROOT)}, {FIGURES.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
