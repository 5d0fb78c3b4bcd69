"""The supervisor, as real bash processes: what it runs, what it passes on, and how it says how that ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.exit_codes import PASSED_ON_AS_1, SETUP_FAILED, TOLD_TO_STOP
from reconciler.core.pod.delivery import ARGUMENTS_LIMIT
from reconciler.core.pod.supervisor import SUPERVISOR, container_command, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BASH = shutil.which("bash") or "/bin/bash"
PATIENCE = 20.0


def kubelet_expand(text: str, env: dict[str, str]) -> str:
    """Expand as k8s.io/kubernetes/third_party/forked/golang/expansion does."""
    out, at = "", 0
    while at < len(text):
        two, close = text[at : at + 2], text.find(")", at)
        if two == "$$":
            out, at = out + "$", at + 2
        elif two == "$(" and close > 0:
            name = text[at + 2 : close]
            out, at = out + env.get(name, f"$({name})"), close + 1
        else:
            out, at = out + text[at], at + 1
    return out


@dataclass
class Supervised:
    """Supervisors started in one folder, which is their home too; what is left of them is killed at the end."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self,
        run: str,
        *,
        setup: str | None = None,
        timeout: int | None = None,
        nodes: int = 1,
        prefix: tuple[str, ...] = (),
        **env: str,
    ) -> subprocess.Popen[str]:
        """Start what a kubelet would."""
        command, args = container_command(setup, run, timeout, nodes=nodes)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "JOB_TERMINATION_LOG": str(self.log), **env}
        argv = [kubelet_expand(word, env) for word in (*command, *args)]
        process = subprocess.Popen(
            [*prefix, BASH, *argv[1:]],
            cwd=self.folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def result(self, run: str, **more: Any) -> tuple[int, str, str]:
        """Run to the end and return exit code, output and errors."""
        process = self.start(run, **more)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def wait_for(self, name: str) -> None:
        """Wait until the command has made this file."""
        until((self.folder / name).exists, f"file {name}")

    @property
    def log(self) -> Path:
        """The termination log."""
        return self.folder / "termination-log"

    @property
    def said(self) -> Any:
        """What stands in the termination log."""
        return json.loads(self.log.read_text())


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether a process exists and is more than a zombie that nobody reaps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def session_of(leader: int) -> list[int]:
    """Name all processes of a session, whatever group they are in: one that is left holds the pipes open."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            if fields[3] == str(leader):
                found.append(int(file.parent.name))
    return found


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    group = Supervised(tmp_path)
    yield group
    for process in group.processes:
        for pid in session_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("setup", "run", "code", "said"),
    [
        pytest.param(None, "true", 0, ("run", 0), id="success"),
        pytest.param("true", "true", 0, ("run", 0), id="success after setup"),
        pytest.param("", "exit 3", 3, ("run", 3), id="failure"),
        pytest.param(None, "false\ntrue", 0, ("run", 0), id="the last command counts, as in bash"),
        pytest.param(None, "exit 216", 216, ("run", 216), id="a code beside ours"),
        pytest.param(None, "exit 217", 1, ("run", 217), id="217 is ours"),
        pytest.param(None, "exit 218", 1, ("run", 218), id="218 is ours"),
        pytest.param(None, "exit 219", 1, ("run", 219), id="219 is ours"),
        pytest.param(None, "exit 255", 1, ("run", 255), id="255 is the runtime's"),
        pytest.param(None, "exit -1", 1, ("run", 255), id="-1 is 255"),
        pytest.param(None, "kill -KILL $$", 137, ("run", 137), id="killed"),
        pytest.param(None, "kill -TERM $$", 143, ("run", 143), id="terminated, but not through us"),
        pytest.param(None, "kill -SEGV $$", 139, ("run", 139), id="crashed"),
        pytest.param(None, "nonsense-command", 127, ("run", 127), id="no such command"),
        pytest.param(None, "if", 2, ("run", 2), id="not bash"),
        pytest.param("exit 1", "touch ran", 219, ("setup", 1), id="setup fails"),
        pytest.param("exit 217", "touch ran", 219, ("setup", 217), id="setup fails with a code of ours"),
        pytest.param("kill -KILL $$", "touch ran", 219, ("setup", 137), id="setup is killed"),
        pytest.param("if", "touch ran", 219, ("setup", 2), id="setup is not bash"),
    ],
)
def test_exit_codes(supervised: Supervised, setup: str | None, run: str, code: int, said: tuple[str, int]) -> None:
    """The container's code decides about the Job, so ours have one meaning each; the log keeps the command's own."""
    returned, _, _ = supervised.result(run, setup=setup)

    assert (returned, supervised.said) == (code, {"phase": said[0], "exit_code": said[1]})
    assert not (supervised.folder / "ran").exists()


def test_the_codes_are_those_of_the_jobs_policy() -> None:
    assert f"{' | '.join(map(str, PASSED_ON_AS_1))}) end 1" in SUPERVISOR
    assert f"exit {TOLD_TO_STOP}" in SUPERVISOR
    assert f"exit {SETUP_FAILED}" in SUPERVISOR


@pytest.mark.parametrize(
    ("trap", "said"),
    [
        pytest.param("trap 'exit 0' TERM", 0, id="ends with 0, as if all were done"),
        pytest.param("trap 'exit 3' TERM", 3, id="ends with an error"),
        pytest.param(":", 143, id="does not care"),
    ],
)
def test_told_to_stop_is_never_success_and_never_failure(supervised: Supervised, trap: str, said: int) -> None:
    process = supervised.start(f"{trap}; touch ready; while :; do sleep 0.05; done")
    supervised.wait_for("ready")
    process.terminate()

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert supervised.said == {"phase": "run", "exit_code": said}


def test_told_to_stop_in_setup(supervised: Supervised) -> None:
    """A setup that was interrupted has not failed, and run is not started after it."""
    process = supervised.start("touch ran", setup="trap 'exit 0' TERM; touch ready; while :; do sleep 0.05; done")
    supervised.wait_for("ready")
    process.terminate()

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert supervised.said == {"phase": "setup", "exit_code": 0}
    assert not (supervised.folder / "ran").exists()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_the_command_gets_the_signal_that_we_got(supervised: Supervised, name: str) -> None:
    """An image may name another STOPSIGNAL than TERM, and Ctrl-C is INT."""
    process = supervised.start(f"trap 'touch got-{name}; exit 0' {name}; touch ready; while :; do sleep 0.05; done")
    supervised.wait_for("ready")
    process.send_signal(signal.Signals[f"SIG{name}"])

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert (supervised.folder / f"got-{name}").exists()


def test_grandchildren_have_the_time_to_save(supervised: Supervised) -> None:
    """The shell dies of the signal at once; what it had started gets it too, and is waited for."""
    save = "import signal,sys,time,pathlib as p\n"
    save += "def stop(*_):\n time.sleep(0.5); p.Path('saved').touch(); sys.exit(0)\n"
    save += "signal.signal(signal.SIGTERM, stop); p.Path('ready').touch(); time.sleep(60)\n"
    (supervised.folder / "train.py").write_text(save)
    process = supervised.start("python3 train.py\necho done")
    supervised.wait_for("ready")
    process.terminate()
    out, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out) == (TOLD_TO_STOP, "")
    assert (supervised.folder / "saved").exists()


def test_a_command_that_ignores_the_signal_is_killed_before_the_grace_ends(supervised: Supervised) -> None:
    """The kubelet's KILL would leave a 137 that nobody can tell from an error: ours comes a second earlier."""
    process = supervised.start("trap '' TERM; touch ready; while :; do sleep 0.05; done", JOB_GRACE_SECONDS="2")
    supervised.wait_for("ready")
    started = time.monotonic()
    process.terminate()

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert time.monotonic() - started > 0.9
    assert supervised.said == {"phase": "run", "exit_code": 137}


def test_the_grace_period_is_the_supervisors_own_business(supervised: Supervised) -> None:
    """The variable doesn't reach the command."""
    assert supervised.result('echo "${JOB_GRACE_SECONDS-none}"', JOB_GRACE_SECONDS="30") == (0, "none\n", "")


def test_a_command_that_ignores_the_signal_is_waited_for(supervised: Supervised) -> None:
    """Without a known grace period there is no KILL of ours: it ends when the command does."""
    process = supervised.start("trap '' TERM; echo $$ >pid; mv pid ready; while :; do sleep 0.05; done")
    supervised.wait_for("ready")
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    os.killpg(int((supervised.folder / "ready").read_text()), signal.SIGKILL)
    assert process.wait(PATIENCE) == TOLD_TO_STOP


def test_the_log_tells_the_phase_of_one_that_was_killed(supervised: Supervised) -> None:
    process = supervised.start("echo $$ >pid; mv pid ready; exec sleep 60", setup="true")
    supervised.wait_for("ready")
    process.kill()
    os.killpg(int((supervised.folder / "ready").read_text()), signal.SIGKILL)
    process.wait(PATIENCE)

    assert supervised.said == {"phase": "run", "exit_code": None}


@pytest.mark.parametrize(
    ("setup", "run"),
    [
        pytest.param(None, "sleep 60 & echo $! >pid", id="of run"),
        pytest.param(None, "(trap '' TERM HUP; exec sleep 60) & echo $! >pid", id="of run, deaf to signals"),
        pytest.param("sleep 60 & echo $! >pid", "true", id="of setup"),
    ],
)
def test_background_processes_end_with_their_phase(supervised: Supervised, setup: str | None, run: str) -> None:
    code, _, _ = supervised.result(run, setup=setup)

    assert code == 0
    pid = int((supervised.folder / "pid").read_text())
    until(lambda: not lives(pid), "end of the background process")


def test_a_suspended_command_is_not_an_ended_one(supervised: Supervised) -> None:
    process = supervised.start("echo $$ >pid; mv pid ready; sleep 0.4; exit 5")
    supervised.wait_for("ready")
    group = int((supervised.folder / "ready").read_text())
    os.killpg(group, signal.SIGSTOP)
    time.sleep(0.6)
    assert process.poll() is None
    os.killpg(group, signal.SIGCONT)

    assert process.wait(PATIENCE) == 5


def test_setup_and_run_share_a_folder_and_nothing_else(supervised: Supervised) -> None:
    setup = "set -e; export LEAK=1; alias ll=ls; cd /; LOCAL=2"
    run = 'false; printf "%s " "${LEAK-unset}" "${LOCAL-unset}" "$PWD" "$#" "$0"'

    assert supervised.result(run, setup=setup) == (0, f"unset unset {supervised.folder} 0 bash ", "")


def test_the_environment_of_a_command(supervised: Supervised) -> None:
    """JAX and others take JOB_COMPLETION_INDEX for a rank, so it goes by another name."""
    run = (
        'printf "%s " "$JOB_ATTEMPT" "${JOB_COMPLETION_INDEX-unset}" "${JOB_TERMINATION_LOG-unset}" "$PYTHONUNBUFFERED"'
    )

    assert supervised.result(run, JOB_COMPLETION_INDEX="4")[1] == "4 unset unset 1 "
    assert supervised.result(run, JOB_COMPLETION_INDEX="4", JOB_INDEX_FAILURES="2")[1] == "6 unset unset 1 "
    assert supervised.result(run, JOB_COMPLETION_INDEX="0", JOB_INDEX_FAILURES="")[1] == "0 unset unset 1 "
    assert supervised.result(run, PYTHONUNBUFFERED="")[1] == "0 unset unset  "


def test_variables_of_the_job_keep_their_values(supervised: Supervised) -> None:
    names = [
        "log",
        "told",
        "late",
        "stopped",
        "group",
        "signalled",
        "code",
        "prelude",
        "file",
        "stat",
        "never",
        "CLOCK",
    ]

    code, out, _ = supervised.result("env", timeout=60, **dict.fromkeys(names, "mine"))

    assert code == 0
    assert [line for line in out.splitlines() if line.partition("=")[0].startswith("__")] == []
    assert {f"{name}=mine" for name in names} <= set(out.splitlines())


def test_standard_input_is_empty(supervised: Supervised) -> None:
    assert supervised.result("readlink /proc/self/fd/0; cat", setup="cat") == (0, "/dev/null\n", "")


AWKWARD = [
    pytest.param("Größe ≥ 3 × € 日本語 🚀", id="unicode"),  # noqa: RUF001 - on purpose
    pytest.param("two\n\n   lines\n\ttab\n", id="lines"),
    pytest.param("$$ $(date) $(HOME) ${HOME} `date` $$$$ \\$ $( $", id="dollars"),
    pytest.param("\"double\" 'single' \\ \\n %s %% ! * ? [a] {a,b} ~ # ; & | < >", id="shell"),
]


@pytest.mark.parametrize("text", AWKWARD)
def test_a_script_arrives_to_the_byte(supervised: Supervised, text: str) -> None:
    """As in a quoted here-document, with a variable of the same name as the kubelet would look for."""
    assert supervised.result(f"cat <<'END'\n{text}\nEND\n", date="wrong") == (0, f"{text}\n", "")


def test_dollars_mean_to_bash_what_they_say(supervised: Supervised) -> None:
    code, out, _ = supervised.result(
        '[ $$ = $BASHPID ] && echo "$(echo sub) $HOSTNAME $((1+1))"', HOSTNAME="h", echo="x"
    )

    assert (code, out) == (0, "sub h 2\n")


@given(st.text(st.sampled_from("$()AB {}x"), max_size=12))
def test_the_kubelet_restores_what_we_wrote(text: str) -> None:
    assert kubelet_expand(literal(text), {"A": "wrong", "AB": "wrong", "": "wrong"}) == text


def test_messages_number_the_lines_of_the_script(supervised: Supervised) -> None:
    _, _, err = supervised.result("true\nnonsense-command")

    assert err == "bash: line 2: nonsense-command: command not found\n"


def test_the_longest_script(supervised: Supervised) -> None:
    script = "#".ljust(ARGUMENTS_LIMIT - 9, "x") + "\necho end"

    assert len(script) == ARGUMENTS_LIMIT
    assert supervised.result(script) == (0, "end\n", "")
    assert supervised.result("true", setup=script) == (0, "end\n", "")


def test_bashrc_and_conda_are_sourced_as_skypilot_does(supervised: Supervised) -> None:
    """`conda activate` works, in scripts that run starts too; an unhappy .bashrc stops nothing."""
    (supervised.folder / ".bashrc").write_text("export FROM_BASHRC=1\nnonsense-command 2>/dev/null\nfalse\n")
    binaries, profile = supervised.folder / "conda/bin", supervised.folder / "conda/etc/profile.d"
    binaries.mkdir(parents=True)
    profile.mkdir(parents=True)
    (binaries / "conda").write_text(f"#!/bin/sh\necho {supervised.folder}/conda\n")
    (binaries / "conda").chmod(0o755)
    (profile / "conda.sh").write_text('conda() { echo "conda $*"; }\n')
    (supervised.folder / "train.sh").write_text("conda activate nested\n")

    code, out, err = supervised.result(
        'set -eu; echo "$FROM_BASHRC"; conda activate env; bash train.sh', PATH=f"{binaries}:{os.environ['PATH']}"
    )

    assert (code, out, err) == (0, "1\nconda activate env\nconda activate nested\n", "")


def test_only_builtins_are_needed(supervised: Supervised) -> None:
    """A busybox image with bash will do, and so will one without any other program."""
    code, out, err = supervised.result("echo run", setup="echo setup", PATH="/nonexistent", HOME="/nonexistent")

    assert (code, out, err) == (0, "setup\nrun\n", "")


def test_a_log_that_can_not_be_written_changes_nothing(supervised: Supervised) -> None:
    assert supervised.result("exit 3", JOB_TERMINATION_LOG="/nonexistent/log") == (3, "", "")
    assert supervised.result("exit 3", JOB_TERMINATION_LOG="") == (3, "", "")
    assert not Path("/dev/termination-log").exists()


@pytest.mark.parametrize(
    ("setup", "run", "code", "said"),
    [
        pytest.param(None, "sleep 60", 124, ("run", 124), id="run"),
        pytest.param(
            None, "trap 'exit 0' TERM; while :; do sleep 0.05; done", 124, ("run", 124), id="run, ending with 0"
        ),
        pytest.param("sleep 60", "true", 219, ("setup", 124), id="setup"),
        pytest.param("sleep 0.6", "sleep 0.6", 124, ("run", 124), id="the limit is for both"),
        pytest.param(None, "exit 3", 3, ("run", 3), id="in time"),
    ],
)
def test_time_limit(supervised: Supervised, setup: str | None, run: str, code: int, said: tuple[str, int]) -> None:
    """A run that takes too long has failed, whatever it makes of the signal."""
    returned, _, _ = supervised.result(run, setup=setup, timeout=1)

    assert (returned, supervised.said) == (code, {"phase": said[0], "exit_code": said[1]})


def test_a_command_over_its_time_that_ignores_the_signal_is_killed(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would: to the kubelet the container is fine."""
    hasty = SUPERVISOR.replace("read -rt 30", "read -rt 1")
    monkeypatch.setattr("reconciler.core.pod.supervisor.SUPERVISOR", hasty)

    assert supervised.result("trap '' TERM; while :; do sleep 0.05; done", timeout=1)[0] == 124


def test_a_time_limit_does_not_disturb_one_that_was_told_to_stop(supervised: Supervised) -> None:
    """It has been told; a second signal makes many programs give up saving."""
    save = "trap 'echo told; sleep 1.5; exit 0' TERM"
    process = supervised.start(f"{save}; touch ready; while :; do sleep 0.05; done", timeout=1)
    supervised.wait_for("ready")
    process.terminate()
    out, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out) == (TOLD_TO_STOP, "told\n")


def test_a_long_time_limit_leaves_no_process_behind(supervised: Supervised) -> None:
    process = supervised.start("exit 0", timeout=3600)
    process.wait(PATIENCE)

    until(lambda: not session(process.pid), "end of all processes")


def session(leader: int) -> list[int]:
    """Return the processes of a session that are more than zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == leader and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def pid_namespace() -> tuple[str, ...]:
    """Return the words that start a command as PID 1 of its own, as a container does."""
    words = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare --pid needs root, or user namespaces")
    return words


def test_as_pid_1(supervised: Supervised, pid_namespace: tuple[str, ...]) -> None:
    """It passes signals on, reaps orphans, and ends though a daemon of another session is left."""
    run = '(setsid sleep 60 &); python3 -c \'import time; open("ready", "w"); time.sleep(60)\'\necho $$'
    process = supervised.start(run, setup="[ $PPID = 1 ]", prefix=pid_namespace)
    supervised.wait_for("ready")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)

    assert process.wait(PATIENCE) == TOLD_TO_STOP
    assert supervised.said == {"phase": "run", "exit_code": 143}


def test_on_a_terminal(supervised: Supervised) -> None:
    """On a person's own terminal it neither stops for want of it nor loses Ctrl-C."""
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    run = "trap 'exit 0' INT; touch ready; while :; do sleep 0.05; done"
    process = supervised.start(run, prefix=(sys.executable, "-c", spawn))
    supervised.wait_for("ready")
    assert process.stdin is not None
    process.stdin.write("\x03")
    process.stdin.flush()

    assert process.wait(PATIENCE) == TOLD_TO_STOP
