"""JobSet on a control plane: its CRD, its controller as a plain process, and its webhooks, without which it panics."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from control_plane import ControlPlane

NAME = "jobset"
CRD = "customresourcedefinition/jobsets.jobset.x-k8s.io"
WEBHOOKS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


@dataclass(frozen=True, slots=True)
class JobSetController:
    """The controller of one control plane."""

    control_plane: ControlPlane

    @property
    def folder(self) -> Path:
        """Where its certificate and its configuration are."""
        return self.control_plane.folder / NAME

    def up(self) -> None:
        """Install JobSet and wait until JobSets can be created."""
        binaries, plane = self.control_plane.binaries, self.control_plane
        self.folder.mkdir(exist_ok=True)
        plane.kubectl("apply", "--server-side", "--filename", str(binaries / "jobset-crd.yaml"))
        served = ("api-resources", "--api-group=jobset.x-k8s.io", "--cached=false", "--output=name")
        plane.processes.wait(lambda: "jobsets" in plane.kubectl(*served), CRD)
        if not (self.folder / "config.json").exists():
            self._write_certificate()
            (self.folder / "config.json").write_text(json.dumps(self._configuration()))
        self.start()
        to_json = ("create", "--dry-run=client", "--output=json")
        webhooks = plane.kubectl(*to_json, "--filename", str(binaries / "jobset-webhooks.yaml"))
        plane.kubectl("apply", "--server-side", "--filename=-", stdin=self._at_home(webhooks))

    def down(self) -> None:
        """Take JobSet away with all JobSets, as if it had never been there."""
        plane = self.control_plane
        plane.kubectl("delete", *(f"{kind}/{NAME}" for kind in WEBHOOKS), "--ignore-not-found")
        plane.kubectl("delete", CRD, "--ignore-not-found", "--timeout=30s")
        plane.processes.wait(lambda: "jobset.x-k8s.io" not in plane.kubectl("get", "--raw", "/apis"), "its API to go")
        self.kill()

    def start(self) -> None:
        """Start the controller, and wait until it is ready; again after `kill`."""
        plane = self.control_plane
        flags = (f"--kubeconfig={plane.kubeconfig}", f"--config={self.folder / 'config.json'}")
        plane.processes.start(NAME, str(plane.binaries / "jobset"), *flags)
        address = json.loads((self.folder / "config.json").read_text())["health"]["healthProbeBindAddress"]

        def ready() -> bool:
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)

        plane.processes.wait(ready, "the JobSet controller")

    def kill(self) -> None:
        """Kill the controller as a crash would."""
        self.control_plane.processes.kill(NAME)

    def _configuration(self) -> dict[str, Any]:
        ports: set[int] = set()
        while len(ports) < 2:
            ports.add(self.control_plane.free_port())
        webhook, health = ports
        return {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(self.folder)},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "clientConnection": {"qps": 500, "burst": 1000},
        }

    def _write_certificate(self) -> None:
        """Write a self-signed certificate, which is its own CA."""
        files = ("-keyout", str(self.folder / "tls.key"), "-out", str(self.folder / "tls.crt"))
        name = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "3650")
        kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        subprocess.run(["openssl", "req", *kind, *name, *files], check=True, capture_output=True)

    def _at_home(self, webhooks: str) -> str:
        """Have the API server reach the webhooks at this machine, in place of a Service of the cluster."""
        port = json.loads((self.folder / "config.json").read_text())["webhook"]["port"]
        trust = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        items = list(_documents(webhooks))
        for item in items:
            item["metadata"] = {"name": NAME}
            for hook in item["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": trust}
                if "pods" in hook["rules"][0]["resources"]:  # as its own installation does
                    only = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    hook["objectSelector"] = {"matchExpressions": [only]}
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _documents(text: str) -> Iterator[Any]:
    """Read JSON documents that follow each other."""
    while text := text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]
