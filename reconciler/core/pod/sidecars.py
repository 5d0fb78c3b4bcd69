"""Let a pod end with its main container, as SkyPilot ends it, whatever other containers pod_config has added.

A pod lives until the last of its containers ends, so a proxy or a log shipper would keep the job running for ever. Such
a container becomes a native sidecar: an init container that restarts in place, starts before main and is stopped, in
reverse order, when main has ended. Its exit code decides nothing.

A container that is to run to its end beside main says so by `restartPolicy: Never`, and stays what it is: the job then
lasts until both have ended, and fails if it fails. The field itself says what the pod says anyway, and is left out,
because servers before 1.34 refuse it.
"""

from __future__ import annotations

from reconciler.model import MAIN_CONTAINER, Manifest


def with_native_sidecars(spec: Manifest) -> Manifest:
    """Return a pod's spec with its additional containers behind its init containers, in their order."""
    stay, sidecars = [], []
    for container in spec["containers"]:
        policy = container.get("restartPolicy", "Always")
        if container["name"] != MAIN_CONTAINER and policy == "Always":
            sidecars.append({**container, "restartPolicy": "Always"})
        elif policy == "Never":
            stay.append({key: value for key, value in container.items() if key != "restartPolicy"})
        else:
            stay.append(container)
    if not sidecars:
        return spec | {"containers": stay}
    return spec | {"containers": stay, "initContainers": [*spec.get("initContainers", []), *sidecars]}
