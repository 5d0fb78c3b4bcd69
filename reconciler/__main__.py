"""Run the command line, as `reconcile` or as `python -m reconciler`."""

from typing import NoReturn

from reconciler.cli.process import begin


def main() -> NoReturn:
    """Prepare the process, and only then import what it runs: that takes a while in which signals come too."""
    begin()
    from reconciler.cli.main import main

    main()


if __name__ == "__main__":
    main()
