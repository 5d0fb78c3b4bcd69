"""Run the command line as `python -m reconciler`."""

from reconciler.cli import main

main()
