"""What a pass did, and what that means for the exit code."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.errors import ExitCode
from reconciler.model import Action, Document, Manifest, Problem, Result, Severity


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a pass or of a plan.

    `documents` are the status documents of this commit's jobs by name, as they stand after the pass, and `recorded`
    those of before. `refusal` is the guard that stopped it, `undelivered` why the status could not be published,
    `timed_out` for whom a wait waited in vain. `waiting` are the pods that a plan found without a node. `notes` are for
    people alone.
    """

    commit: str
    context: str
    actions: tuple[Action, ...] = ()
    problems: tuple[Problem, ...] = ()
    recorded: dict[str, Document] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    status_commit: str | None = None
    superseded: bool = False
    superseded_is_fine: bool = False
    refusal: Problem | None = None
    undelivered: Problem | None = None
    timed_out: Problem | None = None
    waiting: tuple[Manifest, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The problems of files and objects, then those of the pass itself."""
        return (*self.problems, *(p for p in (self.refusal, self.undelivered, self.timed_out) if p))

    @property
    def exit_code(self) -> ExitCode:
        """The gravest thing that happened: a refused pass, an undelivered status, something for a person, nothing."""
        if self.superseded and self.superseded_is_fine:
            return ExitCode.FINE
        if self.superseded or self.refusal:
            return ExitCode.GUARD
        if self.undelivered:
            return ExitCode.STATUS_NOT_PUSHED
        if self.timed_out:
            return ExitCode.FAILED
        if any(a.needs_attention or a.result is Result.FAILED for a in self.actions):
            return ExitCode.PARTLY
        if any(p.severity is Severity.ERROR for p in self.problems):
            return ExitCode.PARTLY
        return ExitCode.FINE
