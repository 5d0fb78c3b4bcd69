r"""The bash program in every main container: it starts setup and run, passes signals on and tells how they ended.

It exists because a bare command can't say what the Job's count needs: a command that traps SIGTERM and ends with 0 has
not finished its work, and bash as PID 1 would neither pass a signal on nor reap. The rules that it keeps:

- setup and run are two bash shells in the same folder, stdin closed. Each one first does what SkyPilot does: it sources
  `~/.bashrc` and conda's profile where there are any, so that `conda activate` works, and sets PYTHONUNBUFFERED=1.
- Each is a process group. TERM, INT, HUP and QUIT go to the whole group, and the program then stays until the last
  process of the group is gone: of `python train.py; echo done` the shell dies at once, and Python saves its checkpoint.
- A second before the grace period ends (JOB_GRACE_SECONDS) it kills the group itself and still ends with 217. The
  kubelet would kill this program too, and 137 says nothing of being told to stop: after `kubectl delete pod` no
  condition on the pod does either.
- What a phase leaves in its group when it ends by itself is killed with it, as in SkyPilot.
- A time limit covers both phases of one attempt: TERM, KILL 30 seconds later, exit code 124.
- Only builtins of bash 4 are used, so that any image with bash will do. It need not be PID 1.

Exit codes: 217 told to stop while a phase was at work or outstanding, whatever the phase returned · 219 setup failed ·
else run's own (128 + n for signal n), with 217, 218, 219 and 255 passed on as 1. JOB_TERMINATION_LOG (default
/dev/termination-log) gets `{"phase": "setup"|"run", "exit_code": N}`, with the phase's own code; null while it runs,
which is what remains after a SIGKILL. JOB_ATTEMPT is 0 in the first attempt and above 0 in every later one: the index
and the failures within it. JOB_COMPLETION_INDEX is taken away, since JAX and others take it for a rank.
`several_nodes` has what is different where a run has several: then 218 tells of a lost peer.

The codes have their names, and their meaning for the Job, in `core.exit_codes`.
"""

from __future__ import annotations

from reconciler.core.pod.several_nodes import SEVERAL_NODES

GRACE_VARIABLE = "JOB_GRACE_SECONDS"  # the pod's terminationGracePeriodSeconds
FAILURES_VARIABLE = "JOB_INDEX_FAILURES"  # the pod's annotation FAILURES_ANNOTATION, which is not always there
FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"

_BEGIN = r"""
# Names begin with __ because a variable that the job has too would be changed for it.
__told= __late= __stopped= __group= __signalled= __trapped= __never= __deadline=
__code=0
trap '__told=1' TERM INT HUP QUIT  # until there is something to pass them on to
if ((BASH_VERSINFO[0] < 4)); then
  printf 'job supervisor: needs bash 4 or newer, found %s\n' "$BASH_VERSION" >&2
  exit 219
fi

__log=${JOB_TERMINATION_LOG:-/dev/termination-log}
__grace=${JOB_GRACE_SECONDS:-0}
unset JOB_TERMINATION_LOG JOB_GRACE_SECONDS

# One line, so that bash's messages number the lines of the script right.
__prelude='[ -f ~/.bashrc ] && . ~/.bashrc; set -a; '
__prelude+='type -P conda >/dev/null && . "$(conda info --base 2>/dev/null)/etc/profile.d/conda.sh" >/dev/null 2>&1; '
__prelude+='set +a; export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"; '

record() {  # PHASE EXIT_CODE; never makes a file in /dev
  [[ $__log != /dev/termination-log || -e $__log ]] || return
  { printf '{"phase": "%s", "exit_code": %s}\n' "$1" "$2" >"$__log"; } 2>/dev/null
}

forward() {  # SIGNAL
  [[ $__group ]] && kill -s "$1" -- "-$__group" 2>/dev/null && __signalled=1
}

now() {  # in milliseconds; bash 4 knows seconds only
  local __micros=${EPOCHREALTIME:-${SECONDS}000000}
  __now=$((${__micros/[.,]/} / 1000))
}

stop() {  # SIGNAL
  __trapped=1
  if [[ ! $__told ]]; then
    now
    ((__grace > 1)) && __deadline=$((__now + __grace * 1000 - 1000))
  fi
  __told=1
  forward "$1"
}

expire() {  # SIGNAL; not after stop, because a second signal could end what saves its state
  __trapped=1
  [[ $__told ]] || { __late=1; forward "$1"; }
}

group_alive() {  # a zombie is not alive: not every PID 1 reaps
  kill -0 -- "-$__group" 2>/dev/null || return
  [[ -r /proc/self/stat ]] || return 0
  local __file __stat
  for __file in /proc/[0-9]*/stat; do
    __stat=
    { read -r -d '' __stat <"$__file"; } 2>/dev/null
    __stat=(${__stat##*) })
    [[ ${__stat[2]} == "$__group" && ${__stat[0]} != [ZX] ]] && return 0
  done
  return 1
}

await_group() {  # to its last process; the deadline ends it
  [[ $__never ]] || exec {__never}<> <(:)
  while group_alive; do
    read -rt 0.1 -u "$__never"
    now
    [[ $__deadline ]] && ((__now >= __deadline)) && kill -s KILL -- "-$__group" 2>/dev/null
  done
}

phase() {  # NAME SCRIPT
  if [[ $__told || $__late ]]; then  # between the phases
    __stopped=$__told
    [[ $__late ]] && __code=124 && record "$1" 124
    return
  fi
  record "$1" null
  __signalled=
  set -m  # gives the job a process group; off again, or wait would return when it is suspended
  "$BASH" -c "$__prelude$2" bash </dev/null &
  __group=$!
  set +m
  [[ ($__told || $__late) && ! $__signalled ]] && forward TERM  # told between the start and the line before
  while  # a trap ends the wait, with a status that is not the phase's; bash remembers that one
    __trapped=
    [[ $__told ]] && await_group
    wait "$__group" 2>/dev/null
    __code=$?
    [[ $__trapped ]]
  do :; done
  __stopped=$__told
  [[ $__told || $__late ]] && await_group
  kill -s KILL -- "-$__group" 2>/dev/null
  __group=
  [[ $__late ]] && __code=124
  record "$1" "$__code"
}

"""

_ONE_NODE = r"""
export JOB_ATTEMPT=$((${JOB_COMPLETION_INDEX:-0} + ${JOB_INDEX_FAILURES:-0}))
unset JOB_COMPLETION_INDEX JOB_INDEX_FAILURES
start() { :; }
end() { exit "$1"; }  # CODE
"""

_MAIN = r"""
trap 'stop TERM' TERM
trap 'stop INT' INT
trap 'stop HUP' HUP
trap 'stop QUIT' QUIT
start
if [[ $3 ]]; then
  trap 'expire TERM' USR1
  trap 'expire KILL' USR2
  coproc __CLOCK {  # the pipe from this shell closes with it, and then read fails without the timeout's status
    read -rt "$3"
    (($? > 128)) && kill -s USR1 "$$" && read -rt 30
    (($? > 128)) && kill -s USR2 "$$"
  }
fi

if [[ $1 ]]; then
  phase setup "$1"
  [[ $__stopped ]] && exit 217
  ((__code == 0)) || end 219
fi
phase run "$2"
[[ $__stopped ]] && exit 217
case $__code in
  217 | 218 | 219 | 255) end 1 ;;
esac
end "$__code"
"""

SUPERVISOR = _BEGIN + _ONE_NODE + _MAIN
SUPERVISOR_OF_A_RANK = _BEGIN + SEVERAL_NODES + _MAIN


def container_command(
    setup: str | None, run: str, timeout_seconds: int | None = None, *, nodes: int = 1
) -> tuple[list[str], list[str]]:
    """Return a container's `command` and `args` that run the scripts under the supervisor, on one of so many nodes.

    The kubelet expands `$(NAME)` and halves `$$` in both; every `$` is doubled so that it restores what was written.
    Whoever starts the command by other means must halve them too.
    """
    limit = [] if timeout_seconds is None else [str(timeout_seconds)]
    words = [SUPERVISOR if nodes == 1 else SUPERVISOR_OF_A_RANK, "job-supervisor", setup or "", run, *limit]
    return ["bash", "-c"], [literal(word) for word in words]


def literal(text: str) -> str:
    """Write a text so that the kubelet's expansion of `command`, `args` and `env` values gives it back unchanged."""
    return text.replace("$", "$$")
