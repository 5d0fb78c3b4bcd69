"""How files and long scripts get into a pod: what is rendered, and what that does, by the real bash and git."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.core.git_tree import EXECUTABLE, REGULAR, SYMLINK
from reconciler.core.pod.delivery import (
    ARGUMENTS_LIMIT,
    CONFIG_MAP_LIMIT,
    RunFiles,
    deliver,
    owned_objects,
)
from reconciler.core.render import RunIdentity, render_job
from reconciler.core.repository_files import FileSet, PlacedFile
from reconciler.model import FileMount, GitWorkdir, Manifest, Site, Task, TreeEntry

if TYPE_CHECKING:
    from tests.conftest import Git, Repo

Build = Callable[..., Task]
SITE = Site()
RUN = RunIdentity(1, "owner", "c" * 40, "east", "research")
WORKDIR = FileMount("train", "~/sky_workdir", "workdir")
URL = "https://example.com/a"


def files_of(contents: dict[str, bytes], mode: str = REGULAR, url: str | None = URL) -> RunFiles:
    """Take these contents, by destination, to stand in a commit; a content's hash is its place."""
    placed = [
        PlacedFile(name.encode(), TreeEntry(mode, name, len(data), b"train/" + name.encode()), WORKDIR)
        for name, data in sorted(contents.items())
    ]
    return RunFiles(FileSet("c" * 40, (WORKDIR,), tuple(placed)), url)


def rendered(task: Task, files: RunFiles | None, site: Site = SITE) -> Manifest:
    job, problems = render_job(task, site, RUN, files)
    assert job is not None, problems
    return job


def spec_of(job: Manifest) -> Any:
    return job["spec"]["template"]["spec"]


def config_map_of(task: Task, files: RunFiles | None, contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return what the ConfigMap of a run holds."""
    (manifest,) = owned_objects(task, rendered(task, files), files, contents)
    binary = {key: base64.b64decode(text) for key, text in manifest.get("binaryData", {}).items()}
    return binary | {key: text.encode() for key, text in manifest.get("data", {}).items()}


def test_a_task_without_files_is_rendered_as_ever(task: Build) -> None:
    delivery = deliver(task(setup="true"), SITE, None, "train-1", [])

    assert (delivery.setup, delivery.run) == ("true", "python train.py")
    assert (delivery.volumes, delivery.mounts, delivery.init_containers) == ((), (), ())
    assert owned_objects(task(), rendered(task(), None), None, {}) == ()


def test_a_config_map_is_named_by_its_content_and_can_not_change(task: Build) -> None:
    contents = {"~/sky_workdir/a": b"text\n", "~/sky_workdir/b": b"\xff\0"}
    files = files_of(contents)
    job = rendered(task(workdir=WORKDIR, custom_metadata={"labels": {"team": "a"}}), files)
    (manifest,) = owned_objects(task(workdir=WORKDIR), job, files, contents)
    (volume,) = [v for v in spec_of(job)["volumes"] if "configMap" in v]
    other = rendered(task(workdir=WORKDIR), files_of({"~/sky_workdir/c": b"text\n"}))

    assert (manifest["kind"], manifest["immutable"]) == ("ConfigMap", True)
    assert manifest["metadata"]["name"] == volume["configMap"]["name"]
    assert manifest["metadata"]["labels"] == job["metadata"]["labels"]
    assert manifest["metadata"]["labels"]["team"] == "a"
    assert volume["configMap"]["name"] not in str(spec_of(other)["volumes"])
    assert (manifest["data"].keys(), manifest["binaryData"]) == ({"file-0", "place"}, {"file-1": "/wA="})


def test_text_that_escapes_would_make_too_long_is_sent_as_base64(task: Build) -> None:
    """A request may have 3 MiB: a MiB of these would have 6."""
    contents = {"~/sky_workdir/a": b"\x1b" * 100}
    files = files_of(contents)
    (manifest,) = owned_objects(task(workdir=WORKDIR), rendered(task(workdir=WORKDIR), files), files, contents)

    assert manifest["binaryData"].keys() == {"file-0"}


def test_files_come_to_their_places_as_they_were(task: Build, tmp_path: Path) -> None:
    """Whatever their names and contents: by bash, mkdir, cat, chmod and ln alone, and again over what is there."""
    odd = ["a", "sub/de ep/b", "it's", "-n", "$(x) `y` \\", "new\nline", "ünïcode", "..rc", "*"]
    contents = {f"~/sky_workdir/{name}": os.urandom(50) + name.encode() for name in odd}
    contents |= {"~/empty": b"", "~/no-end": b"\0no line end", f"{tmp_path}/abs/x": b"y\r\n"}
    entries = [PlacedFile(n.encode(), TreeEntry(EXECUTABLE, n, len(d), b"x"), WORKDIR) for n, d in contents.items()]
    raw = PlacedFile(b"~/sky_workdir/\xff", TreeEntry(REGULAR, "~/empty", 0, b"x"), WORKDIR)
    link = PlacedFile(b"~/sky_workdir/sub/l'ink", TreeEntry(SYMLINK, "l", 1, b"x"), WORKDIR, b"../it's")
    files = RunFiles(FileSet("c" * 40, (WORKDIR,), (*entries, raw, link)), URL)
    held = config_map_of(task(workdir=WORKDIR), files, contents)
    home, folder = tmp_path / "home", tmp_path / "volume"
    home.mkdir()
    folder.mkdir()
    for key, data in held.items():
        (folder / key).write_bytes(data)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("mkdir", "cat", "chmod", "ln"):
        (tools / name).symlink_to(f"/bin/{name}")
    for _ in range(2):
        command = ["/bin/bash", str(folder / "place"), str(folder)]
        subprocess.run(command, env={"HOME": str(home), "PATH": str(tools)}, cwd="/", check=True)

    for name, data in contents.items():
        place = Path(name.replace("~", str(home), 1))
        assert (place.read_bytes(), place.stat().st_mode & 0o111) == (data, 0o111), name
    assert (home / os.fsdecode(b"sky_workdir/\xff")).stat().st_mode & 0o111 == 0
    assert (home / "sky_workdir/sub/l'ink").readlink() == Path("../it's")


def test_the_limit_is_the_api_servers(task: Build) -> None:
    """1 MiB of contents and of the script that places them; base64 doesn't count. One byte more is cloned."""
    names = ["~/sky_workdir/a", "~/sky_workdir/b"]
    place = len(
        config_map_of(task(workdir=WORKDIR), files_of(dict.fromkeys(names, b"")), dict.fromkeys(names, b""))["place"]
    )
    room = CONFIG_MAP_LIMIT - place - 1
    fits = {names[0]: b"\xff" * room, names[1]: b"x"}
    larger = {names[0]: b"\xff" * room, names[1]: b"xx"}

    assert sum(map(len, config_map_of(task(workdir=WORKDIR), files_of(fits), fits).values())) == CONFIG_MAP_LIMIT
    assert owned_objects(task(workdir=WORKDIR), rendered(task(), files_of(larger)), files_of(larger), {}) == ()
    (clone,) = spec_of(rendered(task(workdir=WORKDIR), files_of(larger)))["initContainers"]
    assert (clone["name"], clone["image"]) == ("clone-repository", SITE.git_image)
    assert {"name": "CLONE_REF", "value": "c" * 40} in clone["env"]


def test_a_content_that_stands_twice_is_held_once(task: Build) -> None:
    entry = TreeEntry(REGULAR, "same", CONFIG_MAP_LIMIT // 2 + 1, b"x")
    placed = tuple(PlacedFile(f"~/{n}".encode(), entry, WORKDIR) for n in "ab")
    files = RunFiles(FileSet("c" * 40, (WORKDIR,), placed), None)

    assert config_map_of(task(), files, {"same": b"x"}).keys() == {"file-0", "place"}


def test_what_can_be_neither_packed_nor_cloned_is_refused(task: Build) -> None:
    large = files_of({"~/sky_workdir/a": b"x" * CONFIG_MAP_LIMIT}, url=None)
    job, problems = render_job(task(workdir=WORKDIR), SITE, RUN, large)

    assert (job, problems[0].field) == (None, "workdir")
    assert "this repository has no remote that they could reach" in problems[0].message


def test_scripts_beyond_the_arguments_limit_travel_in_the_config_map(task: Build) -> None:
    """The kernel takes 128 KiB an argument, and bash gets its script as one."""
    fits = task(run="x" * ARGUMENTS_LIMIT)
    long = task(run="x" * ARGUMENTS_LIMIT, setup="y")
    main = spec_of(rendered(long, None))["containers"][0]

    assert owned_objects(fits, rendered(fits, None), None, {}) == ()
    assert config_map_of(long, None, {}) == {"setup": b"y", "run": b"x" * ARGUMENTS_LIMIT}
    assert main["args"][2:] == [f'. "$${{JOB_FILES:-/run/job-reconciler}}/files/{name}"' for name in ("setup", "run")]


def test_copies_from_a_clone_beyond_the_limit_travel_in_the_config_map(task: Build, tmp_path: Path) -> None:
    """And do there what they would do as arguments."""
    mounts = tuple(FileMount("a", f"~/{'long' * 50}/{n}", f"file_mounts.{n}") for n in range(200))
    entry = TreeEntry(REGULAR, "a", CONFIG_MAP_LIMIT + 1, b"a")
    placed = tuple(PlacedFile(mount.destination.encode(), entry, mount) for mount in mounts)
    made, files = task(file_mounts=mounts), RunFiles(FileSet("c" * 40, mounts, placed), URL)
    held = config_map_of(made, files, {})
    main = spec_of(rendered(made, files))["containers"][0]
    (tmp_path / "files").mkdir()
    (tmp_path / "files/place").write_bytes(held["place"])
    (tmp_path / "clone/repository").mkdir(parents=True)
    (tmp_path / "clone/repository/a").write_text("content")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "JOB_FILES": str(tmp_path)}
    subprocess.run(["bash", "-c", main["args"][2].replace("$$", "$")], env=environ, cwd="/", check=True)

    assert held.keys() == {"place", "run"}
    assert max(map(len, main["args"])) < ARGUMENTS_LIMIT
    assert {path.read_text() for path in (tmp_path / ("long" * 50)).iterdir()} == {"content"}
    assert len(list((tmp_path / ("long" * 50)).iterdir())) == len(mounts)


def test_scripts_that_no_config_map_holds_are_refused(task: Build) -> None:
    job, problems = render_job(task(run="x" * CONFIG_MAP_LIMIT, setup="y"), SITE, RUN, None)

    assert (job, problems[0].code) == (None, "files")
    assert f"have {CONFIG_MAP_LIMIT + 1} bytes, and a ConfigMap holds {CONFIG_MAP_LIMIT}" in problems[0].message


def test_a_secret_in_a_file_goes_into_a_secret_of_the_run_and_nowhere_else(task: Build) -> None:
    made = task(secret_values={"TOKEN": "s3cret"}, secrets={"OTHER": "OTHER"})
    job = rendered(made, None)
    (secret,) = owned_objects(made, job, None, {})
    variables = {e["name"]: e.get("valueFrom") for e in spec_of(job)["containers"][0]["env"]}

    assert (secret["kind"], secret["metadata"]["name"], secret["immutable"]) == ("Secret", "train-1-secrets", True)
    assert base64.b64decode(secret["data"]["TOKEN"]) == b"s3cret"
    assert variables["TOKEN"] == {"secretKeyRef": {"name": "train-1-secrets", "key": "TOKEN", "optional": False}}
    assert variables["OTHER"]["secretKeyRef"]["name"] == SITE.secret
    for text in (repr(made), str(job)):
        assert "s3cret" not in text
        assert secret["data"]["TOKEN"] not in text


@pytest.fixture
def origin(repo: Repo, git: Git) -> Path:
    """Make a repository with a branch, a tag and a task file."""
    folder = repo({"train/a": "first\n", "train/sub/b": "b\n", "jobs/x.yaml": "run: x\n", "jobs/x.py": ""}, "origin")
    git(folder, "tag", "v1")
    (folder / "train/a").write_text("second\n")
    git(folder, "commit", "--quiet", "--all", "--message", "Second")
    return folder


def clone(task: Task, files: RunFiles | None, into: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run the init container's script here, with another URL: this machine's git reads folders, and no pod's does."""
    (container,) = spec_of(rendered(task, files))["initContainers"]
    env = {e["name"]: e["value"] for e in container["env"]} | {"CLONE_INTO": str(into), "CLONE_URL": url}
    into.mkdir()
    script = container["args"][0].replace("$$", "$").replace("/dev/termination-log", str(into / "message"))
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", **env}
    return subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("ref", "content", "variables"),
    [
        pytest.param(None, "second", {}, id="head"),
        pytest.param("main", "second", {"GIT_BRANCH": "main"}, id="branch"),
        pytest.param("v1", "first", {"GIT_TAG": "v1"}, id="tag"),
        pytest.param("short", "first", {}, id="short commit"),
    ],
)
def test_another_repository_becomes_the_workdir(  # noqa: PLR0917 - fixtures
    task: Build, origin: Path, git: Git, tmp_path: Path, ref: str | None, content: str, variables: dict[str, str]
) -> None:
    """Placed by the job's own bash, with SkyPilot's GIT_* variables; setup and run begin there."""
    ref = git(origin, "rev-parse", "--short", "v1") if ref == "short" else ref
    show = 'echo "$(cat a) $GIT_URL $GIT_COMMIT_HASH ${GIT_BRANCH-} ${GIT_TAG-} ${CLONE_REF-none} ${PWD##*/}"'
    made = task(workdir=GitWorkdir(URL, ref), setup=f"cd train && {show}", run="cat train/sub/b")
    into = tmp_path / "volumes" / "clone"
    into.parent.mkdir()
    cloned = clone(made, None, into, str(origin))
    main = spec_of(rendered(made, None))["containers"][0]
    outputs = []
    for script in main["args"][2:4]:
        command = ["bash", "-c", script.replace("$$", "$")]
        environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "JOB_FILES": str(into.parent)}
        outputs.append(
            subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd="/").stdout
        )
    commit = git(origin, "rev-parse", f"{ref or 'HEAD'}^{{commit}}")

    assert (cloned.returncode, cloned.stderr) == (0, "")
    expected = f"{content} {URL} {commit} {variables.get('GIT_BRANCH', '')} {variables.get('GIT_TAG', '')} none train\n"
    assert outputs == [expected, "b\n"]


def test_files_that_are_too_large_are_cloned_from_the_repository_itself(
    task: Build, origin: Path, git: Git, tmp_path: Path
) -> None:
    """At the commit of the run, wherever the branch is by now; without its history and the task files."""
    commit = git(origin, "rev-parse", "v1")
    mounts = (
        FileMount("", "~/sky_workdir", "workdir"),
        FileMount("train/a", f"{tmp_path}/it's/a", "x"),
        FileMount("train", "~/code", "y"),
    )
    big = TreeEntry(REGULAR, "big", CONFIG_MAP_LIMIT, b"train/a")
    files = RunFiles(FileSet(commit, mounts, (PlacedFile(b"~/sky_workdir/train/a", big, WORKDIR),)), URL)
    made = task(workdir=mounts[0], file_mounts=mounts[1:], run="true")
    into = tmp_path / "volumes" / "clone"
    into.parent.mkdir()
    cloned = clone(made, files, into, str(origin))
    setup = spec_of(rendered(made, files))["containers"][0]["args"][2].replace("$$", "$")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "JOB_FILES": str(into.parent)}
    placed = subprocess.run(["bash", "-c", setup], env=environ, capture_output=True, text=True, check=False, cwd="/")

    assert (cloned.returncode, placed.returncode, cloned.stderr + placed.stderr) == (0, 0, "")
    inside = [path.relative_to(tmp_path / "sky_workdir") for path in (tmp_path / "sky_workdir").rglob("*")]
    assert {str(path) for path in inside if path.suffix or path.name in "ab"} == {"jobs/x.py", "train/a", "train/sub/b"}
    assert [(tmp_path / place).read_text() for place in ("it's/a", "code/a")] == ["first\n", "first\n"]
