"""One target in Python under libFuzzer, guided by which lines of Ottla it reaches.

python -m tests.fuzz.guided TARGET [libFuzzer's options and folders of inputs]
"""

import sys

import atheris

from tests.fuzz.targets import NAMES, target


def main() -> None:
    """Run until libFuzzer is done; an exception of the target is a finding."""
    name = sys.argv.pop(1)
    assert name in NAMES, f"there is no target {name}, only {', '.join(NAMES)}"
    with atheris.instrument_imports(include=["ottla", "tests.fuzz.targets"]):
        check = target(name)
    # To merge, libFuzzer starts itself again by this, as a line for a shell.
    sys.argv[0] = f"{sys.executable} -m tests.fuzz.guided {name}"
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
