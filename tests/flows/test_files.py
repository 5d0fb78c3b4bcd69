"""A workdir and file_mounts: a job has the files of the commit that started it, and its team hears of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.flows.conftest import Team

BINARY = bytes(range(256))
SCRIPT = """
basename "$PWD"
./main.sh one
./link two
md5sum <data/all.bin
cat ~/conf/name.txt given/name.txt
[ -x ~/conf/name.txt ] || echo plain
"""


def files(version: str) -> dict[str, str | bytes | None]:
    return {
        "train/main.sh": f'#!/bin/bash\necho "{version} $1"\n',
        "train/data/all.bin": BINARY,
        "train/empty": "",
        "conf/name.txt": "name\n",
    }


def test_a_job_has_the_files_of_the_commit_that_started_it(team: Team) -> None:
    """Executables, links and any bytes; later commits don't change it, but are told of, and a rerun takes them."""
    (team.folder / "train").mkdir()
    (team.folder / "train/link").symlink_to("main.sh")
    team.commit(files("first"))
    team.git(team.folder, "update-index", "--chmod=+x", "train/main.sh")
    (team.folder / "train/main.sh").chmod(0o755)
    task = team.task(SCRIPT, setup="test -f empty", workdir="train", file_mounts={"~/conf": "conf", "given": "conf"})
    team.commit({"jobs/train.yaml": task})
    team.reconcile()
    team.commit(files("second"))
    document = team.reach("train", "SUCCEEDED")
    rerun = task.replace(
        "kubernetes:\n", "kubernetes:\n    custom_metadata: {annotations: {job-reconciler/rerun: '2'}}\n"
    )

    expected = "sky_workdir\nfirst one\nfirst two\ne2c865db4162bed963bfaa9ef6ac18f0  -\nname\nname\nplain\n"
    assert team.log("train") == expected
    (problem,) = document["problems"]
    assert (problem["severity"], problem["code"], problem["field"]) == ("warning", "files-changed", "workdir")
    assert problem["message"].startswith("workdir changed since run 1: to run it with what there is now")
    assert 'rerun: "2" in jobs/train.yaml' in problem["message"]
    assert f"train: {problem['message']}" in team.run("queue").stderr
    assert team.reconcile().json["status_commit"] is None
    team.commit({"jobs/train.yaml": rerun})
    assert team.reach("train", "SUCCEEDED", problems=[])["run"]["number"] == 2
    assert team.log("train") == expected.replace("first", "second")
    assert sorted(item["metadata"]["name"].rpartition("-")[0] for item in ours(team)) == ["train-1", "train-2"]


def ours(team: Team) -> list[dict[str, dict[str, str]]]:
    return [item for item in team.live("ConfigMap") if item["metadata"]["name"].startswith("train-")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"workdir": "trian"}, "'trian' is no file of this commit", id="missing"),
        pytest.param(
            {"file_mounts": {"/etc/x": "conf"}}, "/etc/x would be written on this very machine", id="absolute"
        ),
        pytest.param({"workdir": "big"}, "has no remote that they could reach", id="too large, and nowhere to clone"),
        pytest.param({"workdir": {"url": "https://a.invalid/b"}}, "is cloned in one", id="a clone on this machine"),
    ],
)
def test_a_job_whose_files_cannot_come_to_it_is_held(local_team: Team, fields: dict[str, object], reason: str) -> None:
    """With the reason, and without a Job; its neighbour starts."""
    team = local_team
    task = team.task("true", **fields)  # type: ignore[arg-type]
    team.commit(
        {**files("a"), "big/x": b"x" * 1_100_000, "jobs/train.yaml": task, "jobs/other.yaml": team.task("true")}
    )
    ran = team.reconcile()

    assert ran.code == 3
    assert reason in ran.reason("train-1")
    assert team.jobs() == ["other-1"]
    assert team.queue()["train"]["state"] in ("PENDING", "INVALID")


def test_validate_sees_what_a_commit_would_lack(local_team: Team) -> None:
    """In the work tree as it stands: what git ignores is not there, what is not yet added is."""
    team = local_team
    team.commit({".gitignore": "out\n", "train/a": "", "jobs/train.yaml": team.task("true", workdir="train")})
    (team.folder / "train/link").symlink_to("../../outside")
    (team.folder / "new").mkdir()
    (team.folder / "out").mkdir()
    for name in ("new/a", "out/a"):
        (team.folder / name).write_text("")
    for name in ("new", "out"):
        (team.folder / f"jobs/{name}.yaml").write_text(team.task("true", workdir=name))
    found = team.run("validate", "-o", "json").json["files"]
    problems = {file["path"]: [p["message"] for p in file["problems"]] for file in found if file["problems"]}
    committed = team.run("validate", "--ref", "HEAD", "-o", "json").json

    assert problems.keys() == {"jobs/train.yaml", "jobs/out.yaml"}
    assert "train/link in train is a link that leads out of train" in problems["jobs/train.yaml"][0]
    assert "'out' is no file of this commit" in problems["jobs/out.yaml"][0]
    assert committed["ok"] is True


def test_a_script_that_is_too_long_for_arguments_runs_all_the_same(team: Team) -> None:
    """More than the kernel takes in one argument; a line number in a message is that of the script."""
    run = "#".ljust(200_000, "x") + '\nnonsense-command || echo "$0 end"'
    team.commit({"jobs/train.yaml": team.task(run)})
    team.reach("train", "SUCCEEDED")

    error, output = sorted(team.log("train").splitlines())  # of two pipes, whose order a runtime may change
    assert error.endswith("line 2: nonsense-command: command not found")
    assert output == "bash end"
