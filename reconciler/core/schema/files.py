"""Which files of the repository a task wants, and where: `workdir` and `file_mounts`.

SkyPilot's paths: a workdir becomes `~/sky_workdir`, where setup and run begin; a destination is below `~/`, absolute,
or relative to the workdir. What it copies from is the repository alone, from its root on: a commit has no home folder
and no machine around it. As in SkyPilot the task's variables are filled in, and nothing more is expanded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.core.field_path import field_name
from reconciler.core.schema.environment import filled_in, named_in
from reconciler.core.schema.fields import Shape, shown
from reconciler.core.schema.masking import masked
from reconciler.core.schema.task_fields import WORKDIR
from reconciler.model import FileMount, GitWorkdir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Reader

SKY_WORKDIR = "~/sky_workdir"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SSH = re.compile(r"ssh://|[\w.-]+@[\w.-]+:")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST = 4096  # Linux's PATH_MAX and NAME_MAX
_LONGEST_PART = 255
_TOKEN = "secrets: {GIT_TOKEN: null}"  # noqa: S105 - what to write


class Paths:
    """Reads the paths of one task, with its variables filled in."""

    def __init__(self, reader: Reader, env: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        self.reader = reader
        self.env = env
        self.secrets = secrets

    def workdir(self, path: FieldPath, value: object) -> FileMount | GitWorkdir | None:
        """Return what becomes the folder that a job works in."""
        if isinstance(value, dict):
            return self._git(path, value)
        text = self._text(path, value) if isinstance(value, str) else None
        if text is None:
            return None
        if _SCHEME.match(text) or _SSH.match(text):
            message = f"{field_name(path)} is a URL: write workdir: {{url: ..., ref: ...}}"
            self.reader.error(path, "invalid-value", message)
            return None
        source = self._source(path, text)
        return None if source is None else FileMount(source, SKY_WORKDIR, field_name(path))

    def file_mounts(self, path: FieldPath, mounts: dict[str, Any]) -> tuple[FileMount, ...]:
        """Return what is placed besides, in the order of the file. A null source is absence."""
        found: dict[str, FileMount] = {}
        for name, value in mounts.items():
            place = (*path, name)
            destination = self._destination(place, name)
            source = self._mounted(place, value) if value is not None else None
            if destination in found:
                other = found[destination].field
                message = f"{masked(destination)} is filled twice; the other time it is written {other}"
                self.reader.error(place, "conflict", message)
            elif destination is not None and source is not None:
                found[destination] = FileMount(source, destination, field_name(place))
        return tuple(found.values())

    def _mounted(self, place: FieldPath, value: object) -> str | None:
        if isinstance(value, dict):
            mode = value.get("mode") if isinstance(value.get("mode"), str) else "MOUNT"
            message = (
                f"{field_name(place)} is a bucket (mode {mode}), and buckets can't be mounted or copied here: copy "
                "what is needed in setup, or mount a PersistentVolumeClaim by volumes"
            )
            self.reader.error(place, "unsupported-field", message)
            return None
        if not self.reader.has_shape(place, value, Shape.TEXT):
            return None
        text = self._text(place, str(value))
        return None if text is None else self._source(place, text)

    def _text(self, place: FieldPath, text: str) -> str | None:
        """Fill in the task's variables: `$NAME` and `${NAME}`; what it doesn't have stays as it is."""
        if secret := next((name for name in named_in(text) if name in self.secrets), None):
            message = f"{field_name(place)} has the secret {secret} in it, and a path can be seen: use envs"
            self.reader.error(place, "invalid-value", message)
            return None
        most = len(text) + sum(len(self.env.get(name, "")) for name in named_in(text))  # values multiply as aliases do
        if most > 2 * _LONGEST or _is_too_long(text := filled_in(text, self.env)):
            message = f"{field_name(place)} is longer than any path: {_LONGEST} bytes, {_LONGEST_PART} between slashes"
            self.reader.error(place, "invalid-value", message)
            return None
        if "\0" in text or not text.strip():
            self.reader.error(place, "invalid-value", f"{field_name(place)} must be a path")
            return None
        return text

    def _source(self, place: FieldPath, text: str) -> str | None:
        """Return a path from the root of the repository on; `""` is the root."""
        name, field = shown(text), field_name(place)
        parts = _parts(text)
        if scheme := _SCHEME.match(text):
            what = "a web address" if scheme[1].lower() in {"http", "https"} else f"a bucket ({scheme[1]}://)"
            message = f"{field} is {what}, and only files of the repository are copied: fetch it in setup"
        elif text.startswith(("/", "~")):
            message = (
                f"{field} is {name} on somebody's machine, which no commit has: commit what is no secret, and write "
                "its path from the root of the repository on; a secret file goes to a Kubernetes Secret, which a "
                "volume of config.kubernetes.pod_config.spec mounts"
            )
        elif parts is None:
            message = f"{field} leads out of the repository: {name}; write a path from its root on"
        else:
            return "/".join(parts)
        self.reader.error(place, "unsupported-field", message)
        return None

    def _destination(self, place: FieldPath, name: str) -> str | None:
        text = self._text(place, name)
        if text is None:
            return None
        root, _, rest = text.partition("/")
        absolute, home = root == "", root == "~"
        parts = _parts(rest if absolute or home else text)
        if text.endswith("/"):
            message = f"{field_name(place)} must not end with /: write the path of the folder or file itself"
        elif not parts or (root.startswith("~") and not home):
            message = f"{field_name(place)} must be a path below ~/, below /, or relative to the workdir"
        elif home or absolute:
            destination = f"{'~' if home else ''}/{'/'.join(parts)}"
            if destination != SKY_WORKDIR:
                return destination
            message = f"{field_name(place)} is the folder of the workdir: write workdir instead"
        else:
            return f"{SKY_WORKDIR}/{'/'.join(parts)}"
        self.reader.error(place, "invalid-value", message)
        return None

    def _git(self, path: FieldPath, value: dict[str, Any]) -> GitWorkdir | None:
        fields = self.reader.section(path, value, WORKDIR)
        if "url" not in fields:
            if value.get("url") is None:
                self.reader.error(path, "missing-value", f"{field_name(path)} needs url, and ref if not HEAD is meant")
            return None
        url = self._text((*path, "url"), fields["url"])
        ref = self._text((*path, "ref"), fields["ref"]) if "ref" in fields else None
        if url is None or (message := _wrong_url(url)):
            if url is not None:
                self.reader.error((*path, "url"), "invalid-value", f"{field_name((*path, 'url'))} {message}")
            return None
        if ref is not None and (ref.startswith("-") or re.search(r"\s", ref)):
            self.reader.error((*path, "ref"), "invalid-value", f"{shown(ref)} names no branch, tag or commit")
            return None
        if ref is None or not _COMMIT.fullmatch(ref):
            message = (
                f"{ref or 'HEAD'} can move: each attempt gets what it is then; the full hash of a commit stays the same"
            )
            self.reader.warning((*path, "ref") if ref else path, "moving-ref", message)
        return GitWorkdir(url, ref)


def _wrong_url(url: str) -> str | None:
    """Tell why pods can't clone from a URL, without showing it: it may hold a password."""
    if _SSH.match(url):
        return f"goes over ssh, for which a pod has no key: write its https:// URL, and {_TOKEN} if it is private"
    parts = urlsplit(url) if url.isprintable() and " " not in url else None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        return "must be an https:// URL"
    if "@" in parts.netloc:
        return f"has credentials in it, which are in git now: replace them, leave them out, and write {_TOKEN}"
    if "?" in url or "#" in url:
        return f"must end before ? and #: a token there is in git now; replace it, leave it out, and write {_TOKEN}"
    return None


def _is_too_long(path: str) -> bool:
    return len(path.encode()) > _LONGEST or any(len(part.encode()) > _LONGEST_PART for part in path.split("/"))


def _parts(text: str) -> list[str] | None:
    """Return the steps of a path without `.` and `..`; None when it leads out."""
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return parts
