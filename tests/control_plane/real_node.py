"""One real node: containerd, runc and a kubelet run real containers on this machine. Needs root and Debian packages.

The node is called `localhost`, because that is how the API server reaches its kubelet for logs. It has the image IMAGE
(bash and busybox; imagePullPolicy Never or IfNotPresent), one `example.com/slot` for jobs that must not share it, and
the machine's CPUs or as many of them as was asked for: a kubelet can reserve CPUs for others, but not invent any. Its
pods find each other by the names of headless Services, see cluster_dns.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from container_image import write_image
from processes import NotReadyError, Processes

if TYPE_CHECKING:
    from control_plane import ControlPlane

NAME = "localhost"
IMAGE = "docker.io/local/bash:1"
PACKAGES = {  # a program or file, and the Debian package that brings it
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "bash-static": "bash-static",
    "busybox": "busybox-static",
    "openssl": "openssl",
}
GATEWAY = "10.88.0.1"  # this machine, as its pods see it
DNS = Path(__file__).with_name("cluster_dns.py")
LOCK = Path("/run/lock/job-reconciler-real-node")
CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  # Without CAP_SYS_RESOURCE, asking for a lower OOM score ends as "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def missing_packages() -> list[str]:
    """Return the Debian packages that the control plane and its real node need, and this machine lacks."""
    return [package for program, package in PACKAGES.items() if shutil.which(program) is None]


@dataclass(frozen=True, slots=True)
class RealNode:
    """The node of one control plane."""

    control_plane: ControlPlane

    @property
    def folder(self) -> Path:
        """Where containerd and the kubelet keep all they have."""
        return self.control_plane.folder

    @property
    def processes(self) -> Processes:
        """The processes of the control plane, where the node's own belong too."""
        return self.control_plane.processes

    @property
    def socket(self) -> str:
        """Where containerd listens; the path of a socket has at most 107 bytes, so not in the folder."""
        return f"/tmp/job-reconciler-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}.sock"

    def add(self, cpus: int | None = None) -> None:
        """Start the node and wait until pods can run on it. One at a time on a machine: waits for its turn."""
        with LOCK.open("w") as lock:
            self._take_turn(lock.fileno())
            self._start_containerd()
        self.processes.start("cluster-dns", sys.executable, str(DNS), str(self.control_plane.kubeconfig), GATEWAY)
        self._start_kubelet(cpus)
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        self.processes.wait(
            lambda: self.control_plane.kubectl("get", "node", NAME, "--ignore-not-found", "-o", ready) == "True",
            "the node",
            seconds=120,
        )
        self.control_plane.offer(NAME, "example.com/slot", 1)

    def remove(self) -> None:
        """Stop the kubelet, all containers and containerd, and give back what they took of the machine."""
        self.processes.kill("kubelet")
        self.processes.kill("cluster-dns")
        if self.processes.started("containerd"):
            self._remove_containers()
        self.processes.kill("containerd")
        for socket in (self.socket, f"{self.socket}.ttrpc"):
            Path(socket).unlink(missing_ok=True)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((mount for mount in mounts if mount.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)

    def _take_turn(self, lock: int) -> None:
        """Take the machine's lock and hand it to containerd: it is free when containerd and its shims are gone."""
        fcntl.fcntl(lock, fcntl.F_SETFD, 0)  # inherited by what we start

        def taken() -> bool:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True

        try:
            taken()
        except OSError:
            print("control_plane: waiting until another real node of this machine is gone", file=sys.stderr)
            self.processes.wait(taken, f"the other holder of {LOCK}", seconds=900)

    def _start_containerd(self) -> None:
        folder = self.folder / "containerd"
        (folder / "cni").mkdir(parents=True, exist_ok=True)
        (folder / "cni" / "10-test.conflist").write_text(json.dumps(self._network()))
        (folder / "config.toml").write_text(CONTAINERD.format(folder=folder, socket=self.socket, image=IMAGE))
        self.processes.start("containerd", "containerd", "--config", str(folder / "config.toml"))
        self.processes.wait(lambda: self._ctr("version").returncode == 0, "containerd")
        write_image(self.folder / "image.tar", IMAGE)
        self._ctr("images", "import", str(self.folder / "image.tar")).check_returncode()

    def _start_kubelet(self, cpus: int | None) -> None:
        file = self.folder / "kubelet.json"
        file.write_text(json.dumps(self._kubelet_configuration(cpus)))
        self.control_plane.start(
            "kubelet",
            f"--kubeconfig={self.control_plane.kubeconfig}",
            f"--config={file}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'kubelet-certs'}",
            f"--hostname-override={NAME}",
        )

    def _network(self) -> dict[str, object]:
        """Return the CNI configuration: pods reach this machine and each other, nothing else."""
        addresses = {
            "type": "host-local",
            "dataDir": str(self.folder / "ipam"),
            "ranges": [[{"subnet": "10.88.0.0/24", "gateway": GATEWAY}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": "test", "plugins": [plugin]}

    def _kubelet_configuration(self, cpus: int | None) -> dict[str, object]:
        machine = os.cpu_count() or 1
        if cpus is not None and cpus > machine:
            raise NotReadyError(f"a real node has at most the {machine} CPUs of this machine, not {cpus}")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": self.control_plane.free_port(),
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,  # 1.35 refuses cgroup v1 otherwise
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "enforceNodeAllocatable": [],
            "systemReserved": {"cpu": str(machine - cpus) if cpus else "0"},
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "resolvConf": "",
            "clusterDNS": [GATEWAY],
            "clusterDomain": "cluster.local",
            "podLogsDir": str(self.folder / "podlogs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "1s",
            "syncFrequency": "5s",
        }

    def _remove_containers(self) -> None:
        """Kill what runs, and let go of each sandbox's network namespace, which is a mount of the machine."""
        for task in self._ctr("tasks", "list", "--quiet").stdout.split():
            self._ctr("tasks", "delete", "--force", task)
        for container in self._ctr("containers", "list", "--quiet").stdout.split():
            spec = json.loads(self._ctr("containers", "info", container).stdout).get("Spec") or {}
            for namespace in spec.get("linux", {}).get("namespaces", []):
                path = namespace.get("path", "")
                if namespace["type"] == "network" and Path(path).parent.name == "netns":
                    subprocess.run(["umount", path], check=False, capture_output=True)
                    Path(path).unlink(missing_ok=True)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", self.socket, "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)
