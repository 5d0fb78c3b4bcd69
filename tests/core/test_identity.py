"""Which run a Job is, whatever somebody wrote on it."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.identity import Identity, identify, recorded_identities, strays
from reconciler.model import JOB_LABEL, OWNER_LABEL, RUN_LABEL, TASK_HASH, Document, Manifest

RECORDED = {"uid-3": Identity("train", 3, "H")}
OURS = Identity("train", 3, "H")


def job(name: str = "train-3", uid: str = "uid-3", task_hash: str | None = "H", **labels: str | None) -> Manifest:
    said = {"job": "train", "run": "3"} | labels
    keys = {"job": JOB_LABEL, "run": RUN_LABEL}
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "labels": {OWNER_LABEL: "us"} | {keys[key]: value for key, value in said.items() if value is not None},
            "annotations": {} if task_hash is None else {TASK_HASH: task_hash},
        }
    }


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        pytest.param({}, OURS, id="nothing edited"),
        pytest.param({"task_hash": "other"}, OURS, id="another task hash"),
        pytest.param({"task_hash": None}, OURS, id="no task hash"),
        pytest.param({"job": "other"}, OURS, id="another job"),
        pytest.param({"run": "7"}, OURS, id="another run"),
        pytest.param({"job": None, "run": None}, OURS, id="labels gone"),
    ],
)
def test_a_run_on_record_is_what_the_record_says(edited: dict[str, Any], expected: Identity) -> None:
    """By uid: nobody can give one Job the uid of another."""
    assert identify(job(**edited), RECORDED) == expected
    assert strays([job(**edited)], RECORDED) == ()


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        pytest.param({}, OURS, id="nothing edited"),
        pytest.param({"task_hash": "other"}, Identity("train", 3, "other"), id="another task hash stands"),
        pytest.param({"job": "other"}, None, id="another job"),
        pytest.param({"run": "7"}, None, id="another run"),
        pytest.param({"run": "03"}, Identity("train", 3, "H"), id="the same run in other digits"),
        pytest.param({"run": "latest"}, None, id="no number"),
        pytest.param({"run": "³"}, None, id="no number, though a digit"),
        pytest.param({"job": None}, None, id="job gone"),
        pytest.param({"run": None}, None, id="run gone"),
        pytest.param({"name": "other-3"}, None, id="another name"),
    ],
)
def test_a_run_that_is_not_on_record_is_what_name_and_labels_agree_on(
    edited: dict[str, Any], expected: Identity | None
) -> None:
    """The pass that made it may have died before it could write it down. What can't be told is a stray."""
    manifest = job(**edited)

    assert identify(manifest, {}) == expected
    assert strays([manifest], {}) == (() if expected else (manifest,))


def test_a_record_that_speaks_of_another_name_says_nothing() -> None:
    """Somebody edited the record: then nobody can tell."""
    assert identify(job(), {"uid-3": Identity("other", 3, "H")}) is None


def test_a_job_that_a_controller_made_is_its_business() -> None:
    """It may have its labels from us, by way of a template."""
    manifest = job(job=None)
    manifest["metadata"]["ownerReferences"] = [{"kind": "JobSet", "uid": "1", "controller": True}]

    assert strays([manifest], {}) == ()


def test_earlier_runs_are_on_record_too() -> None:
    run = {"number": 3, "task_hash": "H", "uid": "uid-3"}
    earlier = {"number": 2, "task_hash": "G", "uid": "uid-2", "state": "SUCCEEDED"}
    documents: list[Document] = [
        {"job": "train", "run": run, "runs": [earlier]},
        {"job": "other", "run": None, "runs": []},
    ]

    assert recorded_identities(documents) == RECORDED | {"uid-2": Identity("train", 2, "G")}
