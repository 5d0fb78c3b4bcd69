"""The Job controller's rules, as tables: the figures are those that a real controller of 1.35 gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cluster.local.lifecycle import FAILURES, TRACKING, format_indexes, judge, parse_indexes, step
from reconciler.core.encoding import counts, job_form
from reconciler.core.indexes import COMPLETION_INDEX
from reconciler.model import Manifest

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
START = datetime(2026, 1, 1, tzinfo=UTC)


def form(n: int = 0, *, recoveries: int = 1000, codes: tuple[int, ...] = ()) -> Manifest:
    return job_form(
        max_restarts_on_errors=n, max_recoveries=recoveries, recover_on_exit_codes=codes, main_container="main"
    )


def pod(index: int, failures: int, number: int, now: datetime) -> Manifest:
    return {
        "metadata": {
            "name": f"train-1-{index}-{number}",
            "namespace": "default",
            "creationTimestamp": now.isoformat(),
            "annotations": {COMPLETION_INDEX: str(index), FAILURES: str(failures)},
            "finalizers": [TRACKING],
        },
        "status": {"phase": "Pending"},
    }


@dataclass
class Story:
    """A Job and its pods, told step by step: the test is the kubelet, the scheduler and the clock."""

    spec: Manifest
    now: datetime = START
    pods: list[Manifest] = field(default_factory=list)
    job: Manifest = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.job = {"metadata": {"name": "train-1"}, "spec": self.spec}
        self.look()

    @property
    def status(self) -> Manifest:
        """Return the Job's status."""
        return dict(self.job["status"])

    @property
    def current(self) -> Manifest | None:
        """Return the pod that has not ended."""
        return next((pod for pod in self.pods if pod["status"]["phase"] in ("Pending", "Running")), None)

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """Return the Job's conditions as (type, status, reason)."""
        return [(c["type"], c["status"], c["reason"]) for c in self.status.get("conditions", ())]

    def look(self, *, may_create: bool = True) -> None:
        """Let the controller look, and look again: the second time there is nothing to do."""
        self._look(may_create=may_create)
        before = (self.job, list(self.pods))
        self._look(may_create=may_create)

        assert (self.job, self.pods) == before

    def _look(self, *, may_create: bool) -> None:
        decided = step(self.job, self.pods, self.now, may_create=may_create)
        for number, old in enumerate(self.pods):
            metadata = dict(old["metadata"])
            if metadata["name"] in decided.stop:
                metadata |= {"deletionTimestamp": self.now.isoformat(), "deletionGracePeriodSeconds": 0}
            if metadata["name"] in decided.release:
                metadata.pop("finalizers", None)
            self.pods[number] = old | {"metadata": metadata}
        if decided.create:
            self.made += 1
            self.pods.append(pod(*decided.create, self.made, self.now))
        self.job = self.job | {"status": decided.status}

    def end(self, code: int | None, *, disrupted: bool = False) -> None:
        """End the pod that runs, with its container's exit code or without any."""
        assert self.current is not None
        terminated = {"exitCode": code, "finishedAt": self.now.isoformat()}
        status: Manifest = {"phase": "Failed" if code or code is None else "Succeeded"}
        status |= {"conditions": [DISRUPTED]} if disrupted else {}
        status |= {} if code is None else {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
        number = self.pods.index(self.current)
        self.pods[number] = self.pods[number] | {"status": status}
        self.look()

    def wait_for_the_next_pod(self) -> int:
        """Let time pass until there is a pod again, and return how many seconds it took."""
        waited = 0
        while self.current is None:
            self.now += timedelta(seconds=1)
            waited += 1
            self.look()
        return waited


@pytest.mark.parametrize(
    ("n", "endings", "conditions", "failed", "recoveries"),
    [
        pytest.param(0, [3], ("FailureTarget", "Failed", "PodFailurePolicy"), 1, 0, id="an error"),
        pytest.param(0, [0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 0, 0, id="success"),
        pytest.param(0, ["x", 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 1, 1, id="preempted once"),
        pytest.param(0, ["x", 7], ("FailureTarget", "Failed", "PodFailurePolicy"), 2, 1, id="preempted, then an error"),
        pytest.param(0, [217, "x", 255, 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 3, 3, id="all kinds"),
        pytest.param(
            0, [None, 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 1, 1, id="refused by a kubelet"
        ),
        pytest.param(1, [3, 3], ("FailureTarget", "Failed", "MaxFailedIndexesExceeded"), 2, 0, id="N=1: two errors"),
        pytest.param(1, [3, 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 1, 0, id="N=1: one error"),
        pytest.param(1, ["x", 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 1, 1, id="N=1: preempted"),
        pytest.param(
            1, ["x", 7, "x", 7], ("FailureTarget", "Failed", "MaxFailedIndexesExceeded"), 4, 2, id="N=1: two of each"
        ),
        pytest.param(
            3, [7, 7, 7, 7], ("FailureTarget", "Failed", "MaxFailedIndexesExceeded"), 4, 0, id="N=3: four errors"
        ),
        pytest.param(3, [7, 7, 7, "x", 0], ("SuccessCriteriaMet", "Complete", "SuccessPolicy"), 4, 1, id="N=3: three"),
    ],
)
def test_endings_lead_to_an_outcome_and_a_count(
    n: int, endings: list[int | str | None], conditions: tuple[str, str, str], failed: int, recoveries: int
) -> None:
    """Each ending is an exit code; `x` is a preemption whose pod ends with 217."""
    story = Story(form(n))
    for ending in endings:
        story.wait_for_the_next_pod()
        story.end(217 if ending == "x" else ending, disrupted=ending == "x")  # type: ignore[arg-type]

    interim, final, reason = conditions
    assert story.conditions == [(interim, "True", reason), (final, "True", reason)]
    assert (story.status.get("failed", 0), counts(story.job).recoveries) == (failed, recoveries)
    assert ("completionTime" in story.status) == (final == "Complete")
    assert all("finalizers" not in pod["metadata"] for pod in story.pods)


@pytest.mark.parametrize(
    ("n", "codes", "endings", "waits"),
    [
        pytest.param(0, (), ["x", "x", 217, "x"], [0, 0, 10, 0], id="a new index starts at once, a retry waits"),
        pytest.param(0, (42,), [42, 42, 42], [10, 20, 40], id="a recover code waits ever longer at its index"),
        pytest.param(3, (), ["x", "x", "x", "x"], [10, 20, 40, 80], id="N > 0: preemptions wait"),
        pytest.param(3, (), ["x", 7, "x"], [10, 0, 10], id="N > 0: an error starts a new index, and its waits anew"),
        pytest.param(3, (), ["x"] * 8, [10, 20, 40, 80, 160, 320, 600, 600], id="up to ten minutes"),
    ],
)
def test_the_wait_for_the_next_attempt(
    n: int, codes: tuple[int, ...], endings: list[int | str], waits: list[int]
) -> None:
    story = Story(form(n, codes=codes))
    waited = []
    for ending in endings:
        story.end(217 if ending == "x" else int(ending), disrupted=ending == "x")
        waited.append(story.wait_for_the_next_pod())

    assert waited == waits
    assert counts(story.job).recoveries == len(endings) - endings.count(7)


def test_a_failed_pod_that_is_retried_is_counted_when_its_replacement_is_made() -> None:
    story = Story(form())
    story.end(217)
    before = story.status.get("failed", 0)
    tracked = [TRACKING in pod["metadata"].get("finalizers", ()) for pod in story.pods]
    story.wait_for_the_next_pod()

    assert (before, tracked, story.status["failed"]) == (0, [True], 1)


def test_no_pod_is_made_while_another_still_stops() -> None:
    """Two attempts never run side by side: podReplacementPolicy Failed."""
    story = Story(form())
    assert story.current is not None
    story.pods[0]["metadata"]["deletionTimestamp"] = story.now.isoformat()
    story.look()

    assert (len(story.pods), story.status["terminating"], story.status.get("active")) == (1, 1, None)


def test_what_admission_refuses_is_not_made_and_not_counted_until_it_is() -> None:
    story = Story(form(3))
    story.end(217, disrupted=True)
    story.now += timedelta(hours=1)
    story.look(may_create=False)
    waiting = (story.current, story.status.get("failed", 0))
    story.look()

    assert waiting == (None, 0)
    assert (story.current is not None, story.status["failed"]) == (True, 1)


def test_too_many_recoveries_fail_the_job() -> None:
    """The third was not recovered from."""
    story = Story(form(recoveries=2))
    for _ in range(3):
        story.end(217, disrupted=True)

    assert story.conditions[-1] == ("Failed", "True", "MaxFailedIndexesExceeded")
    assert (story.status["failed"], story.status["failedIndexes"], counts(story.job).recoveries) == (3, "0-2", 2)


def test_suspending_ends_the_pod_uncounted_and_resuming_starts_the_clock_anew() -> None:
    story = Story(form())
    story.end(217, disrupted=True)
    story.job = story.job | {"spec": story.spec | {"suspend": True}}
    story.look()
    suspended = (story.conditions, story.status["terminating"], story.status.get("active"))
    story.end(217)
    story.now += timedelta(minutes=1)
    story.job = story.job | {"spec": story.spec}
    story.look()

    assert suspended == ([("Suspended", "True", "JobSuspended")], 1, None)
    assert story.conditions == [("Suspended", "False", "JobResumed")]
    assert story.current is not None
    assert (story.status["failed"], story.status["startTime"]) == (1, "2026-01-01T00:01:00Z")
    assert story.current["metadata"]["annotations"][COMPLETION_INDEX] == "1"


def test_a_job_that_starts_suspended_has_no_pod_and_no_start() -> None:
    story = Story(form() | {"suspend": True})

    assert (story.pods, story.conditions) == ([], [("Suspended", "True", "JobSuspended")])
    assert "startTime" not in story.status


@pytest.mark.parametrize(
    ("spec", "codes", "condition"),
    [
        pytest.param({"completions": 2}, [0, 0], ("Complete", "CompletionsReached"), id="all indexes"),
        pytest.param({"completions": 1, "backoffLimitPerIndex": 0}, [1], ("Failed", "FailedIndexes"), id="one failed"),
        pytest.param({"completions": 2, "backoffLimit": 0}, [1], ("Failed", "BackoffLimitExceeded"), id="backoffLimit"),
        pytest.param(
            {"completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}},
            [0, 0],
            ("Complete", "SuccessPolicy"),
            id="the success of one index",
        ),
    ],
)
def test_other_forms_of_indexed_jobs(spec: Manifest, codes: list[int], condition: tuple[str, str]) -> None:
    story = Story({"backoffLimitPerIndex": 1, **spec})
    for code in codes:
        story.end(code)

    assert [(kind, reason) for kind, _, reason in story.conditions][-1] == condition


ON_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
ON_CODES = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3, 4]}}
ON_OTHERS = {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0, 5]}}


@pytest.mark.parametrize(
    ("name", "code", "disrupted", "expected"),
    [
        pytest.param("main", 3, True, ("Ignore", "Pod default/p has condition DisruptionTarget"), id="the first wins"),
        pytest.param(
            "main", 3, False, ("FailJob", "Container main for pod default/p failed with exit code 3"), id="In"
        ),
        pytest.param(
            "side", 3, False, ("FailIndex", "Container side for pod default/p failed"), id="another container"
        ),
        pytest.param("main", 9, False, ("FailIndex", "Container main for pod default/p failed"), id="NotIn"),
        pytest.param("main", 5, False, ("Count", ""), id="no rule"),
        pytest.param("main", None, False, ("Count", ""), id="no container state"),
    ],
)
def test_the_policy_for_a_failed_pod(name: str, code: int | None, disrupted: bool, expected: tuple[str, str]) -> None:  # noqa: FBT001
    state = {"terminated": {"exitCode": code}} if code else {"waiting": {}}
    status = {"containerStatuses": [{"name": name, "state": state}], "conditions": [DISRUPTED] if disrupted else []}
    policy = {"rules": [ON_DISRUPTION, ON_CODES, ON_OTHERS]}

    action, message = judge(policy, {"metadata": {"name": "p", "namespace": "default"}, "status": status})

    assert (action, message.startswith(expected[1])) == (expected[0], True)
    assert not message or f"matching {action} rule at index" in message


def test_what_is_ignored_is_not_counted_but_waits() -> None:
    story = Story({"completions": 1, "backoffLimitPerIndex": 9, "podFailurePolicy": {"rules": [ON_DISRUPTION]}})
    story.end(1, disrupted=True)

    assert (story.wait_for_the_next_pod(), story.status.get("failed")) == (10, None)


@pytest.mark.parametrize(
    ("text", "indexes"), [("", ()), ("0", (0,)), ("0,1", (0, 1)), ("0-2", (0, 1, 2)), ("0,2-4,9", (0, 2, 3, 4, 9))]
)
def test_indexes_are_written_as_kubernetes_does(text: str, indexes: tuple[int, ...]) -> None:
    assert (format_indexes(indexes), parse_indexes(text)) == (text, frozenset(indexes))


@given(st.sets(st.integers(0, 60)))
def test_indexes_survive_writing_and_reading(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes
