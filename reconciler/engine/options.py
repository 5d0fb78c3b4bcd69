"""What a person or a CI job may ask of a pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The switches of one pass.

    `ref` names the commit (None: HEAD). `status_branch` overrides the site's; `"none"` writes no status. `in_ci` makes
    a superseded pass a quiet success. Each `allow_*` lifts the guard of that name.
    """

    ref: str | None = None
    status_branch: str | None = None
    in_ci: bool = False
    allow_mass_change: bool = False
    allow_empty_source: bool = False
    allow_cluster_change: bool = False
    allow_superseded: bool = False
    recreate_lost: bool = False
