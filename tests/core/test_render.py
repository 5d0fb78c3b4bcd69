"""A task becomes the Job of one run: whole manifests in tests/golden/render, and the decisions one by one here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.encoding import pod_template
from reconciler.core.pod.supervisor import SUPERVISOR, SUPERVISOR_OF_A_RANK, literal
from reconciler.core.render import RunIdentity, explain_template, namespace_of, priority_class_of, render_job
from reconciler.core.settings import parse_site
from reconciler.core.task import parse_task_file
from reconciler.model import (
    COMMIT,
    FILE,
    JOB_LABEL,
    OWNER_LABEL,
    RENDER_HASH,
    RUN_LABEL,
    SITE_HASH,
    TASK_HASH,
    Manifest,
    Problem,
    Severity,
    Site,
    Task,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "render"
CASES = sorted(path.name for path in GOLDEN.iterdir())
RUN = RunIdentity(number=3, owner="0123abcd", commit="c0ffee", context="east", namespace="research")


def task_of(text: str, path: str = "jobs/train.yaml") -> Task:
    file = parse_task_file(path, text.encode())
    assert file.task is not None, file.problems
    return file.task


def example(case: str) -> tuple[Task, Site]:
    files = {path.name: path.read_bytes() for path in (GOLDEN / case).iterdir()}
    site, problems = parse_site(files)
    assert problems == []
    return task_of(files["task.yaml"].decode(), f"jobs/{case}.yaml"), site


def rendered(task: Task | str, site: Site | None = None, run: RunIdentity = RUN) -> Manifest:
    job, problems = render_job(task_of(task) if isinstance(task, str) else task, site or Site(), run)
    assert job is not None, problems
    return job


def spec_of(job: Manifest) -> Manifest:
    spec: Manifest = pod_template(job)["spec"]
    return spec


def main_of(job: Manifest) -> Manifest:
    mains: list[Manifest] = [item for item in spec_of(job)["containers"] if item["name"] == "main"]
    assert len(mains) == 1
    return mains[0]


def env_of(job: Manifest) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main_of(job)["env"]}


def with_config(task: Task, **pod_spec: Any) -> Task:
    return dataclasses.replace(task, pod_config={"spec": pod_spec})


PLAIN = task_of("run: ./work\n")
GPU = task_of("run: ./work\nresources: {accelerators: H100}\n")


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, _text)


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, golden: Callable[[str, str], None]) -> None:
    """The whole manifest, the supervisor's text left out; the site's hash depends on our version."""
    task, site = example(case)
    job, problems = render_job(task, dataclasses.replace(site, site_hash="of the site"), RUN)
    assert job is not None
    assert (problems, task.warnings) == ([], ())
    args = main_of(job)["args"]
    assert args[0] == literal(SUPERVISOR if task.num_nodes == 1 else SUPERVISOR_OF_A_RANK)
    args[0] = "(the supervisor)"
    job["metadata"]["annotations"][RENDER_HASH] = "of all this"
    text = yaml.dump(job, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
    golden(f"render/{case}/job.yaml", text)


def test_the_same_input_gives_the_same_bytes_and_keeps_its_own() -> None:
    """Neither the task nor the site changes, and the manifest shares nothing with them or within itself."""
    task, site = example("site")
    before = repr((task, site))
    first, again = rendered(task, site), rendered(task, site)

    assert json.dumps(first) == json.dumps(again)
    for container in spec_of(first)["containers"]:
        container["env"].clear()
        container["volumeMounts"][0]["mountPath"] = "/changed"
    assert json.dumps(rendered(task, site)) == json.dumps(again)
    assert repr((task, site)) == before
    assert "&id" not in yaml.safe_dump(rendered(*example("training")))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({"path": "jobs/moved.yaml"}, True, id="the file moved"),
        pytest.param({"suspend": True}, True, id="suspended"),
        pytest.param({"run": "./other"}, False, id="another command"),
        pytest.param({"custom_metadata": {"labels": {"a": "b"}}}, False, id="another label"),
    ],
)
def test_the_render_hash_sees_what_the_run_would_notice(change: dict[str, Any], same: bool) -> None:  # noqa: FBT001
    def hash_of(job: Manifest) -> str:
        text: str = job["metadata"]["annotations"][RENDER_HASH]
        return text

    before = hash_of(rendered(PLAIN))

    assert (hash_of(rendered(dataclasses.replace(PLAIN, **change))) == before) is same
    assert hash_of(rendered(PLAIN, Site(site_hash="x"), dataclasses.replace(RUN, commit="beef"))) == before
    assert hash_of(rendered(PLAIN, Site(default_image="other"))) != before


def test_names_labels_and_annotations() -> None:
    job = rendered(task_of("run: x\nname: My_Train\n"), Site(site_hash="hash of the site"))

    labels = {JOB_LABEL: "my-train", RUN_LABEL: "3", OWNER_LABEL: "0123abcd"}
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == ("my-train-3", "research")
    assert job["metadata"]["labels"] == labels
    assert job["spec"]["template"]["metadata"] == {"labels": labels, "annotations": {}}
    annotations = job["metadata"]["annotations"]
    assert annotations[TASK_HASH] == task_of("run: x\nname: My_Train\n").task_hash
    assert (annotations[FILE], annotations[COMMIT]) == ("jobs/train.yaml", "c0ffee")
    assert annotations[SITE_HASH] == "hash of the site"
    assert annotations["job-reconciler/original-name"] == "My_Train"
    assert next(iter(annotations)) == "job-reconciler/about"
    assert (
        "kubectl wait --for=condition=complete --timeout=-1s --namespace=research job/my-train-3"
        in (annotations["job-reconciler/about"])
    )


def test_a_name_that_needs_no_change_has_no_annotation() -> None:
    assert "job-reconciler/original-name" not in rendered(PLAIN)["metadata"]["annotations"]
    named = rendered(task_of("run: x\nname: train\n"))
    assert "job-reconciler/original-name" not in named["metadata"]["annotations"]


def test_suspended() -> None:
    assert rendered(dataclasses.replace(PLAIN, suspend=True))["spec"]["suspend"] is True
    assert "suspend" not in rendered(PLAIN)["spec"]


def test_custom_metadata_goes_over_pod_config_and_onto_the_job() -> None:
    site = Site(
        pod_config={"metadata": {"labels": {"a": "pod", "b": "pod"}, "annotations": {"c": "pod"}}},
        custom_metadata={"labels": {"a": "custom"}, "annotations": {"d": "custom"}},
        contexts={"east": {"custom_metadata": {"annotations": {"d": None, "e": "east"}}}},
    )
    job = rendered(dataclasses.replace(PLAIN, resources=dataclasses.replace(PLAIN.resources, labels={"b": "r"})), site)

    of_pod = job["spec"]["template"]["metadata"]
    assert {key: of_pod["labels"].get(key) for key in "ab"} == {"a": "custom", "b": "pod"}
    assert of_pod["annotations"] == {"c": "pod", "e": "east"}
    assert {key: job["metadata"]["labels"].get(key) for key in "ab"} == {"a": "custom", "b": None}
    assert {key: job["metadata"]["annotations"].get(key) for key in "cde"} == {"c": None, "d": None, "e": "east"}


def test_variables() -> None:
    """What SkyPilot gives its jobs, then the task's own, literally."""
    task = task_of("run: x\nenvs: {A: $(B) $$, SKYPILOT_NODE_RANK: '7'}\nsecrets: [secrets:KEY]\n")

    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert env_of(rendered(task, Site(secret="s"))) == {
        "SKYPILOT_TASK_ID": "sky-managed-0123abcd_train_3-0",
        "JOB_GRACE_SECONDS": "30",
        "JOB_INDEX_FAILURES": {
            "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"}
        },
        "SKYPILOT_TASK_IDS": "sky-managed-0123abcd_train_3-0",
        "SKYPILOT_MANAGED_JOB_ID": "train-3",
        "SKYPILOT_NUM_NODES": "1",
        "SKYPILOT_NODE_RANK": "7",
        "SKYPILOT_NUM_GPUS_PER_NODE": "0",
        "SKYPILOT_SETUP_NODE_RANK": "0",
        "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": "0",
        "SKYPILOT_NODE_IPS": address,
        "SKYPILOT_SETUP_NODE_IPS": address,
        "A": "$$(B) $$$$",
        "KEY": {"secretKeyRef": {"name": "s", "key": "KEY", "optional": False}},
    }
    named = dataclasses.replace(task, secret="mine")
    assert env_of(rendered(named))["KEY"]["secretKeyRef"]["name"] == "mine"
    assert env_of(rendered(GPU))["SKYPILOT_NUM_GPUS_PER_NODE"] == "1"


def test_the_id_of_a_run_is_its_own() -> None:
    """Checkpoints are named by it, so it stays for all attempts of a run and never comes again."""
    others = [dataclasses.replace(RUN, number=4), dataclasses.replace(RUN, owner="other")]

    ids = [env_of(rendered(PLAIN, run=run))["SKYPILOT_TASK_ID"] for run in (RUN, *others)]
    assert len(set(ids)) == 3


def test_variables_of_pod_config_give_way_to_the_tasks() -> None:
    """As in SkyPilot, where they are exported inside the container. What a task says twice, it is told."""
    entries = [{"name": "A", "value": "pod"}, {"name": "B", "value": "1"}, {"name": "B", "value": "2"}]
    task = task_of("run: x\nenvs: {A: task}\n")
    config = {"spec": {"containers": [{"env": entries}]}}

    job, problems = render_job(task, Site(pod_config=config), RUN)
    assert job is not None
    assert ({key: env_of(job)[key] for key in "AB"}, problems) == ({"A": "task", "B": "2"}, [])

    job, (problem,) = render_job(dataclasses.replace(task, pod_config=config), Site(), RUN)
    assert job is not None
    assert {key: env_of(job)[key] for key in "AB"} == {"A": "task", "B": "2"}
    assert (problem.severity, problem.code) == (Severity.WARNING, "overridden")
    assert problem.field == "config.kubernetes.pod_config.spec.containers"
    assert problem.message == (
        "layer task: variable A is set outside pod_config too, in envs, secrets or by us, and that one counts"
    )


@pytest.mark.parametrize("name", [None, "main", "ray-node", "skypilot-node"])
def test_the_main_container_by_all_its_names(name: str | None) -> None:
    """Files written for SkyPilot, of any version, mean the job's own container by these."""
    patch = {"securityContext": {"privileged": True}} | ({"name": name} if name else {})
    job = rendered(with_config(PLAIN, containers=[patch]))

    assert main_of(job)["securityContext"] == {"privileged": True}
    assert len(spec_of(job)["containers"]) == 1


def test_layers_of_different_names_for_the_main_container_meet() -> None:
    site = Site(
        pod_config={"spec": {"containers": [{"name": "ray-node", "env": [{"name": "A", "value": "1"}]}]}},
        contexts={"east": {"pod_config": {"spec": {"containers": [{"name": "skypilot-node", "tty": True}]}}}},
    )
    main = main_of(rendered(with_config(PLAIN, containers=[{"stdin": True}]), site))

    assert (main["tty"], main["stdin"], main["env"][0]) == (True, True, {"name": "A", "value": "1"})


CLASSES: dict[str, Manifest] = {
    "global": {"spec": {"priorityClassName": "g"}},
    "context": {"spec": {"priorityClassName": "c"}},
    "null": {"spec": {"priorityClassName": None}},
    "none": {"spec": {}},
}


@pytest.mark.parametrize(
    ("task", "context", "of_site", "expected"),
    [
        pytest.param(None, "none", "none", None, id="nobody"),
        pytest.param(None, "none", "global", "g", id="global"),
        pytest.param(None, "context", "global", "c", id="context over global"),
        pytest.param("t", "context", "global", "t", id="task over all"),
        pytest.param(None, "null", "global", None, id="cleared in the context"),
        pytest.param("t", "null", "global", "t", id="task over what is cleared"),
    ],
)
def test_priority_class(task: str | None, context: str, of_site: str, expected: str | None) -> None:
    site = Site(pod_config=CLASSES[of_site], contexts={"east": {"pod_config": CLASSES[context]}})
    job = rendered(dataclasses.replace(PLAIN, priority_class=task), site)

    assert priority_class_of(dataclasses.replace(PLAIN, priority_class=task), site, "east") == expected
    assert spec_of(job).get("priorityClassName") == expected
    assert job["spec"]["template"]["metadata"]["annotations"].get("skypilot-priority-class") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("task", "context", "sky", "own", "kubeconfig"), "task"),
        ((None, "context", "sky", "own", "kubeconfig"), "context"),
        ((None, None, "sky", "own", "kubeconfig"), "sky"),
        ((None, None, None, "own", "kubeconfig"), "own"),
        ((None, None, None, None, "kubeconfig"), "kubeconfig"),
        ((None, None, None, None, None), "default"),
    ],
)
def test_namespace(said: tuple[str | None, ...], expected: str) -> None:
    task, context, sky, own, default = said
    site = Site(sky_namespace=sky, namespace=own, contexts={"east": {"namespace": context} if context else {}})

    assert namespace_of(dataclasses.replace(PLAIN, namespace=task), site, "east", default) == expected


@pytest.mark.parametrize(
    ("of_site", "of_task", "limits"),
    [
        pytest.param(None, None, None, id="none"),
        pytest.param(1.0, None, {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi"}, id="the same"),
        pytest.param(1.5, None, {"cpu": "750m", "memory": "1536Mi", "ephemeral-storage": "15Gi"}, id="more"),
        pytest.param(1.1, None, {"cpu": "550m", "memory": "1127Mi", "ephemeral-storage": "11Gi"}, id="rounded up"),
        pytest.param(1.5, 0.0, None, id="off for this task"),
        pytest.param(None, 2.0, {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "20Gi"}, id="for this task"),
    ],
)
def test_limits(of_site: float | None, of_task: float | None, limits: dict[str, str] | None) -> None:
    task = task_of("run: x\nresources: {cpus: 0.5, memory: 1, disk_size: 10}\n")
    task = dataclasses.replace(task, set_pod_resource_limits=of_task)

    resources = main_of(rendered(task, Site(set_pod_resource_limits=of_site)))["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "10Gi"}
    assert resources.get("limits") == limits


def test_gpus() -> None:
    """Requested and limited, as Kubernetes wants it; tolerated, as their nodes are tainted; of the right model."""
    spec = spec_of(rendered(dataclasses.replace(GPU, set_pod_resource_limits=1.0)))

    resources = spec["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert resources["limits"] == resources["requests"]
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "NVIDIA-H100-PCIe" in json.dumps(spec["affinity"]["nodeAffinity"])
    assert "affinity" not in spec_of(rendered(PLAIN))


def test_gpu_pods_prefer_nodes_where_gpus_are_in_use() -> None:
    """As in SkyPilot, whose own pods count too: else jobs of one GPU each would leave no node whole."""
    template = rendered(GPU)["spec"]["template"]

    (preferred,) = template["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"] == {
        "labelSelector": {"matchExpressions": [{"key": "skypilot-binpack", "operator": "In", "values": ["gpu"]}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert template["metadata"]["labels"]["skypilot-binpack"] == "gpu"


def test_null_lets_a_site_select_gpu_nodes_in_its_own_way() -> None:
    spec = spec_of(rendered(with_config(GPU, affinity={"nodeAffinity": None}, nodeSelector={"gpu": "h100"})))

    assert (list(spec["affinity"]), spec["nodeSelector"]) == (["podAffinity"], {"gpu": "h100"})


@pytest.mark.parametrize(
    ("accelerators", "message"),
    [
        pytest.param(
            "{H100, MI300X}",
            "MI300X is left out: a pod asks for GPUs of one maker, and H100 comes first",
            id="two makers",
        ),
        pytest.param(
            "X9000",
            "X9000 is not a name of a GPU that is known here: the job waits for a node whose labels call it so, "
            "such as skypilot.co/accelerator=x9000",
            id="an unknown model",
        ),
    ],
)
def test_gpus_that_are_not_quite_what_was_asked_for(accelerators: str, message: str) -> None:
    job, (problem,) = render_job(task_of(f"run: x\nresources: {{accelerators: {accelerators}}}\n"), Site(), RUN)

    assert job is not None
    assert (problem.severity, problem.field, problem.message) == (
        Severity.WARNING,
        "resources.accelerators",
        message,
    )


@pytest.mark.parametrize(
    ("spec", "token"),
    [
        pytest.param({}, False, id="no account"),
        pytest.param({"serviceAccountName": "worker"}, None, id="an account of its own"),
        pytest.param({"automountServiceAccountToken": True}, True, id="asked for"),
        pytest.param({"automountServiceAccountToken": None}, None, id="left to the account"),
    ],
)
def test_no_job_gets_a_token_that_it_has_not_asked_for(spec: dict[str, Any], token: bool | None) -> None:  # noqa: FBT001
    assert spec_of(rendered(with_config(PLAIN, **spec))).get("automountServiceAccountToken") is token


def test_a_field_that_is_null_is_left_out() -> None:
    site = Site(pod_config={"spec": {"nodeSelector": {"a": "b"}, "dnsPolicy": "None"}})
    spec = spec_of(rendered(with_config(PLAIN, nodeSelector=None), site))

    assert (spec.get("nodeSelector", "absent"), spec["dnsPolicy"]) == ("absent", "None")


def test_a_time_limit_is_kept_by_the_supervisor() -> None:
    """Not by activeDeadlineSeconds, which would count a recovery."""
    job = rendered(dataclasses.replace(PLAIN, timeout_seconds=7200))

    assert main_of(job)["args"][-1] == "7200"
    assert "activeDeadlineSeconds" not in json.dumps(job)


def problems_of(task: Task, site: Site | None = None) -> list[Problem]:
    job, problems = render_job(task, site or Site(), RUN)
    assert (job is None) == any(problem.severity is Severity.ERROR for problem in problems)
    return problems


POD = "config.kubernetes.pod_config."
ENV = {"name": "A", "value": "1"}


@pytest.mark.parametrize(
    ("of_site", "of_task", "code", "field", "message"),
    [
        pytest.param(
            {},
            {"restartPolicy": "OnFailure"},
            "unsupported-field",
            POD + "spec.restartPolicy",
            "layer task: restartPolicy must be Never: the Job makes a new pod",
            id="another restartPolicy",
        ),
        pytest.param(
            {},
            {"restartPolicy": None},
            "unsupported-field",
            POD + "spec.restartPolicy",
            "layer task: restartPolicy must be Never: the Job makes a new pod",
            id="no restartPolicy",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 60},
            {},
            "unsupported-field",
            "kubernetes.pod_config.spec.activeDeadlineSeconds",
            "layer global (.sky.yaml): an expired pod would look interrupted and come back; "
            "write job-reconciler/timeout",
            id="a deadline of the pod",
        ),
        pytest.param(
            {},
            {"containers": [{"command": ["sleep"]}]},
            "unsupported-field",
            POD + "spec.containers[0].command",
            "layer task: what starts in the container main watches over the job; write setup and run",
            id="another command",
        ),
        pytest.param(
            {},
            {"containers": [{"args": None}]},
            "unsupported-field",
            POD + "spec.containers",
            "layer task: what starts in the container main watches over the job; write setup and run",
            id="no args",
        ),
        pytest.param(
            {},
            {"containers": [{"restartPolicy": "Always"}]},
            "unsupported-field",
            POD + "spec.containers[0].restartPolicy",
            "layer task: a container main that restarts in place would not be counted; leave restartPolicy out",
            id="a container that restarts in place",
        ),
        pytest.param(
            {},
            {"containers": [{"terminationMessagePath": "/tmp/log"}]},
            "unsupported-field",
            POD + "spec.containers[0].terminationMessagePath",
            "layer task: /dev/termination-log is where the job's phase is written; leave terminationMessagePath out",
            id="another termination log",
        ),
        pytest.param(
            {},
            {"containers": None},
            "no-main-container",
            POD + "spec.containers",
            "layer task: the container main, which runs the job, is gone",
            id="no containers",
        ),
        pytest.param(
            {},
            {"containers": [{"name": None}]},
            "no-main-container",
            POD + "spec.containers",
            "layer task: the container main, which runs the job, is gone",
            id="null for the name erases it",
        ),
        pytest.param(
            {},
            {"containers": [{"name": "Main", "resources": {}}]},
            "no-image",
            POD + "spec.containers[0]",
            "layer task: container 'Main' has no image; to change the job's own, leave its name out or write main",
            id="a container that nobody meant as a sidecar",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "i"}]},
            {"initContainers": [{"image": "x"}]},
            "missing-value",
            POD + "spec.initContainers[0].name",
            "layer task: spec.initContainers[1].name is missing",
            id="an init container without a name",
        ),
        pytest.param(
            {"volumes": [{"name": "d", "emptyDir": {}}]},
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]},
            "two-sources",
            POD + "spec.volumes[0]",
            "layer task: volume 'd' has 2 sources after the merge (emptyDir, persistentVolumeClaim): "
            "set the one from below to null",
            id="a volume of two kinds",
        ),
        pytest.param(
            {"containers": [{"env": [ENV]}]},
            {"containers": [{"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]},
            "two-sources",
            POD + "spec.containers[0].env[0]",
            "layer task: variable 'A' of container 'main' has a value and a valueFrom after the merge: "
            "set the one from below to null",
            id="a variable with two sources",
        ),
        pytest.param(
            {"containers": [{"ports": [{"name": "x", "containerPort": 53}]}]},
            {"containers": [{"ports": [{"name": "x", "containerPort": 54}]}]},
            "duplicate-name",
            POD + "spec.containers[0].ports",
            "layer task: container 'main' has 2 ports named 'x'",
            id="two ports of one name",
        ),
        pytest.param(
            {"containers": [{"volumeMounts": [{"name": "data", "mountPath": "/data"}]}]},
            {},
            "no-volume",
            "kubernetes.pod_config.spec.containers[0].volumeMounts[0]",
            "layer global (.sky.yaml): container 'main' mounts the volume 'data', which spec.volumes doesn't have",
            id="a mount of nothing",
        ),
        pytest.param(
            {},
            {"nodeSelector": {"gpu": True}},
            "wrong-type",
            POD + "spec.nodeSelector.gpu",
            "layer task: spec.nodeSelector.gpu must be text, not true or false: write it in quotes",
            id="a nodeSelector that is no text",
        ),
        pytest.param(
            {"initContainers": [{"name": "a", "image": "a"}]},
            {"containers": [{"name": "a", "image": "b"}]},
            "duplicate-name",
            "kubernetes.pod_config.spec.initContainers[0].name",
            "layer global (.sky.yaml): two containers of the pod are called 'a'",
            id="two containers of one name",
        ),
        pytest.param(
            {"containers": [{"name": "proxy", "image": "p"}]},
            {"containers": [{"name": "proxy", "ports": [{"name": "http"}]}]},
            "missing-value",
            POD + "spec.containers[0].ports[0].containerPort",
            "layer task: spec.containers[1].ports[0].containerPort is missing",
            id="a port without its number, in the layer's own numbering",
        ),
        pytest.param(
            {},
            {"containers": [{"env": {"A": "1"}}]},
            "pod-config-conflict",
            POD + "spec.containers[0].env",
            "layer task gives a mapping where the rendered pod has a list: "
            "give the same type in both, or null to clear it",
            id="variables in another form",
        ),
        pytest.param(
            {"nodeSelector": None},
            {"nodeSelector": {"a": "b"}},
            "pod-config-conflict",
            POD + "spec.nodeSelector",
            "layer task gives a mapping where layer global (.sky.yaml) has null: take that null out",
            id="onto null",
        ),
    ],
)
def test_what_the_merge_breaks(
    of_site: dict[str, Any], of_task: dict[str, Any], code: str, field: str, message: str
) -> None:
    (problem,) = problems_of(with_config(PLAIN, **of_task), Site(pod_config={"spec": of_site}))

    assert (problem.code, problem.field, problem.message) == (code, field, message)
    assert problem.path == "jobs/train.yaml"


def test_a_source_that_is_set_to_null_makes_room_for_another() -> None:
    site = Site(pod_config={"spec": {"volumes": [{"name": "d", "emptyDir": {}}]}})
    claim = {"name": "d", "emptyDir": None, "persistentVolumeClaim": {"claimName": "c"}}

    job = rendered(with_config(PLAIN, volumes=[claim]), site)
    assert spec_of(job)["volumes"][1] == {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}


def test_variables_that_a_sidecar_has_twice() -> None:
    sidecar = {"name": "side", "image": "s", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}

    (problem,) = problems_of(with_config(PLAIN, containers=[sidecar]))
    assert problem.message == "layer task: container 'side' has variable 'A' 2 times; the last one counts"


def test_other_containers_end_with_the_job_unless_they_are_to_run_to_their_end() -> None:
    """Native sidecars, behind the init containers and in order; else a proxy would keep the job running for ever."""
    init, proxy, logs, upload = ({"name": name, "image": name} for name in ("init", "proxy", "logs", "upload"))
    containers = [proxy, upload | {"restartPolicy": "Never"}, logs | {"restartPolicy": "Always"}]
    spec = spec_of(rendered(with_config(PLAIN, initContainers=[init], containers=containers)))

    always = {"restartPolicy": "Always"}
    assert [container["name"] for container in spec["containers"]] == ["main", "upload"]
    assert spec["containers"][1] == upload
    assert spec["initContainers"] == [init, proxy | always, logs | always]


@pytest.mark.parametrize("name", ["runtimeClassName", "priorityClassName"])
def test_an_empty_class_is_none(name: str) -> None:
    """SkyPilot's way to switch off what a lower layer has set."""
    job = rendered(with_config(PLAIN, **{name: ""}), Site(pod_config={"spec": {name: "nvidia"}}))

    assert name not in spec_of(job)


def test_volumes() -> None:
    """One volume for each source, in the order of the file, mounted where the keys say."""
    text = """
run: x
envs: {SET: imagenet}
volumes:
  /data: team-data
  /labels: {name: team-data, sub_path: "${SET}/labels"}
  /scratch/$SET: {size: 100GB, labels: {a: b}, config: {storage_class_name: fast, access_mode: ReadWriteMany}}
"""
    spec = spec_of(rendered(task_of(text)))

    claim = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "100Gi"}},
            "storageClassName": "fast",
        },
    }
    assert spec["volumes"][1:] == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "team-data"}},
        {"name": "volume-1", "ephemeral": {"volumeClaimTemplate": claim}},
    ]
    assert spec["containers"][0]["volumeMounts"][1:] == [
        {"name": "volume-0", "mountPath": "/data"},
        {"name": "volume-0", "mountPath": "/labels", "subPath": "imagenet/labels"},
        {"name": "volume-1", "mountPath": "/scratch/imagenet"},
    ]


IMAGES = "run: x\nresources: {image_id: {east: 'docker:a:1', k8s/west: b:2}%s}\n"


@pytest.mark.parametrize(
    ("infra", "context", "image"),
    [
        pytest.param("", "east", "a:1", id="of the cluster"),
        pytest.param("", "west", "b:2", id="of another cluster"),
        pytest.param(", infra: k8s/west", "east", "b:2", id="of the task's own context"),
        pytest.param("", "", "a:1", id="the first, where no cluster is known"),
        pytest.param("", "north", None, id="none"),
    ],
)
def test_images_by_context(infra: str, context: str, image: str | None) -> None:
    job, problems = render_job(task_of(IMAGES % infra), Site(), dataclasses.replace(RUN, context=context))

    assert (main_of(job)["image"] if job else None) == image
    assert [problem.message for problem in problems] == (
        [] if image else ["image_id names no image for the context north; it has east, west"]
    )


def test_a_container_without_a_name_may_patch_a_sidecar() -> None:
    """It does in SkyPilot too, and hardly anybody means it."""
    site = Site(pod_config={"spec": {"containers": [{"name": "logs", "image": "fluentd"}]}})
    problems = problems_of(with_config(PLAIN, containers=[{"tty": True}]), site)

    (problem,) = [problem for problem in problems if problem.code == "patches-sidecar"]
    assert problem.message == (
        "layer task: the container without a name changes 'logs', the first one of the layers below, "
        "and not the job's: write name: main"
    )


@pytest.mark.parametrize(
    ("site", "task", "field"),
    [
        pytest.param(
            Site(pod_config={"metadata": {"labels": {OWNER_LABEL: "me"}}}),
            PLAIN,
            "kubernetes.pod_config.metadata.labels.job-reconciler/owner",
            id="pod_config",
        ),
        pytest.param(
            Site(contexts={"east": {"custom_metadata": {"annotations": {TASK_HASH: "x"}}}}),
            PLAIN,
            "kubernetes.context_configs.east.custom_metadata.annotations.job-reconciler/task-hash",
            id="custom_metadata",
        ),
    ],
)
def test_our_labels_and_annotations_can_not_be_set(site: Site, task: Task, field: str) -> None:
    (problem,) = problems_of(task, site)

    assert (problem.severity, problem.code, problem.field) == (Severity.ERROR, "reserved", field)


def test_all_problems_are_reported_at_once() -> None:
    site = Site(custom_metadata={"labels": {"a": "b"}}, pod_config={"spec": {"restartPolicy": "Always"}})
    task = dataclasses.replace(with_config(GPU, activeDeadlineSeconds=1), custom_metadata={"labels": {"a": {}}})

    assert [problem.code for problem in problems_of(task, site)] == [
        "unsupported-field",
        "unsupported-field",
        "pod-config-conflict",
    ]


AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
FIELDS = st.sampled_from(
    ("name", "env", "volumes", "volumeMounts", "ports", "args", "labels", "matchExpressions", *AFFINITY)
)
SCALARS = st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "main", "ray-node", "x", RUN_LABEL])
JSON = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(FIELDS, v, max_size=3), max_leaves=20)
PARTS = st.sampled_from(["containers", "volumes", "affinity", "priorityClassName", "tolerations", "restartPolicy"])
LAYERS = st.fixed_dictionaries(
    {"spec": st.dictionaries(PARTS, JSON, max_size=3) | JSON},
    optional={"metadata": st.dictionaries(FIELDS, JSON) | JSON},
)


@given(LAYERS, LAYERS)
def test_whatever_a_layer_holds_it_is_a_job_or_a_problem(of_site: Manifest, of_task: Manifest) -> None:
    """Settings come from people: none may break the pass."""
    problems_of(dataclasses.replace(GPU, pod_config=of_task), Site(pod_config=of_site))


NAMES = st.sampled_from(["main", "proxy", "logs"])
TEXTS = st.sampled_from(["a", "b", "$(A) $$"])
ENTRIES = st.lists(st.fixed_dictionaries({"name": TEXTS, "value": TEXTS}), max_size=3)
CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES, "image": TEXTS},
    optional={"env": ENTRIES, "tty": st.none() | st.booleans(), "restartPolicy": st.sampled_from(["Always", "Never"])},
)
POSSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINERS, max_size=3, unique_by=lambda item: str(item["name"])),
        "tolerations": st.lists(st.fixed_dictionaries({"key": TEXTS}), max_size=2),
        "nodeSelector": st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
        "affinity": st.none() | st.just({"nodeAffinity": None}),
        "imagePullSecrets": st.lists(st.fixed_dictionaries({"name": TEXTS}), max_size=2),
    },
)


@settings(max_examples=50)
@given(POSSIBLE, POSSIBLE, POSSIBLE)
def test_rendering_is_a_function_of_its_input_which_it_leaves_alone(
    of_site: Manifest, of_context: Manifest, of_task: Manifest
) -> None:
    """The same bytes each time, whatever was rendered between, and no part of one Job in another."""
    site = Site(pod_config={"spec": of_site}, contexts={"east": {"pod_config": {"spec": of_context}}})
    task = with_config(GPU, **of_task)
    before = json.dumps([of_site, of_context, of_task])
    first, problems = render_job(task, site, RUN)
    text = json.dumps(first)
    if first:
        explain_template(task, site, RUN)
        for container in spec_of(first)["containers"]:
            container.clear()

    again, problems_again = render_job(task, site, RUN)
    assert (json.dumps(again), problems_again) == (text, problems)
    assert json.dumps([of_site, of_context, of_task]) == before
