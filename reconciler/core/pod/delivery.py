"""How a pod gets its files: by a ConfigMap of the run, or by a clone when that is too small or the files are elsewhere.

A ConfigMap holds 1 MiB, counted by the API over keys' contents as they are (base64 doesn't count), and its files come
read-only and without links. So its keys are the contents, and a bash script beside them, `place`, puts each one where
it belongs, in the main container: only there is it known what `~` is and whose the files shall be. It needs no more
than `mkdir`, `cat`, `chmod` and `ln`. Larger files, and another repository, come by git in an init container, into a
folder that both share, and are copied from there.

Placing happens before setup, in its phase: what can't be placed is FAILED_SETUP, and says why in the log. What can't be
cloned is FAILED, before there is a main container; `clone` has what is tried again, and what is an interruption.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.core.git_tree import EXECUTABLE
from reconciler.core.pod.clone import CLONE, REPOSITORY, WORKDIR, clone_container
from reconciler.core.repository_files import FileSet
from reconciler.core.schema.files import SKY_WORKDIR
from reconciler.model import ANNOTATION_PREFIX, FileMount, GitWorkdir, Manifest, Problem, Severity, Site, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIG_MAP_LIMIT = 1024 * 1024
ARGUMENTS_LIMIT = 96 * 1024
FOLDER = "/run/job-reconciler"
FOLDER_VARIABLE = "JOB_FILES"  # where FOLDER is when it can't be there
_AT_ONCE = 100
_QUOTES = 8  # and line ends of a short text
FILES = "job-files"

_FAILED = '{ echo "job files: could not be put in their place" >&2; exit 1; }; '


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a pod has so that its scripts, given here, find their files."""

    setup: str | None
    run: str
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    init_containers: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of a run, and the URL that its pods could clone them from, if there is one."""

    chosen: FileSet
    url: str | None


def deliver(task: Task, site: Site, files: RunFiles | None, run_name: str, env: Sequence[Manifest]) -> Delivery:
    """Return how the files of a run, and scripts that are too long for arguments, reach its pods."""
    ways = _Ways(task, files)
    place, volumes, mounts, clones = "", [], [], []
    if ways.config_map:
        volumes.append({"name": FILES, "configMap": {"name": ways.config_map_name(run_name)}})
        mounts.append({"name": FILES, "mountPath": f"{FOLDER}/files", "readOnly": True})
    if ways.by_config_map:
        place += f'"$BASH" {_here("files/place")} {_here("files")} || {_FAILED}'
    into = f"{FOLDER}/clone"
    if isinstance(task.workdir, GitWorkdir):
        clones.append(clone_container(task, site, WORKDIR, task.workdir, into=into, env=env))
        place = f"{_copy(_here('clone/workdir/.'), SKY_WORKDIR)}|| {_FAILED}{place}"
    if files and ways.by_clone:
        own = GitWorkdir(files.url or "", files.chosen.commit)
        clones.append(clone_container(task, site, REPOSITORY, own, into=into, env=env))
        if ways.long_scripts:
            place += f'"$BASH" {_here("files/place")} || {_FAILED}'
        else:
            place += "".join(f"{copy}|| {_FAILED}" for copy in ways.copies)
    if clones:
        volumes.append({"name": CLONE, "emptyDir": {}})
        mounts.append({"name": CLONE, "mountPath": into, "readOnly": True})
    begin = _beginning(task)
    setup, run = task.setup, task.run
    if ways.long_scripts:
        setup, run = setup and f". {_here('files/setup')}", f". {_here('files/run')}"
    return Delivery(
        setup=f"{place}{begin}{setup or ':'}" if place else setup,
        run=begin + run,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        init_containers=tuple(clones),
    )


def check_delivery(task: Task, files: RunFiles | None) -> list[Problem]:
    """Say why the files of a run can't reach its pods."""
    ways, problems = _Ways(task, files), []
    field = files.chosen.mounts[0].field if files and files.chosen.mounts else "run"
    if files and ways.by_clone and not files.url:
        message = (
            f"the files have {ways.size} bytes, and a ConfigMap holds {CONFIG_MAP_LIMIT} (1 MiB): pods would clone "
            "them, and this repository has no remote that they could reach; take fewer files, or add one with a URL"
        )
        problems.append(Problem(Severity.ERROR, "files", task.path, message, field=field))
    if ways.scripts_size > CONFIG_MAP_LIMIT:
        message = (
            f"setup, run and the commands that put {len(ways.copies)} paths in their place have {ways.scripts_size} "
            f"bytes, and a ConfigMap holds {CONFIG_MAP_LIMIT} (1 MiB): shorten them, or name folders instead of files"
        )
        problems.append(Problem(Severity.ERROR, "files", task.path, message, field=field))
    return problems


def is_packed(task: Task, files: RunFiles) -> bool:
    """Tell whether the contents of the files go into the ConfigMap of the run."""
    return _Ways(task, files).by_config_map


def is_cloned(task: Task, files: RunFiles) -> bool:
    """Tell whether an init container clones for the run."""
    return isinstance(task.workdir, GitWorkdir) or clones_commit(task, files)


def clones_commit(task: Task, files: RunFiles) -> bool:
    """Tell whether it clones this very repository, at the commit of the files."""
    return _Ways(task, files).by_clone


def secret_name(run_name: str) -> str:
    """Return the name of the Secret of a run, with the values that stand in its file."""
    return f"{run_name}-secrets"


def needs_objects(task: Task, files: RunFiles | None) -> bool:
    """Tell whether a run needs anything besides its Job: whether `owned_objects` makes any."""
    return _Ways(task, files).config_map or bool(task.secret_values)


def owned_objects(
    task: Task, job: Manifest, files: RunFiles | None, contents: Mapping[str, bytes]
) -> tuple[Manifest, ...]:
    """Return what a run needs besides its Job: a ConfigMap, a Secret, or nothing.

    `contents` are the blobs of the files, by hash. Both are immutable, since a run keeps what it began with.
    """
    ways, name, objects = _Ways(task, files), job["metadata"]["name"], []
    if ways.config_map:
        values: dict[str, bytes] = {}
        if files and ways.by_config_map:
            values = {f"file-{n}": contents[blob.sha] for n, blob in enumerate(files.chosen.blobs)}
            values["place"] = _place(files.chosen)
        if ways.long_scripts:
            values |= {key: text.encode() for key, text in ways.scripts.items()}
        objects.append(_object(job, "ConfigMap", ways.config_map_name(name)) | _split(values))
    if task.secret_values:
        values = {key: text.encode() for key, text in task.secret_values.items()}
        data = {key: base64.b64encode(value).decode() for key, value in values.items()}
        objects.append(_object(job, "Secret", secret_name(name)) | {"type": "Opaque", "data": data})
    return tuple(objects)


class _Ways:
    """Which way the files of a task go: `config_map` is whether there is one at all.

    `scripts` travel in it when they are long; `copies` are the commands that take files from the clone.
    """

    def __init__(self, task: Task, files: RunFiles | None) -> None:
        own = {key: text for key, text in (("setup", task.setup), ("run", task.run)) if text}
        size = _size(own)
        any_file = bool(files and files.chosen.files)
        self.size = sum(blob.size for blob in files.chosen.blobs) + len(_place(files.chosen)) if files else 0
        fits = self.size + (size if size > ARGUMENTS_LIMIT else 0) <= CONFIG_MAP_LIMIT
        self.by_config_map = any_file and fits
        self.by_clone = any_file and not fits
        self.copies = _copies(files.chosen) if files and self.by_clone else []
        place = "".join(f"{copy}|| exit 1\n" for copy in self.copies)
        self.scripts = own | ({"place": place} if place else {})
        self.scripts_size = _size(self.scripts)
        self.long_scripts = self.scripts_size > ARGUMENTS_LIMIT
        self.config_map = self.long_scripts or self.by_config_map
        self._content = [files.chosen.digest if files and self.by_config_map else None]
        self._content += [task.setup, task.run, *([place] if place else [])] if self.long_scripts else []

    def config_map_name(self, run_name: str) -> str:
        """Return a name for just this content: a pod that asks for it gets no other."""
        return f"{run_name}-{hashlib.sha256(json.dumps(self._content).encode()).hexdigest()[:10]}"


def _size(scripts: Mapping[str, str]) -> int:
    return sum(len(script.encode()) for script in scripts.values())


def _beginning(task: Task) -> str:
    """Return what setup and run begin with, in their first line, so that bash's messages number the lines right."""
    below = [mount for mount in task.file_mounts if mount.destination.startswith(f"{SKY_WORKDIR}/")]
    if isinstance(task.workdir, GitWorkdir):
        variables = f". {_here('clone/workdir.env')}; export GIT_URL={shlex.quote(task.workdir.url)}; "
        ref = f"CLONE_REF={shlex.quote(task.workdir.ref or 'HEAD')}; "
        return f"{ref}{variables}unset CLONE_REF; cd {SKY_WORKDIR} || exit 1; "
    return f"cd {SKY_WORKDIR} || exit 1; " if task.workdir or below else ""


def _place(chosen: FileSet) -> bytes:
    """Write the script that puts the files of a ConfigMap, in the folder `$1`, where they belong."""
    number = {blob.sha: n for n, blob in enumerate(chosen.blobs)}
    folders = sorted({file.destination.rpartition(b"/")[0] for file in chosen.files} - {b"", b"~"})
    programs = [_path(file.destination) for file in chosen.files if file.entry.mode == EXECUTABLE]
    return b"\n".join(
        [
            b"set -e",
            *_in_groups(b"mkdir -p --", [_path(folder) for folder in folders]),
            *(
                b'cat <"$1"/file-%d >' % number[file.entry.sha] + _path(file.destination)
                if file.target is None
                else b"ln -sfn -- " + _quoted(file.target) + b" " + _path(file.destination)
                for file in chosen.files
            ),
            *_in_groups(b"chmod a+rx --", programs),
            b"",
        ]
    )


def _in_groups(command: bytes, words: Sequence[bytes]) -> list[bytes]:
    """Write a command for so many words at a time as surely fit into its arguments."""
    groups = (words[start : start + _AT_ONCE] for start in range(0, len(words), _AT_ONCE))
    return [b" ".join([command, *group]) for group in groups]


def _path(destination: bytes) -> bytes:
    return b"~/" + _quoted(destination[2:]) if destination.startswith(b"~/") else _quoted(destination)


def _quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"'", rb"'\''") + b"'"


def _here(path: str) -> str:
    """Return a path below FOLDER as a word of bash."""
    return f'"${{{FOLDER_VARIABLE}:-{FOLDER}}}/{path}"'


def _copy(source: str, destination: str) -> str:
    return f"mkdir -p {destination} && cp -RP {source} {destination}/ "


def _copies(chosen: FileSet) -> list[str]:
    paths = {file.entry.path for file in chosen.files}
    return [_copy_mount(mount, alone=mount.source.encode() in paths) for mount in chosen.mounts]


def _copy_mount(mount: FileMount, *, alone: bool) -> str:
    """Return what copies a file, if that is what stands there `alone`, else a folder."""
    source = "/".join([_here("clone/repository"), *([shlex.quote(mount.source)] if mount.source else [])])
    place = _path(mount.destination.encode()).decode()
    if alone:
        return f'mkdir -p "$(dirname {place})" && cp -RP {source} {place} '
    return _copy(f"{source}/.", place)


def _object(job: Manifest, kind: str, name: str) -> Manifest:
    """Return the head of an object that goes with a Job; it carries its labels, and the site's annotations."""
    metadata = job["metadata"]
    annotations = {k: v for k, v in metadata["annotations"].items() if not k.startswith(ANNOTATION_PREFIX)}
    head: Manifest = {"name": name, "namespace": metadata["namespace"], "labels": dict(metadata["labels"])}
    head |= {"annotations": annotations} if annotations else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": head, "immutable": True}


def _split(values: Mapping[str, bytes]) -> Manifest:
    """Return the contents of a ConfigMap, as text where that is not longer: a request may have 3 MiB with escapes."""
    texts: dict[str, str] = {}
    for key, value in values.items():
        with suppress(UnicodeDecodeError):
            text = value.decode()
            if len(json.dumps(text)) <= len(value) * 4 // 3 + _QUOTES:
                texts[key] = text
    binary = {key: base64.b64encode(value).decode() for key, value in values.items() if key not in texts}
    return ({"data": texts} if texts else {}) | ({"binaryData": binary} if binary else {})
