"""Find a cluster's address and credentials as kubectl does: from kubeconfig files, or inside a pod.

The official client parses, merges, runs exec plugins and refreshes OIDC tokens. What is added: errors that say which
file and what to do, kubectl's own choice of current-context, and an exec plugin's failure, which the client only logs.
Credentials are read when asked for; who finds them refused asks again.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, InClusterConfigLoader
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from reconciler.cluster.refusal import shorten
from reconciler.errors import ClusterUnauthorized, ReconcilerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IN_CLUSTER = "in-cluster"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_NAMES = 12


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one cluster, and as whom. `authorization` is the value of the HTTP header of that name."""

    context: str
    namespace: str
    configuration: Configuration = field(repr=False)
    authorization: str | None = field(repr=False)


def read_access(context: str | None, environ: Mapping[str, str], *, service_account: Path = _SERVICE_ACCOUNT) -> Access:
    """Read how to reach `context`, or else the current context, or else the cluster that this pod runs in.

    Raises UsageError for what the kubeconfig lacks or has wrong, ClusterUnauthorized when its exec plugin fails.
    """
    named = _paths(environ)
    existing = [path for path in named if path.exists()]
    inside = SERVICE_HOST_ENV_NAME in environ
    if inside and (context == IN_CLUSTER or (context is None and not existing)):
        return _in_cluster(environ, service_account)
    if not existing:
        raise UsageError(
            f"no cluster is configured: {_join(named)} does not exist. Set KUBECONFIG or log in to a cluster, "
            "or use `--cluster local`, which runs the jobs on this machine"
        )
    return _from_files(context, existing)


def _paths(environ: Mapping[str, str]) -> list[Path]:
    listed = environ.get("KUBECONFIG", "").split(os.pathsep)
    # NB: unlike Path's, this leaves `~` as it is where nobody has a home folder; there is no such file then.
    return [Path(os.path.expanduser(part)) for part in listed if part] or [  # noqa: PTH111
        Path(os.path.expanduser(environ.get("HOME", "~")), ".kube", "config")  # noqa: PTH111
    ]


def _from_files(context: str | None, paths: Sequence[Path]) -> Access:
    where = f"kubeconfig {_join(paths)}"
    try:
        merged = KubeConfigMerger(os.pathsep.join(map(str, paths)))
        contexts = [entry["name"] for entry in merged.config.value["contexts"]]
        currents = [file.get("current-context") for file in merged.config_files.values()]
    except Exception as error:  # noqa: BLE001 - a malformed file leads the client to raise just anything
        # NB: in its errors the merger names an entry by its content, tokens too.
        raise UsageError(f"{where} can't be read: {_line(error).partition('{')[0]}") from None
    # NB: in the client the last file's current-context wins, in kubectl the first's.
    name = context or next(filter(None, currents), None)
    if name is None:
        raise UsageError(f"{where} has no current-context: choose one with --cluster ({_join(contexts)})")
    if name not in contexts:
        raise UsageError(f"{where} has no context {name!r}; it has: {_join(contexts) or 'none'}")
    try:
        return _load(merged, name)
    except ReconcilerError:
        raise
    except Exception as error:
        raise UsageError(f"context {name!r} of {where} can't be used: {_line(error)}") from error


def _load(merged: KubeConfigMerger, name: str) -> Access:
    context = _entry(merged, "contexts", name)
    cluster = _entry(merged, "clusters", context["context"]["cluster"])
    user = context["context"].safe_get("user")
    users = [_with_credentials(_entry(merged, "users", user), cluster)] if user else []
    chosen = {**merged.config.value, "contexts": [context], "clusters": [cluster], "users": users}
    loader = KubeConfigLoader(
        ConfigNode(merged.config.name, chosen, merged.config.path),
        active_context=name,
        config_base_path=None,
        config_persister=merged.save_changes,  # an OIDC refresh token can change with its use
    )
    server = cluster["cluster"]["server"]
    if not server.startswith(("https://", "http://")):
        raise ConfigException(f"the server {server!r} does not start with https://")
    configuration = Configuration()
    loader.load_and_set(configuration)
    return _access(name, context["context"].safe_get("namespace") or "default", configuration)


def _entry(merged: KubeConfigMerger, section: str, name: str) -> ConfigNode:
    """Return one named entry, under a name for errors that is not its content."""
    found = merged.config[section].get_with_name(name)
    return ConfigNode(f"{section}[{name}]", found.value, found.path)


def _with_credentials(user: ConfigNode, cluster: ConfigNode) -> ConfigNode:
    """Run the user's exec plugin, if it has one, and put what it answers in its place."""
    declared = user["user"].value if user.value.get("user") else {}
    if "exec" not in declared or {"token", "tokenFile", "auth-provider"} & declared.keys():
        return user
    try:
        status = ExecProvider(user["user"]["exec"], str(Path(user.path).resolve().parent), cluster["cluster"]).run()
        credentials = _credentials(status)
    except Exception as error:  # NB: a plugin that fails on a terminal makes the client raise AttributeError
        raise ClusterUnauthorized(
            f"the credentials plugin of kubeconfig user {user.value['name']!r} failed: {_line(error)}. "
            "Run it by hand to see why; perhaps you have to log in again"
        ) from error
    rest = {key: value for key, value in declared.items() if key != "exec"}
    return ConfigNode(user.name, {**user.value, "user": {**rest, **credentials}}, user.path)


def _credentials(status: dict[str, str]) -> dict[str, str]:
    """Turn a plugin's ExecCredential status into the fields of a kubeconfig's user."""
    if "token" not in status and not {"clientCertificateData", "clientKeyData"} <= status.keys():
        raise ConfigException("it gave neither a token nor a client certificate with its key")
    token = {"token": status["token"]} if "token" in status else {}
    certificate = {
        key: base64.b64encode(status[source].encode()).decode()
        for key, source in (("client-certificate-data", "clientCertificateData"), ("client-key-data", "clientKeyData"))
        if source in status
    }
    return {**token, **certificate}


def _in_cluster(environ: Mapping[str, str], folder: Path) -> Access:
    configuration = Configuration()
    try:
        InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            try_refresh_token=False,
            environ=environ,
        ).load_and_set(configuration)
        namespace = (folder / "namespace").read_text().strip()
    except (ConfigException, OSError) as error:
        raise UsageError(
            f"this looks like a pod, but its service account in {folder} can't be used: {error}"
        ) from error
    return _access(IN_CLUSTER, namespace or "default", configuration)


def _access(context: str, namespace: str, configuration: Configuration) -> Access:
    configuration.keep_alive = True
    configuration.retries = False
    configuration.connection_pool_maxsize = 16
    if configuration._proxy_from_env and _is_loopback(configuration.host):  # noqa: SLF001 - it has no public name
        configuration.proxy = None  # as kubectl: HTTPS_PROXY is not for this machine
    if not configuration.verify_ssl:
        urllib3.disable_warnings(
            urllib3.exceptions.InsecureRequestWarning
        )  # the kubeconfig chose that, for kubectl too
    authorization = (configuration.api_key.get("BearerToken") or "").strip()
    if not (authorization.isascii() and authorization.isprintable()):
        raise UsageError(f"the token of context {context!r} is no token: it holds line breaks or other odd characters")
    return Access(context, namespace, configuration, authorization or None)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _join(names: Sequence[object]) -> str:
    more = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join([*map(str, names[:_MAX_NAMES]), *more])


def _line(error: Exception) -> str:
    text = shorten(str(error))
    return text if isinstance(error, ConfigException | OSError | ValueError) else f"{type(error).__name__}: {text}"
