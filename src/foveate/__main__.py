"""`python -m foveate` is the `foveate` command."""

from foveate.cli import main

main()
