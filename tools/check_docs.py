"""Checks that the documents are true where a machine can tell: links lead somewhere, files they name are there.

Prints the list of documents; exits with 1 and one line per fault when something is wrong.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#(?P<heading>[^)\s]+))?[^)]*\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
SOURCE_FILE = re.compile(r"`(?P<path>(?:src|rust|tests|tools|benchmarks|examples|docs)/[\w./-]+)`")
SHORT_NAME = re.compile(r"`(?P<path>[\w/-]+\.(?:py|rs))`")
"""A file by the end of its path, as in `storage/log.py`."""
SOURCES = ("src", "rust/src", "tests", "tools", "benchmarks", "chaos", "examples", "races", "workload")


def documents() -> list[Path]:
    """The README, the changelog and everything under docs/."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def source_files() -> tuple[str, ...]:
    """The path of every source file, from the root on, each with a slash before it."""
    found = (path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".rs"})
    return tuple(f"/{path.relative_to(ROOT).as_posix()}" for path in found)


def anchors(document: Path) -> set[str]:
    """What the headings of a document are linked by."""
    headings = (match["text"] for match in HEADING.finditer(document.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def faults(document: Path) -> Iterator[str]:
    """What is wrong in one document, as `file:line: what`."""
    for number, line in enumerate(document.read_text().splitlines(), start=1):
        place = f"{document.relative_to(ROOT)}:{number}"
        for match in LINK.finditer(line):
            target, heading = match["target"], match["heading"]
            if "://" in target:
                continue
            if not (document.parent / target).exists():
                yield f"{place}: the link to {target} leads nowhere"
            elif heading and heading not in anchors(document.parent / target):
                yield f"{place}: {target} has no heading {heading}"
        for match in SOURCE_FILE.finditer(line):
            if not (ROOT / match["path"]).exists():
                yield f"{place}: there is no {match['path']}"
        for match in SHORT_NAME.finditer(line):
            if not any(path.endswith(f"/{match['path']}") for path in source_files()):
                yield f"{place}: no file is named {match['path']}"


def main() -> int:
    """Check every document."""
    found = 0
    for document in documents():
        title = next((line.lstrip("# ") for line in document.read_text().splitlines() if line.startswith("#")), "")
        print(f"{document.relative_to(ROOT)!s:<50} {title}")
        for fault in faults(document):
            print(fault, file=sys.stderr)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
