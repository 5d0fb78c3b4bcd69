"""Write a container image of two static programs, bash and busybox, so that no registry is needed."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDERS = ("bin", "usr", "usr/bin", "tmp", "root", "etc", "proc", "sys", "dev", "run", "var")
FILES = {"etc/passwd": b"root:x:0:0:root:/root:/bin/bash\n", "etc/group": b"root:x:0:\n"}


def write_image(path: Path, name: str) -> None:
    """Write an archive that `ctr images import` and `docker load` read; its command sleeps for ever."""
    layer = _layer()
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "config": {
            "Env": ["PATH=/bin:/usr/bin"],
            "Cmd": ["/bin/busybox", "tail", "-f", "/dev/null"],
            "WorkingDir": "/root",
        },
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add_files(
            tar,
            {
                "layer.tar": layer,
                "config.json": json.dumps(config).encode(),
                "manifest.json": json.dumps(manifest).encode(),
            },
        )


def _layer() -> bytes:
    """Return the only layer: bash, and busybox under each of its names."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in FOLDERS:
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(info)
        tar.add(_program("bash-static"), arcname="bin/bash")
        tar.add(_program("busybox"), arcname="bin/busybox")
        applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
        for applet in sorted(set(applets) - {"bash", "busybox"}):
            info = tarfile.TarInfo(f"usr/bin/{applet}" if applet == "env" else f"bin/{applet}")
            info.type, info.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(info)
        _add_files(tar, FILES)
    return layer.getvalue()


def _program(name: str) -> Path:
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"no program {name} on the PATH")
    return Path(path).resolve()


def _add_files(tar: tarfile.TarFile, files: Mapping[str, bytes]) -> None:
    for name, body in files.items():
        info = tarfile.TarInfo(name)
        info.size = len(body)
        tar.addfile(info, io.BytesIO(body))
