"""What every cluster answers about objects."""

from __future__ import annotations

import base64
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.core.pod.delivery import CONFIG_MAP_LIMIT
from reconciler.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from reconciler.cluster.interface import Change
    from reconciler.model import Manifest
    from tests.cluster.contract.conftest import Where


def test_a_cluster_is_told_by_the_uid_of_kube_system(api: Where) -> None:
    assert api.cluster.uid() == api.cluster.get("Namespace", "kube-system")["metadata"]["uid"]
    assert api.cluster.uid() == api.cluster.uid()
    assert (bool(api.cluster.context), api.cluster.default_namespace) == (True, "default")


def test_create_returns_the_object_as_the_server_holds_it(api: Where) -> None:
    created = api.idle("train-1", team="a")

    assert api.get(created)["metadata"]["uid"] == created["metadata"]["uid"]
    assert {"resourceVersion", "creationTimestamp"} <= created["metadata"].keys()
    assert (created["kind"], created["spec"]["suspend"]) == ("Job", True)
    assert created["spec"]["successPolicy"] == {"rules": [{"succeededCount": 1}]}


def test_a_dry_run_leaves_nothing(api: Where) -> None:
    echo = api.cluster.create(api.job("train-1"), dry_run=True)

    assert (echo["spec"]["parallelism"], echo["spec"]["suspend"]) == (1, False)
    assert api.cluster.list("Job", namespace=api.namespace) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_name_can_be_given_once(api: Where, dry_run: bool) -> None:  # noqa: FBT001
    api.idle("train-1")

    with pytest.raises(AlreadyExists, match="already exists"):
        api.cluster.create(api.job("train-1"), dry_run=dry_run)


def test_what_is_not_there_is_not_found(api: Where) -> None:
    with pytest.raises(NotFound, match="not found"):
        api.cluster.get("Job", "train-1", namespace=api.namespace)


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_unknown_field_is_refused(api: Where, dry_run: bool) -> None:  # noqa: FBT001
    """The local cluster looks no deeper than a Job's spec."""
    job = api.job("train-1")

    with pytest.raises(Invalid, match=r'unknown field "spec\.suspendd"'):
        api.cluster.create(job | {"spec": job["spec"] | {"suspendd": True}}, dry_run=dry_run)
    with pytest.raises(Invalid, match='unknown field "valeu"'):
        api.cluster.create(api.priority_class("low", valeu=1), dry_run=dry_run)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param(None, ["eval-1", "train-1", "train-2"], id="all"),
        pytest.param("app=train", ["train-1", "train-2"], id="one label"),
        pytest.param("app=train,team=b", ["train-2"], id="two labels"),
        pytest.param("team", ["train-1", "train-2"], id="a key"),
        pytest.param("team!=a", ["eval-1", "train-2"], id="not equal"),
    ],
)
def test_labels_select(api: Where, labels: str | None, names: list[str]) -> None:
    api.idle("train-1", app="train", team="a")
    api.idle("train-2", app="train", team="b")
    api.idle("eval-1", app="eval")

    found = api.cluster.list("Job", namespace=api.namespace, labels=labels)

    assert sorted(job["metadata"]["name"] for job in found) == names
    assert {job["kind"] for job in found} == {"Job"}


def test_fields_and_namespaces_select(api: Where) -> None:
    api.idle("train-1")
    api.idle("train-2")
    named = api.cluster.list("Job", namespace=api.namespace, fields="metadata.name=train-2")

    assert [job["metadata"]["name"] for job in named] == ["train-2"]
    assert api.cluster.list("Job", namespace="default", fields="metadata.name=train-2") == []
    assert api.cluster.list("Event", namespace=api.namespace, fields="involvedObject.name=nobody") == []


def test_a_patch_is_merged(api: Where) -> None:
    job = api.settled(api.idle("train-1", team="a", app="train"))
    patched = api.cluster.patch(job, {"metadata": {"labels": {"team": None, "run": "2"}}})

    assert patched["metadata"]["labels"] == {"app": "train", "run": "2"}
    assert patched["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"]
    assert api.get(job)["metadata"]["labels"] == patched["metadata"]["labels"]


def test_a_patch_that_changes_nothing_changes_no_version(api: Where) -> None:
    job = api.settled(api.idle("train-1", team="a"))
    patched = api.cluster.patch(job, {"metadata": {"labels": {"team": "a"}}, "spec": {"suspend": True}})

    assert patched["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]


def test_a_patch_is_for_the_object_that_was_read(api: Where) -> None:
    job = api.settled(api.idle("train-1"))
    version = job["metadata"]["resourceVersion"]
    api.cluster.patch(job, {"metadata": {"labels": {"run": "2"}}})

    with pytest.raises(Conflict):
        api.cluster.patch(job, {"metadata": {"resourceVersion": version, "labels": {"run": "3"}}})
    with pytest.raises(Conflict):
        api.cluster.patch(
            job | {"metadata": job["metadata"] | {"uid": str(uuid.uuid4())}}, {"spec": {"suspend": False}}
        )
    with pytest.raises(NotFound, match="not found"):
        api.cluster.patch(job | {"metadata": job["metadata"] | {"name": "train-2"}}, {"spec": {"suspend": False}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"template": {"spec": {"priorityClassName": "other"}}}, id="template"),
        pytest.param({"podFailurePolicy": {"rules": []}}, id="podFailurePolicy"),
        pytest.param({"backoffLimitPerIndex": 3}, id="backoffLimitPerIndex"),
    ],
)
def test_a_job_cannot_become_another(api: Where, spec: Manifest) -> None:
    job = api.settled(api.idle("train-1"))

    with pytest.raises(Invalid, match="field is immutable"):
        api.cluster.patch(job, {"spec": spec})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(
            {"value": 1_000_000_001}, "maximum allowed value of a user defined priority is 1000000000", id="value"
        ),
        pytest.param({"preemptionPolicy": "Sometimes"}, "preemptionPolicy: Unsupported value", id="policy"),
    ],
)
def test_a_wrong_priority_class_is_refused(api: Where, wrong: Manifest, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        api.cluster.create(api.priority_class("low", **wrong), dry_run=True)


def test_the_prefix_of_the_system_is_reserved(api: Where) -> None:
    system = api.priority_class("low") | {"metadata": {"name": "system-mine"}}

    with pytest.raises(Invalid, match=r"metadata\.name: Forbidden: "):
        api.cluster.create(system, dry_run=True)


def test_a_priority_class_keeps_its_value_and_policy(api: Where) -> None:
    low = api.cluster.create(api.priority_class("low"))

    assert low["preemptionPolicy"] == "PreemptLowerPriority"
    with pytest.raises(Invalid, match="may not be changed in an update"):
        api.cluster.patch(low, {"value": 11})
    with pytest.raises(Invalid, match="field is immutable"):
        api.cluster.patch(low, {"preemptionPolicy": "Never"})
    assert api.cluster.patch(low, {"description": "words"})["description"] == "words"
    api.cluster.delete(api.get(low))
    assert api.gone(low)


def test_there_is_one_default_class(api: Where) -> None:
    first = api.cluster.create(api.priority_class("first", globalDefault=True))
    second = api.cluster.create(api.priority_class("second"))
    message = f"{first['metadata']['name']} is already marked as default. Only one default can exist"

    def refused() -> bool:
        with suppress(Forbidden):
            changed = api.cluster.patch(second, {"globalDefault": True})
            api.cluster.patch(changed, {"globalDefault": False})  # the server judges by a cache: it may be late
            return False
        return True

    api.until(refused)
    with pytest.raises(Forbidden, match=message):
        api.cluster.patch(second, {"globalDefault": True})
    api.cluster.patch(api.get(first), {"globalDefault": False})


def test_a_deletion_is_for_the_object_that_was_read(api: Where) -> None:
    job = api.settled(api.idle("train-1"))
    api.cluster.patch(job, {"metadata": {"labels": {"run": "2"}}})

    with pytest.raises(Conflict):
        api.cluster.delete(job)
    current = api.get(job)
    with pytest.raises(Conflict):
        api.cluster.delete(current | {"metadata": current["metadata"] | {"uid": str(uuid.uuid4())}})
    assert not api.gone(job)


@pytest.mark.parametrize("foreground", [True, False])
def test_what_is_gone_already_is_deleted(api: Where, foreground: bool) -> None:  # noqa: FBT001
    job = api.settled(api.idle("train-1"))
    api.cluster.delete(job, foreground=foreground)
    api.until(lambda: api.gone(job))

    api.cluster.delete(job, foreground=foreground)


def test_a_watch_tells_what_changes(api: Where) -> None:
    """From the call on, not from the first look at its answers."""
    old = api.settled(api.idle("train-1", app="train"))
    changes = api.cluster.watch("Job", namespace=api.namespace, labels="app=train", timeout=30)
    api.idle("train-2", app="train")
    api.idle("eval-1", app="eval")
    api.cluster.delete(old)
    seen: dict[str, Change] = {}
    for change in changes:
        seen[f"{change.type} {change.manifest['metadata']['name']}"] = change
        if {"ADDED train-2", "DELETED train-1"} <= seen.keys():
            break

    assert seen["ADDED train-2"].manifest["metadata"]["labels"] == {"app": "train"}
    assert not [key for key in seen if key.endswith("eval-1")]


def test_a_watch_tells_what_was_modified(api: Where) -> None:
    low = api.cluster.create(api.priority_class("low"))
    changes = api.cluster.watch("PriorityClass", timeout=30)
    api.cluster.patch(low, {"description": "words"})
    change = next(change for change in changes if change.manifest["metadata"]["name"] == low["metadata"]["name"])

    assert (change.type, change.manifest["description"]) == ("MODIFIED", "words")


def test_a_watch_ends(api: Where) -> None:
    assert list(api.cluster.watch("Job", namespace=api.namespace, timeout=1)) == []


def config_map(api: Where, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": api.namespace}, **fields}


def test_a_config_map_holds_a_mebibyte_of_what_it_holds(api: Where) -> None:
    """Neither base64 nor the names of keys count."""
    whole = base64.b64encode(b"\xff" * (CONFIG_MAP_LIMIT - 3)).decode()
    fits = config_map(api, "fits", binaryData={"a" * 200: whole}, data={"b": "é", "c": "x", "d": ""})
    created = api.cluster.create(fits)

    assert (created["binaryData"]["a" * 200], created["data"]) == (whole, {"b": "é", "c": "x", "d": ""})
    with pytest.raises(Invalid, match="Too long: may not be more than 1048576 bytes"):
        api.cluster.create(config_map(api, "larger", binaryData={"a": whole}, data={"b": "é", "c": "xx"}), dry_run=True)


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_what_a_run_needs_is_there_once_and_stays_as_it_is(api: Where, kind: str) -> None:
    manifest = config_map(api, "a-1", immutable=True) | {"kind": kind}
    content = base64.b64encode(b"x").decode()
    created = api.cluster.create(manifest | {"data": {"key": content}})

    assert api.get(created)["data"] == {"key": content}
    with pytest.raises(AlreadyExists):
        api.cluster.create(manifest, dry_run=True)
    with pytest.raises(Invalid, match="field is immutable when `immutable` is set"):
        api.cluster.patch(created, {"data": {"key": base64.b64encode(b"y").decode()}})


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_metadata_comes_without_the_rest(api: Where, kind: str) -> None:
    manifest = config_map(api, "a-1", data={"key": "eA=="}) | {"kind": kind}
    created = api.cluster.create(manifest | {"metadata": manifest["metadata"] | {"labels": {"team": "a"}}})
    found = api.cluster.get(kind, "a-1", namespace=api.namespace, metadata_only=True)

    assert "data" not in found
    assert (found["metadata"]["uid"], found["metadata"]["labels"]) == (created["metadata"]["uid"], {"team": "a"})
    with pytest.raises(NotFound):
        api.cluster.get(kind, "a-2", namespace=api.namespace, metadata_only=True)


@pytest.mark.parametrize("foreground", [True, False])
def test_what_a_job_owns_goes_with_it(api: Where, foreground: bool) -> None:  # noqa: FBT001
    job = api.settled(api.idle("a-1"))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a-1", "uid": job["metadata"]["uid"], "controller": True}
    created = []
    for kind in ("ConfigMap", "Secret"):
        manifest = config_map(api, "a-1", immutable=True) | {"kind": kind}
        metadata = manifest["metadata"] | {"ownerReferences": [owner]}
        created.append(api.cluster.create(manifest | {"metadata": metadata}))
    kept = api.cluster.create(config_map(api, "other"))
    api.cluster.delete(api.get(job), foreground=foreground)
    api.until(lambda: all(api.gone(each) for each in created))

    assert not api.gone(kept)
