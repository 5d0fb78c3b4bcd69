"""Ask the remote where its branches stand: is this commit old news, and who are we to the cluster.

One `ls_remote` serves a pass: its answer tells the tip of the source branch and of the status branch.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.source.repository import Repository
    from reconciler.source.revision import Revision

# The variables in which CI systems name the branch; of a pull request the branch it comes from.
_CI_BRANCHES = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
)
_NAMES_SHOWN = 5
_DEFAULT_PORTS = {"ssh": 22, "git": 9418, "http": 80, "https": 443}


def ls_remote(repository: Repository, remote: str, *, timeout: float = 60.0) -> dict[str, str]:
    """Return the commit of each branch (`refs/heads/...`) of a remote. Raises SourceError if it can't be asked."""
    listing = repository.run("ls-remote", "--heads", "--", remote, timeout=timeout)
    lines = listing.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    return {ref: commit for commit, _, ref in (line.partition("\t") for line in lines) if ref}


def source_tip(
    repository: Repository,
    revision: Revision,
    *,
    source_branch: str | None,
    environ: Mapping[str, str],
    refs: Mapping[str, str] | None = None,
) -> str | None:
    """Return the newest commit of the branch that the revision belongs to; None when that branch is gone.

    The branch is the setting `source_branch`, else the revision's own as the remote has it, else the one that CI names,
    else the remote's default. A branch that was never pushed, or a repository without a remote, is its own truth.
    `refs` is what `ls_remote` said; it is asked if None. Raises SourceError for a `source_branch` that does not exist.
    """
    if revision.remote is None:
        return _local_tip(repository, source_branch)
    known = ls_remote(repository, revision.remote) if refs is None else refs
    if source_branch is not None:
        if f"refs/heads/{source_branch}" not in known:
            raise SourceError(f"source_branch {source_branch!r} is not on {revision.remote}; it has: {_names(known)}")
        return known[f"refs/heads/{source_branch}"]
    if revision.branch is not None:
        upstream = repository.config.get(f"branch.{revision.branch}.merge", "")
        for ref in (upstream, f"refs/heads/{revision.branch}"):
            if ref in known:
                return known[ref]
    named_by_ci = ci_branch(environ)
    if named_by_ci is not None:
        return known.get(f"refs/heads/{named_by_ci}")
    return revision.commit if revision.branch is not None else _default_tip(repository, revision.remote)


def is_superseded(repository: Repository, commit: str, tip: str | None) -> bool:
    """Tell whether the branch has moved on: its tip is neither this commit nor an ancestor of it.

    A tip that is not here can't be an ancestor of what is; a branch that is gone (None) has no say left.
    """
    if tip == commit:
        return False
    if tip is None or not repository.has_commit(tip):
        return True
    return repository.execute("merge-base", "--is-ancestor", tip, commit).returncode != 0


def ci_branch(environ: Mapping[str, str]) -> str | None:
    """Return the branch that a CI system says it runs for."""
    if environ.get("GITHUB_REF_TYPE") == "tag":
        return None
    return next((environ[name] for name in _CI_BRANCHES if environ.get(name)), None)


def owner_hash(repository: Repository, remote: str | None) -> str:
    """Return the 12 hex digits by which a cluster knows the objects of this repository.

    They come from the remote's normalised URL. Without a remote they come from the first commit, which stays the same
    when the folder moves; adding a remote later changes them, and the setting `owner` keeps them. Raises SourceError
    for a shallow clone without a remote, where the first commit is not known.
    """
    if remote is not None:
        url = repository.run("remote", "get-url", remote).decode("utf-8", "surrogateescape").strip()
        return url_hash(url, base=str(repository.folder))
    if repository.shallow_commits:
        raise SourceError(f"{repository.folder}: a shallow clone without a remote; set `owner` in reconciler.yaml")
    return _hash(repository.run("rev-list", "--first-parent", "--max-parents=0", "HEAD").decode().strip())


def url_hash(url: str, *, base: str = "/") -> str:
    """Return the 12 hex digits of a normalised URL."""
    return _hash(normalise_url(url, base=base))


def normalise_url(url: str, *, base: str = "/") -> str:
    """Return one spelling for all URLs of a repository: `host/path`, or `file:` and the resolved path.

    The protocol, credentials, a default port, `.git` and slashes at the end don't matter; the host is in lower case,
    the path is kept. A relative path starts at `base`.
    """
    parts = urlsplit(url)
    scp_like = re.fullmatch(r"(?:[^@/]*@)?(\[[^]]*\]|[^:/]+):(.*)", url)
    if parts.scheme and "://" in url and parts.scheme != "file":
        host = parts.netloc.rpartition("@")[2].lower().removesuffix(f":{_DEFAULT_PORTS.get(parts.scheme)}")
        path = parts.path
    elif scp_like and "://" not in url:
        host, path = scp_like[1].lower(), scp_like[2]
    else:
        local = Path(base, parts.path if parts.scheme == "file" else url).resolve()
        return "file:" + str(local).removesuffix(".git").rstrip("/")
    return f"{host}/{path.strip('/').removesuffix('.git').rstrip('/')}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _local_tip(repository: Repository, source_branch: str | None) -> str:
    tip = repository.resolve(f"refs/heads/{source_branch}" if source_branch else "HEAD")
    if tip is None:
        raise SourceError(f"source_branch {source_branch!r} is not a branch of {repository.folder}")
    return tip


def _default_tip(repository: Repository, remote: str) -> str | None:
    listing = repository.run("ls-remote", "--", remote, "HEAD").decode("utf-8", "surrogateescape")
    return next((line.partition("\t")[0] for line in listing.split("\n") if line.endswith("\tHEAD")), None)


def _names(refs: Mapping[str, str]) -> str:
    names = [ref.removeprefix("refs/heads/") for ref in sorted(refs)]
    return ", ".join(names[:_NAMES_SHOWN] + ["…"] * (len(names) > _NAMES_SHOWN)) or "no branch"
