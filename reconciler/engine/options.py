"""What a person or a CI job may ask of a pass."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model import ALL_ALLOWED, Limits


@dataclass(frozen=True, slots=True)
class Options:
    """The switches of one pass.

    `ref` names the commit (None: HEAD). `status_branch` overrides the site's; `"none"` writes no status. `in_ci` makes
    a superseded pass a quiet success. `limits` hold beside those of the site, out of the reach of a commit. Each
    `allow_*` lifts the guard of that name.
    """

    ref: str | None = None
    status_branch: str | None = None
    in_ci: bool = False
    limits: Limits = ALL_ALLOWED
    allow_mass_change: bool = False
    allow_empty_source: bool = False
    allow_cluster_change: bool = False
    allow_superseded: bool = False
    recreate_lost: bool = False
