"""A job prints what bash prints for the same scripts by hand: nothing that brings them to the pod leaves a trace."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flows.conftest import Team

pytestmark = pytest.mark.kubelet

TOKEN = "s3cr3t $(PLAIN) 'x'\n"
TASK = r"""
resources: {cpus: 0.01, memory: 64MB}
workdir: app
file_mounts: {/mounted: settings}
envs:
  PLAIN: 007
  DOLLARS: a$b $(PLAIN) ${PLAIN} $$ $$$ pa$$word
  QUOTES: "it's \"so\" `x` \\ \\n %s"
  LINES: "first\n\tsecond\n\nlast\n"
  UNICODE: "Größe ≥ テスト 🎉"
  EMPTY: ""
  SHARED: /shared
  NODE: /node
  MOUNTED: /mounted
secrets: {TOKEN: null}
setup: |
  echo "setup has $PLAIN"
  export LOST=yes
  echo "left by setup" > left
  cd /
run: |
  set -euo pipefail
  echo "${LOST-setup is a shell of its own}"
  cat left
  ./tool "$DOLLARS" 'two words'
  cat data/table.csv "$MOUNTED/deep/value.txt"
  for name in PLAIN DOLLARS QUOTES LINES UNICODE EMPTY TOKEN; do
    printf '%s=[%s] %q\n' "$name" "${!name}" "${!name}"
  done
  cat "$SHARED/from-init" "$NODE/from-node"
  until [ -e "$SHARED/from-sidecar" ]; do sleep 0.1; done
  cat "$SHARED/from-sidecar"
  cat <<'END'
    $(date) $$ `x` \ "kept" $(PLAIN)
  END
  cat <<END
  $PLAIN $((6 * 7)) \$
  END
  (exit 7) || echo "code $?"
  [[ $UNICODE == Größe* ]] && echo bash
config:
  kubernetes:
    pod_config:
      spec:
        terminationGracePeriodSeconds: 2
        initContainers:
        - name: init
          image: local/bash:1
          command: [bash, -c, echo from init > /shared/from-init]
          volumeMounts: [{name: shared, mountPath: /shared}]
        containers:
        - volumeMounts: [{name: shared, mountPath: /shared}, {name: node, mountPath: /node, readOnly: true}]
        - name: sidecar
          image: local/bash:1
          command: [bash, -c, "echo from sidecar > /shared/from-sidecar; while :; do sleep 0.1; done"]
          volumeMounts: [{name: shared, mountPath: /shared}]
        volumes:
        - {name: shared, emptyDir: {}}
        - {name: node, hostPath: {path: FOLDER, type: Directory}}
"""
FILES = {
    "app/tool": "#!/bin/bash\nprintf '<%s>' \"$@\"; echo\n",
    "app/data/table.csv": "a;b\r\n1;größe\r\n",
    "settings/deep/value.txt": "no newline at the end",
}


def test_a_job_prints_what_bash_prints_by_hand(cluster_team: Team, tmp_path: Path) -> None:
    """Scripts, files, an executable, variables of all kinds, a Secret, other containers and volumes."""
    team, node = cluster_team, tmp_path / "node"
    node.mkdir()
    (node / "from-node").write_text("from the node\n", encoding="utf-8")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "job-secrets"}, "stringData": {"TOKEN": TOKEN}}
    team.kubectl("create", "--filename=-", stdin=json.dumps(secret))
    team.commit(FILES)
    (team.folder / "app/tool").chmod(0o755)
    team.git(team.folder, "update-index", "--chmod=+x", "app/tool")
    team.commit({"jobs/train.yaml": TASK.replace("FOLDER", str(node))})
    team.reach("train", "SUCCEEDED", recoveries=0)

    assert team.log("train") == by_hand(team.folder, node)


def by_hand(repository: Path, node: Path) -> str:
    """Return what the scripts print in two shells of this machine, with what the other containers do."""
    task = yaml.load(TASK, yaml.BaseLoader)  # noqa: S506 - all scalars are texts, as they stand there
    for name in ("init", "sidecar"):
        (node / f"from-{name}").write_text(f"from {name}\n", encoding="utf-8")
    places = {"SHARED": str(node), "NODE": str(node), "MOUNTED": str(repository / "settings")}
    environ = {"PATH": "/bin:/usr/bin", **task["envs"], "TOKEN": TOKEN, **places}
    printed = ""
    for script in (task["setup"], task["run"]):
        shell = subprocess.run(
            ["bash", "-c", script], cwd=repository / "app", env=environ, capture_output=True, text=True, check=True
        )
        printed += shell.stdout
    return printed
