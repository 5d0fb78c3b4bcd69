"""The values that tell of runs: what the cluster shows of one, how it counts and ends, and what is on record.

They are as those of `reconciler.model`: frozen, and shared by the stages of a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model import TERMINAL_STATES, Manifest, Problem, State


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `at` is when that was decided; its pods may need until later to stop."""

    state: State
    reason: str
    message: str
    at: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The three numbers of a run that are never merged; `inexact` says why they can't be trusted, or None."""

    recoveries: int
    restarts_on_error: int
    evictions: int = 0
    inexact: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One pod of a run as it was seen, or the pods of all its nodes. Times are RFC 3339 UTC, or None when not known.

    `created_at` is when the pod was made: by then the attempt before it had ended.
    """

    pod: str
    started_at: str | None = None
    ended_at: str | None = None
    node: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What a live Job and its pods say about a run."""

    state: State
    reason: str | None
    message: str | None
    counts: Counts
    submitted_at: str | None
    started_at: str | None
    ended_at: str | None
    attempts: tuple[Attempt, ...]
    priority_class: str | None
    priority_value: int | None
    problems: tuple[Problem, ...] = ()
    suspended_at: str | None = None


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A Job or JobSet of ours on the cluster, with its pods: run `number` of `job`, made for `task_hash`."""

    job: str
    number: int
    task_hash: str
    uid: str
    namespace: str
    manifest: Manifest
    observation: Observation
    deleting: bool

    @property
    def finished(self) -> bool:
        """Whether the outcome stands: nothing that happens to its pods changes it any more."""
        return self.observation.state in TERMINAL_STATES


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What the status branch says about one run."""

    number: int
    task_hash: str
    uid: str
    state: State
    recoveries: int
    ended_at: str | None = None
