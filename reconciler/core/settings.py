"""Read the settings for all jobs: `.sky.yaml`, which is SkyPilot's, and `reconciler.yaml`, which is ours.

Both are strict: a misspelt setting would change every job. While one of them has an error nothing should be done,
because no job can be read right; what could be read is in the Site for display only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reconciler import __version__
from reconciler.core.durations import parse_duration
from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.fields import Reader, Shape, kind, shown, with_yaml_problems
from reconciler.core.schema.metadata import check_metadata
from reconciler.core.schema.name_rules import is_branch, is_dns_label, is_dns_subdomain, is_image, is_label_value
from reconciler.core.schema.pod_config import check_pod_config, read_limits_factor
from reconciler.core.schema.settings_fields import CONTEXT, KUBERNETES, LIMITS, RECONCILER, SKY
from reconciler.core.schema.task_fields import CUSTOM_METADATA
from reconciler.core.schema.task_hash import digest
from reconciler.core.yaml import parse_documents
from reconciler.model import Limits, Manifest, Problem, Severity, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SKY_FILE = ".sky.yaml"
OWN_FILE = "reconciler.yaml"
_SHORTEST = {"interval": 1.0, "status_interval": 0.0}
_TEXTS: dict[str, tuple[Callable[[str], bool], str]] = {
    "owner": (lambda text: bool(text) and is_label_value(text), "a label's value: at most 63 of A-Z, a-z, 0-9, -_."),
    "source_branch": (is_branch, "the name of a branch"),
    "status_branch": (is_branch, "the name of a branch, or none"),
    "namespace": (is_dns_label, "the name of a namespace: at most 63 of a-z, 0-9 and '-'"),
    "default_image": (is_image, "a container image such as python:3.12"),
    "git_image": (is_image, "a container image such as alpine/git:v2.47.2"),
    "secret": (is_dns_subdomain, "the name of a Secret: a-z, 0-9, '-' and '.'"),
}


def parse_site(files: Mapping[str, bytes]) -> tuple[Site, list[Problem]]:
    """Read the settings, from those of the two files that there are; problems in the order of the files."""
    site = Site()
    problems: list[Problem] = []
    for path, read in ((SKY_FILE, _read_sky), (OWN_FILE, _read_own)):
        documents, found = parse_documents(files.get(path, b""), path)
        for document in documents[:1]:
            reader = Reader(document, path)
            if len(documents) > 1:
                reader.error((), "multiple-documents", f"{len(documents)} documents in one file: settings are one")
            if isinstance(document.value, dict):
                site = read(reader, site, document.value)
            else:
                reader.error((), "wrong-type", f"settings are a mapping, not {kind(document.value)}")
            found = list(with_yaml_problems(found, reader.problems))
        problems += found if documents else with_yaml_problems(found, ())
    return replace(site, site_hash=_site_hash(site)), problems


def parse_limits(path: str, data: bytes) -> tuple[Limits, list[Problem]]:
    """Read limits from a file of their own, which holds what `limits` of reconciler.yaml may hold.

    A file without any is wrong: whoever names one wants some.
    """
    documents, problems = parse_documents(data, path)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        said = "limits are one document, a mapping such as gpus: 8"
        return Limits(), problems or [Problem(Severity.ERROR, "wrong-type", path, said)]
    reader = Reader(documents[0], path)
    limits = replace(_limits(reader, (), documents[0].value), file=path)
    return limits, list(with_yaml_problems(problems, reader.problems))


def _read_sky(reader: Reader, site: Site, value: dict[str, Any]) -> Site:
    place: FieldPath = ("kubernetes",)
    fields = reader.section(place, reader.section((), value, SKY).get("kubernetes", {}), KUBERNETES)
    layer = _layer(reader, place, fields)
    contexts = {}
    for context, config in fields.get("context_configs", {}).items():
        at = (*place, "context_configs", context)
        if config is not None and reader.has_shape(at, config, Shape.MAPPING):
            contexts[context] = _layer(reader, at, reader.section(at, config, CONTEXT))
    factor = fields.get("set_pod_resource_limits")
    return replace(
        site,
        sky_namespace=layer.get("namespace"),
        pod_config=layer.get("pod_config", {}),
        custom_metadata=layer.get("custom_metadata", {}),
        contexts=contexts,
        set_pod_resource_limits=(
            None if factor is None else read_limits_factor(reader, (*place, "set_pod_resource_limits"), factor)
        ),
    )


def _layer(reader: Reader, path: FieldPath, fields: dict[str, Any]) -> Manifest:
    layer: Manifest = {name: fields[name] for name in ("pod_config", "custom_metadata", "namespace") if name in fields}
    check_pod_config(reader, (*path, "pod_config"), layer.get("pod_config", {}))
    check_metadata(reader, (*path, "custom_metadata"), layer.get("custom_metadata", {}), CUSTOM_METADATA)
    _check_text(reader, (*path, "namespace"), layer.get("namespace"))
    return layer


def _read_own(reader: Reader, site: Site, value: dict[str, Any]) -> Site:
    fields = reader.section((), value, RECONCILER)
    settings = {name: fields[name] for name in _TEXTS if name in fields}
    if "default_image" in settings:
        settings["default_image"] = settings["default_image"].removeprefix("docker:")
    for name, text in settings.items():
        _check_text(reader, (name,), text)
    if settings.get("source_branch", "") == settings.get("status_branch", site.status_branch):
        message = "source_branch and status_branch are one branch: the status needs a branch of its own"
        reader.error(("status_branch",), "conflict", message)
    settings |= {name: _interval(reader, name) for name in _SHORTEST if name in fields}
    if "history_limit" in fields:
        settings["history_limit"] = _at_least_0(reader, ("history_limit",), fields["history_limit"])
    if "contexts" in fields:
        settings["allowed_contexts"] = _texts(reader, ("contexts",), fields["contexts"])
    return replace(site, **settings, limits=_limits(reader, ("limits",), fields.get("limits", {})))


def _limits(reader: Reader, path: FieldPath, value: dict[str, Any]) -> Limits:
    fields = reader.section(path, value, LIMITS)
    if "gpus" in fields:
        _at_least_0(reader, (*path, "gpus"), fields["gpus"])
    lists = {name: _texts(reader, (*path, name), items) for name, items in fields.items() if name != "gpus"}
    return Limits(
        priority_classes=lists.get("priority_classes"),
        images=lists.get("images"),
        namespaces=lists.get("namespaces"),
        gpus=fields.get("gpus"),
    )


def _check_text(reader: Reader, path: FieldPath, text: str | None) -> None:
    accepts, expected = _TEXTS[str(path[-1])]
    if text is not None and not accepts(text):
        reader.error(path, "invalid-value", f"{field_name(path)} must be {expected}, not {shown(text)}")


def _interval(reader: Reader, name: str) -> float:
    text = reader.document.source((name,)) or ""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        reader.error((name,), "invalid-value", f"{name}: {error}")
        return _SHORTEST[name]
    if seconds < _SHORTEST[name]:
        reader.error((name,), "invalid-value", f"{name} must be at least {_SHORTEST[name]:g}s, not {shown(text)}")
    return seconds


def _at_least_0(reader: Reader, path: FieldPath, number: int) -> int:
    if number < 0:
        reader.error(path, "invalid-value", f"{field_name(path)} must be 0 or more, not {shown(number)}")
    return number


def _texts(reader: Reader, path: FieldPath, items: list[Any]) -> tuple[str, ...]:
    return tuple(text for index, text in enumerate(items) if reader.has_shape((*path, index), text, Shape.TEXT))


def _site_hash(site: Site) -> str:
    """Hash what can change a rendered Job; this release is a part of it, because it renders."""
    return digest(
        {
            "release": __version__,
            "namespace": site.namespace,
            "sky_namespace": site.sky_namespace,
            "default_image": site.default_image,
            **({"git_image": site.git_image} if site.git_image != Site().git_image else {}),
            "secret": site.secret,
            "pod_config": site.pod_config,
            "custom_metadata": site.custom_metadata,
            "contexts": site.contexts,
            "set_pod_resource_limits": site.set_pod_resource_limits,
        }
    )
