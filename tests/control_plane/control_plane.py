#!/usr/bin/env python3
"""A real Kubernetes control plane on this machine's loopback: etcd, API server, controllers, scheduler.

  control_plane.py build                     build the binaries (once; 9 minutes on 2 cores)
  control_plane.py packages                  print the Debian packages that are missing, if any
  control_plane.py up DIR [--kubelet] [--nodes N] [--jobset]   start it, wait until it is ready, print the kubeconfig
  control_plane.py run DIR [the same flags]  the same, and `down` when standard input or the process ends
  control_plane.py restart DIR COMPONENT     kill one component as a crash would, and start it again
  control_plane.py down DIR                  stop what was started in DIR; the folder stays, for its logs

`--kubelet` adds a real node named `localhost`, see real_node.py; `--cpus N` gives it fewer CPUs than the machine has.
`--nodes N` adds simulated nodes node-0, node-1, ...: KWOK plays their pods by stages.yaml. They are tainted, so that a
pod runs there only if it tolerates `kwok.x-k8s.io/node`. `--jobset` installs JobSet, see jobset_controller.py.

The kubeconfig has the contexts `test` (may do everything), `reader` (may read everything), `nobody` (may do nothing)
and `expired` (its token is refused). DIR/audit.log has all writes but those of Events and Leases.
DIR holds all state, logs and pids. Everything listens on 127.0.0.1, on ports that were free at the start.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaries import HERE, binaries_folder, build
from jobset_controller import JobSetController
from processes import Processes
from real_node import RealNode, missing_packages

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}, {"group": "", "resources": ["events"]}]},
        {"level": "None", "resources": [{"group": "events.k8s.io"}]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    ],
}
READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
"""


@dataclass(frozen=True, slots=True)
class Write:
    """One request that may have changed something, from the audit log. `code` is the HTTP status of its answer."""

    verb: str
    resource: str
    namespace: str
    name: str
    agent: str
    code: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane, running or not; the folder is all that is known about it.

    With `external` it is somebody else's, reached by that kubeconfig: then only kubectl and what builds on it works.
    """

    folder: Path
    binaries: Path
    external: Path | None = None

    @property
    def kubeconfig(self) -> Path:
        """The way in; there from `up` on."""
        return self.external or self.folder / "kubeconfig"

    @property
    def processes(self) -> Processes:
        """What runs, by component."""
        return Processes(self.folder)

    @property
    def certificates(self) -> Path:
        """The API server's own certificate, and the key that signs service accounts' tokens."""
        return self.folder / "certificates"

    def up(self) -> None:
        """Start all components and wait until pods can be created."""
        self.certificates.mkdir(parents=True)
        tokens = {user: secrets.token_hex(16) for user in ("test", "reader", "nobody", "expired")}
        etcd = f"http://127.0.0.1:{self.free_port()}"
        api = f"https://127.0.0.1:{self.free_port()}"
        self._start_etcd(etcd)
        self._start_api_server(etcd, api, tokens)
        self._start_controllers()
        self.kubectl("create", "-f", "-", stdin=READER)
        self.processes.wait(lambda: self.exists("serviceaccount", "default"), "the default service account")

    def down(self) -> None:
        """Stop what runs, if anything does, and give the mounts of its containers back."""
        RealNode(self).remove()
        for name in ("jobset", "kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.processes.kill(name)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it says. Raises CalledProcessError, with its stderr as a note."""
        binary = self.binaries / "controlplane"
        command = [str(binary), "kubectl"] if binary.exists() else ["kubectl"]
        command += [f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, input=stdin, check=False)
        try:
            done.check_returncode()
        except subprocess.CalledProcessError as error:
            error.add_note(done.stderr)
            raise
        return done.stdout

    def get(self, kind: str, name: str = "", *, namespace: str = "default") -> Any:
        """Return an object, or a list's items, as the API has them. Raises CalledProcessError when it is not there."""
        answer = json.loads(
            self.kubectl("get", kind, *([name] if name else []), f"--namespace={namespace}", "--output=json")
        )
        return answer if name else answer["items"]

    def exists(self, kind: str, name: str, *, namespace: str = "default") -> bool:
        """Tell whether the API has an object of that name."""
        return bool(self.kubectl("get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=name"))

    def restart(self, component: str) -> None:
        """Kill a component as a crash would, start it again, and wait until the API answers."""
        self.processes.restart(component)
        self._wait_for_api()

    def offer(self, node: str, resource: str, count: int) -> None:
        """Give a node so many of an extended resource and wait until pods can ask for it."""
        path = resource.replace("/", "~1")
        patch = [{"op": "add", "path": f"/status/capacity/{path}", "value": str(count)}]
        self.kubectl("patch", "node", node, "--subresource=status", "--type=json", f"--patch={json.dumps(patch)}")

        def offered() -> bool:
            return bool(self.get("node", node)["status"]["allocatable"].get(resource) == str(count))

        self.processes.wait(offered, f"{node} to offer {resource}")

    def add_simulated_nodes(
        self, *names: str, cpus: int = 8, memory: str = "32Gi", gpus: int = 8, slots: int = 1
    ) -> None:
        """Add nodes that only KWOK plays, of any size, and wait until they are ready.

        `slots` is how many `example.com/slot` each has, for jobs that are meant to take the place of each other.
        """
        if not self.processes.started("kwok"):
            self.processes.start(
                "kwok",
                str(self.binaries / "kwok"),
                f"--kubeconfig={self.kubeconfig}",
                f"--config={HERE / 'stages.yaml'}",
                "--manage-nodes-with-label-selector=type=kwok",
                "--node-lease-duration-seconds=40",
            )
        size = {"cpu": str(cpus), "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
        size |= {"nvidia.com/gpu": str(gpus), "example.com/slot": str(slots)}
        nodes = [_simulated_node(name, size) for name in names]
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        self.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"node/{name}" for name in names))

    def writes(self, agent: str = "") -> list[Write]:
        """Return the writes so far of the clients whose User-Agent starts with `agent`, as the API server saw them."""
        events = [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]
        return [_write(event) for event in events if event.get("userAgent", "").startswith(agent)]

    def start(self, component: str, *flags: str) -> None:
        """Start one component of the binary that has them all."""
        self.processes.start(component, str(self.binaries / "controlplane"), component, *flags)

    @staticmethod
    def free_port() -> int:
        """Return a port that nobody listens on now."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _start_etcd(self, address: str) -> None:
        self.start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={address}",
            f"--advertise-client-urls={address}",
            f"--listen-peer-urls=http://127.0.0.1:{self.free_port()}",
        )

    def _start_api_server(self, etcd: str, address: str, tokens: dict[str, str]) -> None:
        key, policy, users = self.certificates / "sa.key", self.folder / "audit.json", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        policy.write_text(json.dumps(AUDIT_POLICY))
        users.write_text(
            f'{tokens["test"]},test,test,"system:masters"\n{tokens["reader"]},reader,reader\n{tokens["nobody"]},nobody,nobody\n'
        )
        self.start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={address.rpartition(':')[2]}",
            f"--cert-dir={self.certificates}",
            f"--token-auth-file={users}",
            "--authorization-mode=Node,RBAC",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--kubelet-preferred-address-types=Hostname",
            "--allow-privileged=true",
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
        )
        self.processes.wait((self.certificates / "apiserver.crt").exists, "kube-apiserver's certificate")
        self.kubeconfig.write_text(
            json.dumps(_kubeconfig(address, self.certificates / "apiserver.crt", tokens), indent=1)
        )
        self.kubeconfig.chmod(0o600)
        self._wait_for_api()

    def _start_controllers(self) -> None:
        shared = (
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        self.start(
            "kube-controller-manager",
            *shared,
            f"--secure-port={self.free_port()}",
            f"--root-ca-file={self.certificates / 'apiserver.crt'}",
            f"--service-account-private-key-file={self.certificates / 'sa.key'}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--concurrent-job-syncs=10",
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=20s",  # NB: KWOK renews its nodes' leases each 10 s
        )
        self.start("kube-scheduler", *shared, f"--secure-port={self.free_port()}")

    def _wait_for_api(self) -> None:
        configuration = json.loads(self.kubeconfig.read_text())
        address = configuration["clusters"][0]["cluster"]["server"]
        headers = {"Authorization": f"Bearer {configuration['users'][0]['user']['token']}"}
        trust = ssl.create_default_context(cafile=str(self.certificates / "apiserver.crt"))
        request = urllib.request.Request(f"{address}/readyz", headers=headers)

        def ready() -> bool:
            with urllib.request.urlopen(request, context=trust, timeout=2) as answer:
                return bool(answer.status == 200)

        self.processes.wait(ready, "kube-apiserver to be ready")


def _kubeconfig(address: str, certificate: Path, tokens: dict[str, str]) -> dict[str, Any]:
    cluster = {"server": address, "certificate-authority": str(certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}} for user, token in tokens.items()],
        "contexts": [{"name": user, "context": {"cluster": "test", "user": user}} for user in tokens],
    }


def _simulated_node(name: str, size: dict[str, str]) -> dict[str, Any]:
    labels = {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": size, "allocatable": size},
    }


def _write(event: dict[str, Any]) -> Write:
    target = event.get("objectRef", {})
    return Write(
        verb=event["verb"],
        resource="/".join(filter(None, (target.get("resource", ""), target.get("subresource")))),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        agent=event.get("userAgent", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=All" in event["requestURI"],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build")
    verbs.add_parser("packages")
    for verb in ("up", "run"):
        up = verbs.add_parser(verb)
        up.add_argument("folder", type=Path)
        up.add_argument("--kubelet", action="store_true", help="add a real node, named localhost")
        up.add_argument("--cpus", type=int, metavar="N", help="how many CPUs of this machine the real node may use")
        up.add_argument("--nodes", type=int, default=0, metavar="N", help="add N simulated nodes")
        up.add_argument("--jobset", action="store_true", help="install JobSet")
    verbs.add_parser("down").add_argument("folder", type=Path)
    restart = verbs.add_parser("restart")
    restart.add_argument("folder", type=Path)
    restart.add_argument("component")
    return parser.parse_args()


def _up(control_plane: ControlPlane, arguments: argparse.Namespace) -> None:
    control_plane.up()
    if arguments.kubelet:
        RealNode(control_plane).add(arguments.cpus)
    if arguments.nodes:
        control_plane.add_simulated_nodes(*(f"node-{i}" for i in range(arguments.nodes)))
    if arguments.jobset:
        JobSetController(control_plane).up()
    print(control_plane.kubeconfig, flush=True)


def main() -> None:
    """Do what the command line says."""
    arguments = _arguments()
    if arguments.verb == "packages":
        print(*missing_packages())
        return
    binaries = binaries_folder()
    build(binaries)
    if arguments.verb == "build":
        print(f"The control plane is in {binaries}.")
        if missing := missing_packages():
            print(f"Missing, as root: apt-get install --no-install-recommends {' '.join(missing)}")
        return
    control_plane = ControlPlane(arguments.folder.resolve(), binaries)
    match arguments.verb:
        case "down":
            control_plane.down()
        case "restart":
            control_plane.restart(arguments.component)
        case "up":
            _up(control_plane, arguments)
        case "run":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            try:
                _up(control_plane, arguments)
                sys.stdin.read()
            finally:
                control_plane.down()


if __name__ == "__main__":
    main()
