"""Writes down what the coordinator answers now, in every conversation. The difference is to be reviewed."""

from pathlib import Path

from tests.scenarios.streams_groups.conversation import run


def main() -> None:
    """Rewrite the files beside this one."""
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        script = path.read_text()
        rewritten = run(script)
        if rewritten != script:
            path.write_text(rewritten)
            print(f"rewrote {path.name}")


if __name__ == "__main__":
    main()
