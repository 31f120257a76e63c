"""Checks that the documents are true where a machine can tell: links lead somewhere, files they name are there.

Prints the list of documents; exits with 1 and one line per fault when something is wrong.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)[^)]*\)")
SOURCE_FILE = re.compile(r"`(?P<path>(?:src|rust|tests|tools|benchmarks|examples|docs)/[\w./-]+)`")


def documents() -> list[Path]:
    """The README, the changelog and everything under docs/."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def faults(document: Path) -> Iterator[str]:
    """What is wrong in one document, as `file:line: what`."""
    for number, line in enumerate(document.read_text().splitlines(), start=1):
        place = f"{document.relative_to(ROOT)}:{number}"
        for match in LINK.finditer(line):
            target = match["target"]
            if "://" not in target and not (document.parent / target).exists():
                yield f"{place}: the link to {target} leads nowhere"
        for match in SOURCE_FILE.finditer(line):
            if not (ROOT / match["path"]).exists():
                yield f"{place}: there is no {match['path']}"


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
