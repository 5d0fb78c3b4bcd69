"""Names: what a job is called, and what Kubernetes and git let through."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.pod.delivery import FOLDER_VARIABLE
from reconciler.core.pod.supervisor import SUPERVISOR, SUPERVISOR_OF_A_RANK
from reconciler.core.schema.name_rules import (
    OUR_VARIABLES,
    is_branch,
    is_dns_label,
    is_image,
    is_label_key,
    is_label_value,
    job_name,
)


@pytest.mark.parametrize(
    ("path", "declared", "name"),
    [
        ("jobs/train.yaml", None, "train"),
        ("jobs/team/train.yaml", None, "team-train"),
        ("jobs/a b/C_d.e.YML", None, "a-b-c-d-e"),
        ("jobs/jobs/train.yml", None, "jobs-train"),
        ("train.yaml", None, "train"),
        ("jobs/x.yaml", "train_dws", "train-dws"),
        ("jobs/x.yaml", "llama3.1_8B_hsdp", "llama3-1-8b-hsdp"),
        ("jobs/x.yaml", "A--b..c", "a-b-c"),
        ("jobs/x.yaml", "-1a_", "1a"),
        ("jobs/x.yaml", "a" * 46, "a" * 46),
    ],
)
def test_job_name(path: str, declared: str | None, name: str) -> None:
    """The declared name, else the path below jobs/, becomes a DNS label (B53)."""
    assert job_name(path, declared) == name


@pytest.mark.parametrize(
    ("path", "declared", "message"),
    [
        ("jobs/x.yaml", "a" * 47, "47 characters; at most 46 leave room for what Kubernetes adds"),
        ("jobs/" + "a" * 47 + ".yaml", None, "47 characters; at most 46 .*; or write name: in the file"),
        ("jobs/x.yaml", "Größe-テスト", "name 'Größe-テスト' has 'ö' in it: use a-z"),
        ("jobs/größe.yaml", None, "the job is named after its path, and 'größe' has 'ö' in it: .*; or write name:"),
        ("jobs/x.yaml", "train-{job_id}", r"has '\{' in it"),
        ("jobs/x.yaml", "", "neither a letter nor a digit"),
        ("jobs/x.yaml", "a\n", "in it"),
        ("jobs/_.yaml", None, "neither a letter nor a digit"),
    ],
)
def test_no_job_name(path: str, declared: str | None, message: str) -> None:
    """A name that no rule makes a label is refused with the limit or the character; none is cut (B50)."""
    with pytest.raises(ValueError, match=message):
        job_name(path, declared)


@given(declared=st.text(alphabet="aB1-_. /") | st.text())
def test_every_job_name_is_a_label(declared: str) -> None:
    """What comes out fits, and naming it again changes nothing."""
    try:
        name = job_name("jobs/x.yaml", declared)
    except ValueError:
        return

    assert is_dns_label(name)
    assert len(name) <= 46
    assert job_name("jobs/x.yaml", name) == name


@pytest.mark.parametrize("text", ["", "a", "A.b_c-1", "a" * 63])
def test_label_value(text: str) -> None:
    """Empty is a value; letters and digits stand at the ends."""
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["-", "a-", "a b", "é", "a/b", "a" * 64, "a\n"])
def test_no_label_value(text: str) -> None:
    """Anything else is none."""
    assert not is_label_value(text)


@pytest.mark.parametrize(
    ("text", "fine"), [("a", True), ("a.io/b", True), ("/b", False), ("a/", False), ("A/b", False)]
)
def test_label_key(text: str, fine: object) -> None:
    """A key is a name, with a domain before a slash or without."""
    assert is_label_key(text) == fine


@pytest.mark.parametrize("text", ["main", "job-status", "feature/a.b", "none"])
def test_branch(text: str) -> None:
    """What git takes."""
    assert is_branch(text)


@pytest.mark.parametrize(
    "text",
    ["", "-a", "/a", "a/", "a..b", "a b", "a~1", "a:b", "a.lock", "a/.b", ".a", "@", "a@{1}", "a\\b", "a//b", "a."],
)
def test_no_branch(text: str) -> None:
    """What git refuses, or takes for something else."""
    assert not is_branch(text)


@given(text=st.text(alphabet="ab.-_/:@", max_size=60))
def test_image_answers_at_once(text: str) -> None:
    """No text makes the pattern search for long."""
    assert is_image(text * 10) in {True, False}


def test_all_variables_that_the_supervisor_goes_by_are_ours() -> None:
    """The programs name them; the folder of a run's files is where there is no kubelet."""
    programs = f"{SUPERVISOR} {SUPERVISOR_OF_A_RANK} {FOLDER_VARIABLE}"

    assert set(re.findall(r"\bJOB_[A-Z_]+", programs)) == OUR_VARIABLES
