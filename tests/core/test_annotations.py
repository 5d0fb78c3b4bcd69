"""Annotations on their way through: from a task file to its Job, printed, and read again."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.render import RunIdentity, render_job
from reconciler.core.task import parse_task_file
from reconciler.core.yaml import parse_documents
from reconciler.core.yaml_output import dump_manifests
from reconciler.model import TASK_HASH, Site

RUN = RunIdentity(number=1, owner="team", commit="c" * 40, context="kind", namespace="default")
KEYS = st.sampled_from(["a", "on", "1", "a.b", "example.com/a", "example.com/b-c", "sub.example.com/A_b"])
TEXTS = st.text(max_size=20) | st.sampled_from(["true", "1.50", "0x10", "no", "~", "", "2024-01-31", "a: b", "{{ x }}"])


def job_of(annotations: dict[str, str]) -> dict[str, Any]:
    """Render a task with these annotations, print the Job, and read it again."""
    task = {"run": "x", "config": {"kubernetes": {"custom_metadata": {"annotations": annotations}}}}
    file = parse_task_file("jobs/a.yaml", dump_manifests([task]).encode())
    assert file.task is not None, file.problems
    job, problems = render_job(file.task, Site(), RUN)
    assert job is not None, problems
    (document,) = parse_documents(dump_manifests([job]), "job.yaml")[0]
    assert document.value == job
    return job


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(KEYS, TEXTS, max_size=4))
def test_annotations_come_through_and_stay(annotations: dict[str, str]) -> None:
    """Each text arrives as it was, on the Job and on its pods; what was read again gives the same Job."""
    job = job_of(annotations)
    on_job, on_pod = (place["metadata"]["annotations"] for place in (job, job["spec"]["template"]))
    read = {key: text for key, text in on_job.items() if key in annotations}

    assert read == annotations
    assert {key: text for key, text in on_pod.items() if key in annotations} == annotations
    assert job_of(read) == job
    assert len(on_job[TASK_HASH]) == 64
