"""What may be called what: jobs, Kubernetes objects, labels, variables and images."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from reconciler.core.schema.masking import masked

MAX_JOB_NAME = 46
MAX_LABEL = 63
MAX_SUBDOMAIN = 253
_MAX_IMAGE = 512
_SHOWN = 80

OUR_VARIABLES = frozenset(
    {
        "JOB_ATTEMPT",
        "JOB_COMPLETION_INDEX",
        "JOB_FILES",
        "JOB_GRACE_SECONDS",
        "JOB_INDEX_FAILURES",
        "JOB_NODES",
        "JOB_NODE_IP",
        "JOB_NODE_NAMES",
        "JOB_TERMINATION_LOG",
    }
)
"""What the supervisor is told by; a task that set one would take its run out of our hands."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATORS = re.compile(r"[-_. /]+")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_. /-]")
_IMAGE = re.compile(
    r"([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@[a-z0-9]+:[0-9a-f]+)?"
)
_NO_BRANCH = re.compile(r"^[-/]|^@$|(^|/)\.|\.lock(/|$)|[./]$|\.\.|//|@\{|[\x00-\x20\x7f~^:?*\[\\]")


def job_name(path: str, declared: str | None) -> str:
    """Return a job's name: what its file declares, else the file's path below `jobs/`, as a DNS label.

    Capitals become small, and `_`, `.`, blanks and `/` become `-`. Raises ValueError for what no such rule turns into a
    name of at most 46 characters: a name is never cut, because two could then become one.
    """
    text, what, advice = (declared, "name", "") if declared is not None else _from_path(path)
    outside = _OUTSIDE.search(text)
    if outside:
        raise ValueError(f"{what} {_cut(text)} has {outside[0]!r} in it: use a-z, 0-9, '-', '_' and '.'{advice}")
    name = _SEPARATORS.sub("-", text.lower()).strip("-")
    if not name:
        raise ValueError(f"{what} {_cut(text)} has neither a letter nor a digit in it{advice}")
    if len(name) > MAX_JOB_NAME:
        raise ValueError(
            f"{what} {_cut(name)} has {len(name)} characters; at most {MAX_JOB_NAME} leave room for what Kubernetes "
            f"adds{advice}"
        )
    return name


def _from_path(path: str) -> tuple[str, str, str]:
    pure = PurePosixPath(path)
    parts = pure.parts[1:] if len(pure.parts) > 1 and pure.parts[0] == "jobs" else pure.parts
    text = "/".join(parts)
    stem = text.removesuffix(pure.suffix) if pure.suffix.lower() in {".yaml", ".yml"} else text
    return stem, "the job is named after its path, and", "; or write name: in the file"


def _cut(text: str) -> str:
    text = masked(text)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def is_dns_label(text: str) -> bool:
    """Tell whether a text can name a namespace."""
    return len(text) <= MAX_LABEL and bool(_DNS_LABEL.fullmatch(text))


def is_dns_subdomain(text: str) -> bool:
    """Tell whether a text can name a PriorityClass or a Secret."""
    return len(text) <= MAX_SUBDOMAIN and bool(_DNS_SUBDOMAIN.fullmatch(text))


def is_label_value(text: str) -> bool:
    """Tell whether a text can be a label's value; an empty one can."""
    return len(text) <= MAX_LABEL and (not text or bool(_LABEL_VALUE.fullmatch(text)))


def is_label_key(text: str) -> bool:
    """Tell whether a text can be the key of a label or an annotation: `[domain/]name`."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (is_dns_subdomain(prefix) if slash else True)


def is_variable(text: str) -> bool:
    """Tell whether a text can name an environment variable, by SkyPilot's rule."""
    return bool(_VARIABLE.fullmatch(text))


def is_image(text: str) -> bool:
    """Tell whether a text reads as a container image: `[registry/]name[:tag][@digest]`."""
    return len(text) <= _MAX_IMAGE and bool(_IMAGE.fullmatch(text))


def is_branch(text: str) -> bool:
    """Tell whether git takes a text as the name of a branch (git-check-ref-format)."""
    return 0 < len(text) <= MAX_SUBDOMAIN and not _NO_BRANCH.search(text)
