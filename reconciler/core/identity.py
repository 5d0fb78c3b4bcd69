"""Tell which run a Job of ours is, so that no edit of a label or an annotation makes it another one.

A name and a uid can't be changed on a live object, labels and annotations can. So what is on record under the uid
stands. A Job that is not on record yet, because the pass that made it died, is what its labels say, if its name agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.core.manifest import mapping, objects
from reconciler.model import JOB_LABEL, RUN_LABEL, TASK_HASH, Document, Manifest


@dataclass(frozen=True, slots=True)
class Identity:
    """Run `number` of `job`, made for the version `task_hash` of its file."""

    job: str
    number: int
    task_hash: str

    @property
    def name(self) -> str:
        """The name of its Job."""
        return f"{self.job}-{self.number}"


def recorded_identities(documents: Iterable[Document]) -> dict[str, Identity]:
    """Return who each run on record is, by the uid of its Job."""
    return {
        run["uid"]: Identity(document["job"], run["number"], run["task_hash"])
        for document in documents
        for run in (document["run"], *document["runs"])
        if run
    }


def identify(job: Manifest, recorded: Mapping[str, Identity]) -> Identity | None:
    """Return which run a Job is: by the record, else by its labels; None when its name says something else."""
    metadata = mapping(job.get("metadata"))
    identity = recorded.get(str(metadata.get("uid")))
    if identity is None:
        labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
        number = str(labels.get(RUN_LABEL, ""))
        if not (number.isascii() and number.isdecimal()):
            return None
        identity = Identity(str(labels.get(JOB_LABEL, "")), int(number), str(annotations.get(TASK_HASH, "")))
    return identity if identity.name == metadata.get("name") else None


def strays(jobs: Iterable[Manifest], recorded: Mapping[str, Identity]) -> tuple[Manifest, ...]:
    """Return the Jobs that carry our owner label and can't be told to be any run; those that others made are not."""
    return tuple(job for job in jobs if identify(job, recorded) is None and not _is_controlled(job))


def _is_controlled(job: Manifest) -> bool:
    owners = objects(mapping(job.get("metadata")).get("ownerReferences"))
    return any(owner.get("controller") for owner in owners)
