"""Cluster DNS, as far as jobs need it: the host names of a headless Service's pods, from its EndpointSlices.

  cluster_dns.py KUBECONFIG ADDRESS

Answers A queries over UDP on port 53, for `HOST.SERVICE.NAMESPACE.svc.cluster.local`. Each answer is what the API says
at that moment and may be cached for 5 seconds; all other names don't exist. The address need not be there yet.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
import urllib.request
from pathlib import Path
from typing import Any

DOMAIN = ["svc", "cluster", "local"]
A, IN, TTL = 1, 1, 5
NOT_FOUND = 3
IP_FREEBIND = 15


class Api:
    """Reads lists of the API server that a kubeconfig in JSON names first."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = json.loads(kubeconfig.read_text())
        cluster = configuration["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._headers = {"Authorization": f"Bearer {configuration['users'][0]['user']['token']}"}
        self._trust = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def items(self, path: str) -> Any:
        """Return the items of a list."""
        request = urllib.request.Request(f"{self._server}{path}", headers=self._headers)
        with urllib.request.urlopen(request, context=self._trust, timeout=5) as answer:
            return json.load(answer)["items"]


def addresses(api: Api, labels: list[str]) -> list[str]:
    """Return the addresses of a name."""
    if len(labels) != 2 + 1 + len(DOMAIN) or labels[3:] != DOMAIN:
        return []
    host, service, namespace = labels[:3]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = api.items(f"{path}?labelSelector=kubernetes.io/service-name={service}")
    endpoints = [endpoint for part in slices for endpoint in part["endpoints"] or ()]
    return [address for found in endpoints if found.get("hostname") == host for address in found["addresses"]]


def answer(api: Api, query: bytes) -> bytes:
    """Return what to say to a query of one question."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    question = query[12 : at + 5]
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    found = addresses(api, labels)
    shown = found if kind == A else []
    header = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if found else NOT_FOUND), 1, len(shown), 0, 0)
    records = [struct.pack("!HHHIH", 0xC00C, A, IN, TTL, 4) + socket.inet_aton(address) for address in shown]
    return header + question + b"".join(records)


def main() -> None:
    """Serve for ever."""
    api = Api(Path(sys.argv[1]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        server.bind((sys.argv[2], 53))
        while True:
            query, client = server.recvfrom(512)
            try:
                server.sendto(answer(api, query), client)
            except (OSError, ValueError, IndexError) as error:  # it asks again
                print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
