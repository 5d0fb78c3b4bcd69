"""`reconcile schema`: print the JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import json

import click

KINDS = ("task", "sky", "reconciler")


@click.command(name="schema")
@click.argument("kind", type=click.Choice(KINDS))
def command(*, kind: str) -> None:
    """Print the JSON Schema of task files, of .sky.yaml or of reconciler.yaml, for editors.

    \b
    reconcile schema task > schemas/task.json     then, as the first line of a file under jobs/:
    # yaml-language-server: $schema=../schemas/task.json
    """  # noqa: D301 - \b keeps click from folding the examples
    from reconciler.core.schema.json_schema import SCHEMAS

    click.echo(json.dumps(SCHEMAS[kind](), indent=2))
