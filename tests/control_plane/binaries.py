"""Build the programs of the control plane from their Go modules, once; later builds find them in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "1.35.4"
KWOK = "0.8.0"
JOBSET = "0.12.0"
HERE = Path(__file__).resolve().parent
FOLDER_VARIABLE = "RECONCILER_CONTROL_PLANE_BINARIES"


def binaries_folder() -> Path:
    """Return where the binaries are, or would be."""
    stated = os.environ.get(FOLDER_VARIABLE)
    return Path(stated) if stated else Path.home() / ".cache" / "job-reconciler" / "control-plane" / VERSION


def built(folder: Path) -> bool:
    """Tell whether nothing is left to build."""
    return all((folder / name).exists() for name in ("controlplane", "kwok", "jobset"))


def build(folder: Path) -> None:
    """Build what is missing: `controlplane` (Kubernetes, etcd and kubectl in one binary), `kwok` and `jobset`."""
    if built(folder):
        return
    go = shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/go/bin")))
    if go is None:
        sys.exit("The control plane is built with Go 1.25 or newer, and there is no `go` on the PATH: install it.")
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)}
    if not (folder / "controlplane").exists():
        print(f"Building Kubernetes {VERSION} into {folder}: about 5 minutes the first time.", file=sys.stderr)
        part = folder / f"controlplane.{os.getpid()}"
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", _linker_flags(), "-o", str(part), "."]
        subprocess.run(command, cwd=HERE, check=True, env=environment)
        part.rename(folder / "controlplane")
    if not (folder / "kwok").exists():
        print(f"Building KWOK {KWOK}: about 2 minutes the first time.", file=sys.stderr)
        subprocess.run([go, "install", f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"], cwd=folder, check=True, env=environment)
    if not (folder / "jobset").exists():
        print(f"Building JobSet {JOBSET}: about 3 minutes the first time.", file=sys.stderr)
        _build_jobset(go, folder, environment)


def _build_jobset(go: str, folder: Path, environment: dict[str, str]) -> None:
    """Build its controller, and take over the objects that it is installed by; the binary last: it stands for all.

    It is built where its module lies, for `go install` would want the list of its versions, which not every proxy has.
    """
    module = f"sigs.k8s.io/jobset@v{JOBSET}"
    download = [go, "mod", "download", "-json", module]
    answer = subprocess.run(download, cwd=folder, check=True, env=environment, capture_output=True)
    source = Path(json.loads(answer.stdout)["Dir"])
    parts = {
        "crd/bases/jobset.x-k8s.io_jobsets.yaml": "jobset-crd.yaml",
        "webhook/manifests.yaml": "jobset-webhooks.yaml",
    }
    for path, name in parts.items():
        (folder / name).write_bytes((source / "config" / "components" / path).read_bytes())
    part = folder / f"jobset.{os.getpid()}"
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(part), "."]
    subprocess.run(command, cwd=source, check=True, env=environment)
    part.rename(folder / "jobset")


def _linker_flags() -> str:
    """Strip the binary, and tell it which version it is: servers and clients judge each other by that."""
    minor = VERSION.split(".")[1]
    versions = (
        f"-X {package}.gitVersion=v{VERSION} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    )
    return " ".join(("-s -w", *versions))
