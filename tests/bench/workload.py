"""A repository with any number of jobs, the same at each run: what a team of some size would have in git."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

OWNER = "bench"
TEAMS = 20
CLASSES = ("bench-low", "bench-normal", "bench-urgent")
SETTINGS = f"owner: {OWNER}\nnamespace: default\ndefault_image: docker.io/library/python:3.12\n"
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")


@dataclass(frozen=True, slots=True)
class Workload:
    """A clone with its remote beside it. `suspended` jobs have no pods; others wait for a node, since there is none."""

    folder: Path
    jobs: int
    suspended: bool = False

    @property
    def clone(self) -> Path:
        """The folder that `reconcile` runs in."""
        return self.folder / "clone"

    def write(self) -> None:
        """Write and commit all files, and push them to a bare repository."""
        for path, text in self.files().items():
            file = self.clone / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        git(self.folder, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
        git(self.clone, "init", "--quiet", "--initial-branch=main")
        git(self.clone, "add", "--all")
        git(self.clone, *IDENTITY, "commit", "--quiet", "--message=All jobs")
        git(self.clone, "remote", "add", "origin", str(self.folder / "remote.git"))
        git(self.clone, "push", "--quiet", "--set-upstream", "origin", "main")

    def files(self) -> dict[str, str]:
        """Return the content of the repository."""
        classes = "---\n".join(_priority_class(name, value) for value, name in enumerate(CLASSES))
        tasks = {f"jobs/team-{i % TEAMS:02}/train-{i:05}.yaml": self._task(i) for i in range(self.jobs)}
        return {"reconciler.yaml": SETTINGS, "priorities/classes.yaml": classes, **tasks}

    def _task(self, number: int) -> str:
        suspend = '\n    custom_metadata: {annotations: {job-reconciler/suspend: "true"}}' if self.suspended else ""
        return f"""\
# Experiment {number} of team {number % TEAMS}: learning rate and depth vary, the data set stays.
name: train-{number:05}
resources:
  cpus: {1 + number % 8}
  memory: {4 * (1 + number % 8)}
  job_recovery:
    max_restarts_on_errors: {number % 3}
envs:
  LEARNING_RATE: "{1 / (1 + number):.6f}"
  DEPTH: {12 + number % 36}
  DATA: s3://datasets/images-{number % 7}
  RUN_NAME: experiment-{number}
setup: |
  python -m venv /tmp/venv
  /tmp/venv/bin/pip install --quiet "torch>=2.4" datasets wandb
run: |
  set -e
  echo "experiment $RUN_NAME, attempt $JOB_ATTEMPT"
  /tmp/venv/bin/python train.py --lr "$LEARNING_RATE" --depth "$DEPTH" --data "$DATA" \\
    --checkpoints /checkpoints/{number} --resume
config:
  kubernetes:{suspend}
    pod_config:
      metadata:
        labels: {{team: team-{number % TEAMS:02}}}
      spec:
        priorityClassName: {CLASSES[number % 3]}
        terminationGracePeriodSeconds: 30
        nodeSelector: {{pool: training}}
"""


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it says."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _priority_class(name: str, value: int) -> str:
    return (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
        f"metadata: {{name: {name}}}\nvalue: {1000 * (value + 1)}\ndescription: For the benchmark.\n"
    )
