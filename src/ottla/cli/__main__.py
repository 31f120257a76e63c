"""`python -m ottla.cli`, the same as `ottla`."""

from ottla.cli import main

main()
