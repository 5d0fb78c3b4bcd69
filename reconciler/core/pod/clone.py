r"""The init container that clones a repository into a folder which it shares with the main container.

What ends it decides what becomes of the run, so it has exit codes of its own, by which the Job's policy tells them:

- 1: it can't be had: no such commit, branch or tag, no such repository, or no right to it. An error.
- 75: the host could not be reached, or broke off, for some four minutes. An interruption: hosts come back.
- 217: it was told to stop. An interruption, too. sh as PID 1 would ignore TERM, and hears it only in `wait`.

What git said stands in its log and its termination message. GIT_TOKEN is told to the host of the URL alone, not to one
that it redirects to.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.core.pod.supervisor import literal
from reconciler.model import GitWorkdir, Manifest, Site, Task

CLONE = "job-clone"
WORKDIR, REPOSITORY = "workdir", "repository"
CLONE_CONTAINERS = (f"clone-{WORKDIR}", f"clone-{REPOSITORY}")
CREDENTIALS = frozenset({"GIT_TOKEN", "GIT_USERNAME"})

_SCRIPT = r"""set -u
child=
trap 'trap "" TERM; kill $child 2>/dev/null; exit 217' TERM
cd "$CLONE_INTO"
export GIT_TERMINAL_PROMPT=0 HOME="$PWD" LC_ALL=C
if [ -n "${GIT_TOKEN-}" ]; then
  host=${CLONE_URL#*://}
  git config --global "credential.${CLONE_URL%%://*}://${host%%/*}.helper" \
    '!f() { echo "username=${GIT_USERNAME:-x-access-token}"; echo "password=$GIT_TOKEN"; }; f'
fi
broken='unable to access|RPC failed|hung up|early EOF|disconnect|timed out|index-pack'
lasting='no such commit, branch or tag|Authentication failed|could not read (Username|Password)|'
lasting=$lasting'returned error: 40[134]|^fatal: repository .* not found|does not appear to be a git repository'

said() {
  echo "could not clone: $(sed -n 's/^fatal: //p' problem | head -n 1) ($CLONE_URL at $CLONE_REF)"
}
fail() {
  echo "$(said). Is it pushed? Where it is private, give the job secrets: {GIT_TOKEN: null}" |
    tee /dev/termination-log >&2
  exit 1
}
run() {  # COMMAND...
  "$@" 2>problem &
  child=$!
  wait "$child"
}
fetch() {  # ARGUMENTS...
  run git -C "$CLONE_NAME" fetch --quiet "$@"
}
get() {  # not every host gives out any commit, so all of it where just this one can't be had
  fetch --depth=1 origin "$CLONE_REF" && return
  grep -Eq "$broken" problem && return 1
  fetch --tags origin '+refs/heads/*:refs/remotes/origin/*' || return 1
  for name in "$CLONE_REF" "origin/$CLONE_REF"; do
    run git -C "$CLONE_NAME" rev-parse --quiet --verify "$name^{commit}" >"$CLONE_NAME/.git/FETCH_HEAD" && return
  done
  echo "fatal: there is no such commit, branch or tag" >problem
  return 1
}

git init --quiet "$CLONE_NAME" 2>problem || fail
git -C "$CLONE_NAME" remote add origin "$CLONE_URL"
for pause in 2 4 8 16 32 60 60 60 none; do
  get && break
  grep -Eq "$lasting" problem && fail
  if [ "$pause" = none ]; then
    said | tee /dev/termination-log >&2
    exit 75
  fi
  echo "$(said); the next try is in $pause s" >&2
  run sleep "$pause"
done
run git -C "$CLONE_NAME" checkout --quiet --detach FETCH_HEAD || fail
{
  echo "export GIT_COMMIT_HASH=$(git -C "$CLONE_NAME" rev-parse HEAD)"
  if grep -q "branch '" "$CLONE_NAME/.git/FETCH_HEAD"; then echo 'export GIT_BRANCH="$CLONE_REF"'; fi
  if grep -q "tag '" "$CLONE_NAME/.git/FETCH_HEAD"; then echo 'export GIT_TAG="$CLONE_REF"'; fi
} >"$CLONE_NAME.env"
chmod -R a+rX .
"""
_WITHOUT_TASKS = r"""
rm -rf "$CLONE_NAME/.git"
find "$CLONE_NAME/jobs" \( -name '*.yaml' -o -name '*.yml' \) -exec rm -f {} + 2>/dev/null || true
"""


def clone_container(  # noqa: PLR0913 - beyond four by name only
    task: Task, site: Site, name: str, what: GitWorkdir, *, into: str, env: Sequence[Manifest]
) -> Manifest:
    """Return what clones into a folder of this name, WORKDIR or REPOSITORY; the latter has no history, and no tasks.

    `env` has the job's variables, of which those for the host's login are passed on.
    """
    own = {"CLONE_INTO": into, "CLONE_NAME": name, "CLONE_URL": what.url, "CLONE_REF": what.ref or "HEAD"}
    login = [entry for entry in env if entry["name"] in CREDENTIALS]
    return {
        "name": f"clone-{name}",
        "image": site.git_image,
        "command": ["sh", "-c"],
        "args": [literal(_SCRIPT + (_WITHOUT_TASKS if name == REPOSITORY else ""))],
        "env": [{"name": key, "value": literal(value)} for key, value in own.items()] + login,
        "resources": {"requests": {"cpu": task.resources.cpus, "memory": task.resources.memory}},  # as main's: no more
        "volumeMounts": [{"name": CLONE, "mountPath": into}],
    }
