"""Run git on one repository: the only module that imports GitPython.

GitPython finds git (2.30 or newer) and starts it. Nothing above the command line is used, because there a rejected
push returns normally, a commit runs the user's hooks, and objects that were read keep children alive.

Every command runs with a deadline, in a session of its own (so that nothing can ask at the terminal), without the
user's hooks, without optional locks and without the GIT_* variables that would lead it to another repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from reconciler.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROTOCOLS = "file:git:http:https:ssh"
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "log.showSignature=false",
)
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "SSH_ASKPASS_REQUIRE": "never",
}
# What a user sets on purpose: how to reach and trust a server, who commits, where git's own parts and settings are.
# The others say which repository is meant (a hook of git sets them), and would lead ours astray.
_KEPT = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|HTTP_\w+|PROXY_\w+|ASKPASS|ALLOW_PROTOCOL|EXEC_PATH|PYTHON_\w+"
    r"|CONFIG_(COUNT|KEY_\d+|VALUE_\d+|GLOBAL|SYSTEM|NOSYSTEM)|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
    r"|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|EDITOR|PAGER)"
)
_MESSAGE_LENGTH = 200
_GRACE = 2.0


@dataclass(frozen=True, slots=True)
class Completed:
    """How a git command ended. `stderr` is without credentials and without terminal codes."""

    returncode: int
    stdout: bytes
    stderr: str


class Git:
    """Run git in one folder, which need not be a repository. A context manager: leaving it ends what still runs."""

    def __init__(self, folder: Path, *, inherited: tuple[int, ...] = (), env: Mapping[str, str] | None = None) -> None:
        """Take the folder; every child gets `env`, and keeps the descriptors `inherited` open as long as it lives."""
        self.folder = folder
        self._inherited = inherited
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting = threading.Lock()  # held until a command is among the running ones, or `close` would miss it
        self._environment = {
            **_ENVIRONMENT,
            "GIT_ALLOW_PROTOCOL": os.environ.get("GIT_ALLOW_PROTOCOL", _PROTOCOLS),
            **(env or {}),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the commands that other threads still wait for."""
        with self._starting:
            running = tuple(self._running)
        for process in running:
            _end(process)

    def run(
        self,
        *arguments: str,
        input: bytes | None = None,  # noqa: A002 - as subprocess.run calls it
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run `git <arguments>` and return what it wrote, byte for byte.

        Raises SourceError with git's own complaint in one line, without credentials, when it fails.
        """
        completed = self.execute(*arguments, input=input, timeout=timeout, env=env)
        if completed.returncode:
            raise SourceError(f"git {_command(arguments)}: {error_line(completed.stderr)} ({self.folder})")
        return completed.stdout

    def execute(
        self,
        *arguments: str,
        input: bytes | None = None,  # noqa: A002
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run `git <arguments>` and say how it ended. Raises SourceError only when it can't start or never ends."""
        with self._started(arguments, subprocess.DEVNULL if input is None else subprocess.PIPE, env) as process:
            try:
                stdout, stderr = process.communicate(input, timeout)
            except subprocess.TimeoutExpired:
                late = f"git {_command(arguments)}: no answer within {timeout:g} s ({self.folder})"
                raise SourceError(late) from None
        return Completed(process.returncode, stdout, _readable(stderr))

    @contextlib.contextmanager
    def _started(
        self, arguments: tuple[str, ...], stdin: int, env: Mapping[str, str] | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        try:
            import git
        except ImportError as error:  # GitPython looks for git when it is imported
            raise SourceError("git was not found: install it, or name it in GIT_PYTHON_GIT_EXECUTABLE") from error
        executable = git.Git.GIT_PYTHON_GIT_EXECUTABLE or "git"
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        try:
            with self._starting:
                started = git.Git(self.folder).execute(  # NB: it ends the process when nothing refers to it any more
                    [*_without_inherited(), executable, "--no-pager", *settings, *arguments],
                    istream=stdin,
                    as_process=True,
                    env={**self._environment, **(env or {})},
                    start_new_session=True,
                    pass_fds=self._inherited,
                )
                process = started.proc
                if process is None:
                    raise AssertionError("GitPython drops a process only when it ends it")
                self._running.add(process)
        except (git.GitCommandNotFound, OSError) as error:
            raise SourceError(f"git can't be started in {self.folder}: {error}") from error
        try:
            yield process
        finally:
            _end(process)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not written any more
                        stream.close()
            self._running.discard(process)


class Repository(Git):
    """The git repository around a folder; bare ones too. `work_tree` is None when it has none.

    `git_dir` is this work tree's own, `common_dir` the one that linked work trees share. `config` is git's settings as
    they were on opening, the last value of each; it may hold credentials and is not to be shown.
    """

    def __init__(
        self, path: Path | str, *, inherited: tuple[int, ...] = (), env: Mapping[str, str] | None = None
    ) -> None:
        """Find the repository. Raises SourceError when there is none, or when git doesn't trust it."""
        start = Path(path).absolute()
        if not start.is_dir():
            raise SourceError(f"{path}: no such folder; --repo names a folder of a git repository, or a URL")
        super().__init__(start, inherited=inherited, env=env)
        # In a bare repository, and inside .git, it fails at the last of these, and has said the others.
        found = self.execute("rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
        git_dir, _, others = os.fsdecode(found.stdout).partition("\n")
        if not git_dir:
            raise SourceError(_not_opened(start, found.stderr))
        common_dir, _, top = others.partition("\n")
        self.git_dir, self.common_dir = Path(git_dir), (start / common_dir).resolve()
        self.work_tree = Path(top.removesuffix("\n")) if top else None
        self.folder = self.work_tree or self.git_dir
        self.config = _settings(self.run("config", "--list", "-z"))
        if not {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys() and "core.sshcommand" not in self.config:
            self._environment["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"

    def refresh(self) -> None:
        """Bring a copy up to date with its original. A person's repository is no copy: it stays as they have it."""

    def resolve(self, name: str) -> str | None:
        """Return the commit that a revision names, or None if it names none."""
        found = self.execute("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found.returncode < 0:  # killed: nothing was looked at
            raise SourceError(f"git rev-parse was killed ({self.folder})")
        commit = found.stdout.decode().strip()
        return commit if found.returncode == 0 and commit.isalnum() else None  # `^name` gives `^commit`

    def head(self) -> tuple[str | None, str]:
        """Return HEAD's commit and its branch's full name, `HEAD` when detached; None and nothing before a commit."""
        found = self.execute("rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
        if found.returncode < 0:  # killed: nothing was looked at
            raise SourceError(f"git rev-parse was killed ({self.folder})")
        commit, _, name = found.stdout.decode("utf-8", "surrogateescape").strip().partition("\n")
        return (commit, name) if found.returncode == 0 else (None, "")

    def has_commit(self, commit: str) -> bool:
        """Tell whether the commit itself is here; a shallow clone lacks most, and a partial one shall not fetch it."""
        found = self.execute("cat-file", "-e", f"{commit}^{{commit}}", env={"GIT_NO_LAZY_FETCH": "1"})
        return found.returncode == 0

    @property
    def shallow_commits(self) -> frozenset[str]:
        """The commits whose parents a shallow clone lacks; empty for a whole one."""
        try:
            return frozenset((self.common_dir / "shallow").read_text().split())
        except FileNotFoundError:
            return frozenset()


def redact(text: str) -> str:
    """Strip user and password from every URL in the text, and the values of its query, where tokens stand too.

    An unquoted slash may belong to a user, a password or the path: where an @ follows, nobody can tell, and all of it
    goes.
    """
    text = re.sub(r"(?<=://)[^/\s'\"]*@", "", text)
    text = re.sub(r"(?<=://)[^\s'\"?#]*@", "***@", text)
    return re.sub(r"(://[^\s'\"?]*\?)[^\s'\"]+", r"\1***", text)


def error_line(stderr: str) -> str:
    """Return what git or the server complained about in one line: at most the first two sentences of it."""
    lines = [line.strip() for line in stderr.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("warning:", "hint:", "Cloning into"))]
    told = [re.sub(r"^(fatal|error): ", "", line) for line in lines]
    text = "; ".join(told[:2]) or "failed without a word"
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"


def _readable(stderr: bytes) -> str:
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", stderr.decode("utf-8", "backslashreplace"))
    lines = text.replace("\r", "\n").split("\n")
    return redact("\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines))


def _not_opened(start: Path, stderr: str) -> str:
    if "not a git repository" in stderr:
        return f"{start}: not in a git repository; run `git init` there, or name another with --repo"
    if "dubious ownership" in stderr:
        return (
            f"{start}: the repository belongs to another user, so git does not trust it; if you do: "
            f"git config --global --add safe.directory {start}"
        )
    return f"{start}: {error_line(stderr)}"


def _settings(listing: bytes) -> dict[str, str]:
    pairs = (entry.partition("\n") for entry in listing.decode("utf-8", "surrogateescape").split("\0") if entry)
    return {key: value for key, _, value in pairs}


def _command(arguments: tuple[str, ...]) -> str:
    """Name the command behind the settings that come before it."""
    while arguments[0] == "-c":
        arguments = arguments[2:]
    return arguments[0]


def _without_inherited() -> list[str]:
    """Begin a command line that takes variables away: GitPython can only add some."""
    dropped = [name for name in os.environ if name.startswith("GIT_") and not _KEPT.fullmatch(name)]
    return ["env", *(word for name in dropped for word in ("-u", name))] if dropped else []


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that still runs, and its children: politely first, so that git removes its lock files."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # another thread has seen it end
            os.killpg(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + _GRACE
            while time.monotonic() < deadline and not _has_ended(process):
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Tell without reaping it: until then nobody else gets its number."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
