"""What is said of an object on its way out, and when a person must look."""

from __future__ import annotations

import pytest

from reconciler.core.deletion import going
from reconciler.model import Manifest

GOES = "is being deleted; the next pass looks again"
PODS = (
    "is being deleted since 2026-03-01T10:00:00Z, and its pods do not end: kubectl get pods -n team-a "
    "-l batch.kubernetes.io/job-name=train-3; of a node that is gone for good, kubectl delete pod --force"
)
FINALIZER = (
    "is being deleted since 2026-03-01T10:00:00Z, and waits for its finalizers example.com/backup: mend what should "
    "take them away, or do it by hand: kubectl edit job train-3 -n team-a"
)


def job(*finalizers: str, grace: int | None = None, deleted: str | None = "2026-03-01T10:00:00Z") -> Manifest:
    pod = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    metadata: Manifest = {"name": "train-3", "namespace": "team-a", "finalizers": list(finalizers)}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    return {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("manifest", "now", "expected"),
    [
        pytest.param(job(), "2026-03-01T10:00:01Z", (GOES, False), id="just deleted"),
        pytest.param(job("example.com/backup"), "2026-03-01T10:05:30Z", (GOES, False), id="a finalizer, in time"),
        pytest.param(job("example.com/backup"), "2026-03-01T10:05:31Z", (FINALIZER, True), id="a finalizer, overdue"),
        pytest.param(
            job("foregroundDeletion", "example.com/backup"), "2026-03-01T11:00:00Z", (FINALIZER, True), id="of others"
        ),
        pytest.param(job("foregroundDeletion"), "2026-03-01T11:00:00Z", (PODS, True), id="pods that do not end"),
        pytest.param(job("foregroundDeletion", grace=3600), "2026-03-01T11:04:00Z", (GOES, False), id="a long grace"),
        pytest.param(job(deleted=None), "2026-03-01T11:00:00Z", (GOES, False), id="no time is known"),
    ],
)
def test_what_is_said_of_a_deletion(manifest: Manifest, now: str, expected: tuple[str, bool]) -> None:
    """A node that is away for a while is no reason to call a person, a finalizer that nobody takes away is."""
    assert going(manifest, now) == expected
