"""The task hash: what is a new version of a job, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.task import parse_task_file

BASE = """\
# a job
name: train
resources:
  cpus: 4
  memory: 16
  accelerators: {H100: 8}
  priority_class: high
envs:
  SEED: 42
  LR: 2e-5
run: |
  echo a
  echo b
config:
  kubernetes:
    pod_config: {spec: {nodeSelector: {a: b}, tolerations: }}
"""
ANNOTATIONS = "    custom_metadata:\n      annotations:\n"


def hash_of(text: str) -> str:
    file = parse_task_file("jobs/a.yaml", text.encode())
    assert file.task is not None, file.problems
    return file.task.task_hash


def test_the_hash_is_what_it_was() -> None:
    """A hash that changes with a release would run every job again: this figure must never change."""
    assert hash_of("run: echo hi\nenvs: {B: 1, A: é}\n") == (
        "5defbb54a3c0c2cf39da8ae1611219125c9c754a84419a8bb32c40949296d792"
    )


def test_the_hash_of_secrets_is_what_it_was() -> None:
    """By name, as a mapping has them; a list of references says the same."""
    mapping, with_values, listed = (
        hash_of(f"run: echo hi\nsecrets: {secrets}\n")
        for secrets in ("{HF: null, B: }", "{B: x, HF: y}", "[secrets:HF, secrets:B]")
    )

    assert mapping == with_values == listed == "76d68f388bafc04686e59f799c04d327bcbea324c37e8556be7fdc1fe9f61aa3"
    assert listed != hash_of("run: echo hi\nsecrets: [secrets:HF]\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("# a job\n", "", id="comment"),
        pytest.param("name: train\n", "", id="no-name"),
        pytest.param("name: train\n", "name: other\n", id="another-name"),
        pytest.param("  cpus: 4\n  memory: 16\n", "  memory: 16\n  cpus: 4\n", id="order-of-keys"),
        pytest.param("cpus: 4", 'cpus: "4"', id="quotes-around-a-size"),
        pytest.param("SEED: 42", "SEED: '42'", id="quotes-around-a-variable"),
        pytest.param("priority_class: high", '"priority_class": "high"', id="quotes-around-text"),
        pytest.param("run: |\n  echo a\n  echo b\n", 'run: "echo a\\necho b\\n"\n', id="style-of-a-block"),
        pytest.param("{H100: 8}", "\n    H100: 0x8", id="style-of-a-mapping"),
        pytest.param("\n", "\r\n", id="crlf"),
        pytest.param("# a job\n", "\ufeff", id="byte-order-mark"),
        pytest.param("envs:", "num_nodes:\nsecrets: {}\nsetup: ~\nenvs:", id="null-and-empty-sections"),
        pytest.param("  cpus", "  image_id:\n  labels: {}\n  cpus", id="null-and-empty-resources"),
        pytest.param("  cpus", "  job_recovery: {strategy: }\n  cpus", id="empty-job-recovery"),
        pytest.param("  cpus", "  priority: 5\n  cpus", id="skypilot's-priority"),
        pytest.param("config:\n", "config:\n  hooks:\n", id="null-in-config"),
        pytest.param(
            "    pod_config", ANNOTATIONS + "        job-reconciler/suspend: 'true'\n    pod_config", id="suspend"
        ),
        pytest.param(
            "    pod_config",
            ANNOTATIONS + "        job-reconciler/timeout: 2h\n        job-reconciler/secret: s\n    pod_config",
            id="our-other-annotations",
        ),
        pytest.param("    pod_config", "    custom_metadata: {annotations: }\n    pod_config", id="no-annotations"),
    ],
)
def test_no_new_version(old: str, new: str) -> None:
    """Equal spellings, names and our own annotations make no new version."""
    assert old in BASE
    assert hash_of(BASE.replace(old, new)) == hash_of(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("echo a", "echo c", id="run"),
        pytest.param("run:", "setup: x\nrun:", id="setup"),
        pytest.param("SEED: 42", "SEED: 43", id="variable"),
        pytest.param("SEED: 42", "SEED: 042", id="text-of-a-variable"),
        pytest.param("SEED: 42", "SEED: 42\n  NEW: ''", id="empty-variable"),
        pytest.param("cpus: 4", "cpus: 5", id="cpus"),
        pytest.param("memory: 16", "memory: 16GB", id="another-word-for-the-same-size"),
        pytest.param("priority_class: high", "priority_class: low", id="priority-class"),
        pytest.param("  priority_class: high\n", "", id="no-priority-class"),
        pytest.param("a: b", "a: c", id="pod-config"),
        pytest.param(", tolerations: ", "", id="null-in-pod-config"),
        pytest.param("    pod_config", ANNOTATIONS + "        mine: x\n    pod_config", id="an-annotation"),
        pytest.param("    pod_config", ANNOTATIONS + "        job-reconciler/rerun: 2\n    pod_config", id="rerun"),
    ],
)
def test_new_version(old: str, new: str) -> None:
    """What changes the job, or asks for another run, is a new version."""
    assert old in BASE
    assert hash_of(BASE.replace(old, new)) != hash_of(BASE)


def test_rerun_counts_by_its_text() -> None:
    """Quotes around the number don't matter; another number does."""
    first, same, other = (
        hash_of(BASE + ANNOTATIONS + f"        job-reconciler/rerun: {text}\n") for text in ("2", '"2"', "3")
    )

    assert first == same
    assert first != other


def test_priority_within_an_alternative_does_not_count() -> None:
    """SkyPilot's integer is left out wherever it stands, and sizes there count by their text too."""
    plain, other = (
        f"run: x\nresources: {{any_of: [{{{fields}}}]}}\n" for fields in ("cpus: 4", "cpus: '4', priority: 1")
    )

    assert hash_of(plain) == hash_of(other)


NAMES = st.text(alphabet="ABC_", min_size=1, max_size=4).filter(lambda name: name != "_")
TASKS = st.fixed_dictionaries(
    {"run": st.text(alphabet="ab \n\t'\"é$", min_size=1).filter(str.strip)},
    optional={
        "name": st.sampled_from(["a", "b"]),
        "envs": st.dictionaries(NAMES, st.text(alphabet="ab1.e-", max_size=5)),
        "num_nodes": st.integers(1, 3),
        "resources": st.fixed_dictionaries(
            {}, optional={"cpus": st.integers(1, 9), "priority_class": st.sampled_from(["x", "y"])}
        ),
    },
)


def shuffled(value: Any, data: st.DataObject) -> Any:
    if not isinstance(value, dict):
        return value
    keys = data.draw(st.permutations(list(value)))
    return {key: shuffled(value[key], data) for key in keys}


@given(task=TASKS, style=st.sampled_from([None, '"', "'", "|"]), flow=st.booleans(), data=st.data())
def test_spelling_never_counts(task: dict[str, Any], style: str | None, flow: bool, data: st.DataObject) -> None:  # noqa: FBT001
    """Whatever the order of keys, the quotes and the style of mappings: one task, one hash."""
    plain = pyyaml.safe_dump(task, allow_unicode=True)
    styled = pyyaml.safe_dump(shuffled(task, data), allow_unicode=True, default_flow_style=flow, sort_keys=False)
    texts = {"run": task["run"]} if style else {}
    quoted = "".join(pyyaml.safe_dump({key: text}, default_style=style) for key, text in texts.items())
    quoted = quoted.removesuffix("...\n")  # the end that a block with empty lines at its end gets
    rest = pyyaml.safe_dump({key: value for key, value in task.items() if key not in texts}) if len(task) > 1 else ""

    assert hash_of(styled + "\n# end\n") == hash_of(plain)
    assert not texts or hash_of(quoted + rest) == hash_of(plain)


@given(one=TASKS, other=TASKS)
def test_equal_hashes_mean_equal_tasks(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Only what is left out can differ under one hash."""

    def essence(task: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in task.items() if key != "name" and value != {}}

    same = hash_of(pyyaml.safe_dump(one)) == hash_of(pyyaml.safe_dump(other))

    assert same == (essence(one) == essence(other))


def test_the_values_of_secrets_are_in_no_hash() -> None:
    """Nobody can try out short ones on it; their names count, and so does nothing of what a workdir holds."""
    hashes = [hash_of(f"run: x\n{more}\n") for more in ("secrets: {A: }", "secrets: {A: s3cret}", "secrets: {A: 1234}")]

    assert len(set(hashes)) == 1
    assert hash_of("run: x\nsecrets: {B: }\n") not in hashes
    assert hash_of("run: x\nsecrets: {A: }\nworkdir: train\n") not in hashes
