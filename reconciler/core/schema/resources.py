"""What one node of a task asks for: `resources`, with defaults filled in and alternatives resolved to one."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reconciler.core.exit_codes import PASSED_ON_AS_1
from reconciler.core.field_path import FieldPath, field_name
from reconciler.core.schema.accelerators import read_accelerators
from reconciler.core.schema.alternatives import Entries, choose
from reconciler.core.schema.fields import Shape, listed, shown
from reconciler.core.schema.infra import PLACE_FIELDS, parse_infra
from reconciler.core.schema.metadata import read_labels
from reconciler.core.schema.name_rules import is_image
from reconciler.core.schema.pod_config import check_priority_class
from reconciler.core.schema.sizes import format_cpus, format_memory, parse_cpus, parse_disk, parse_memory
from reconciler.core.schema.task_fields import JOB_RECOVERY
from reconciler.model import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.core.schema.fields import Reader

MAX_ATTEMPTS = 99_998  # an Indexed Job has at most 100 000 completions, and ours needs two more than attempts
RESERVED_EXIT_CODES = frozenset({0, *PASSED_ON_AS_1})
_EXIT_CODES = range(256)
_CPUS = Decimal(2)
_CPUS_PER_GPU = 4
_GIB_PER_CPU = 1
_GIB_PER_CPU_WITH_GPU = 4
_CLOUD_IMAGES = ("ami-", "skypilot:", "projects/")


@dataclass(frozen=True, slots=True)
class Request:
    """All that `resources` says. `priority_class_path` is where the class stands, for messages."""

    resources: Resources
    context: str | None
    priority_class: str | None
    priority_class_path: FieldPath
    max_restarts_on_errors: int
    recover_on_exit_codes: tuple[int, ...]


def read_resources(reader: Reader, path: FieldPath, mapping: dict[str, Any]) -> Request:
    """Read `resources`. Where a problem is noted, the default stands in: the caller asks `reader.failed`."""
    entries = choose(reader, path, mapping)
    restarts, exit_codes = _job_recovery(reader, entries)
    context = _context(reader, entries)
    return Request(
        resources=_sizes(reader, entries, context, use_spot=mapping.get("use_spot") is True),
        context=context,
        priority_class=_priority_class(reader, entries),
        priority_class_path=entries["priority_class"].path if "priority_class" in entries else path,
        max_restarts_on_errors=restarts,
        recover_on_exit_codes=exit_codes,
    )


def _sizes(reader: Reader, entries: Entries, context: str | None, *, use_spot: bool) -> Resources:
    gpus = read_accelerators(reader, *entries["accelerators"]) if "accelerators" in entries else None
    cpus = _parsed(reader, entries, "cpus", parse_cpus)
    if cpus is None:
        cpus = gpus.written * _CPUS_PER_GPU if gpus else _CPUS
    memory = _parsed(reader, entries, "memory", lambda value: parse_memory(value, cpus))
    if memory is None:
        memory = cpus * (_GIB_PER_CPU_WITH_GPU if gpus else _GIB_PER_CPU)
    disk = _parsed(reader, entries, "disk_size", lambda value: Decimal(parse_disk(value)))
    image, images = _images(reader, entries, context)
    labels = entries.get("labels")
    return Resources(
        cpus=format_cpus(cpus),
        memory=format_memory(memory),
        accelerators=gpus.accelerators if gpus else None,
        disk=format_memory(disk) if disk else None,
        image=image,
        image_by_context=images,
        labels=read_labels(reader, labels.path, labels.value) if labels else {},
        use_spot=use_spot,
    )


def _parsed(reader: Reader, entries: Entries, name: str, parse: Callable[[Any], Decimal]) -> Decimal | None:
    if name not in entries:
        return None
    path, value = entries[name]
    try:
        return parse(value)
    except ValueError as error:
        reader.error(path, "invalid-value", f"{field_name(path)}: {error}")
        return None


def _context(reader: Reader, entries: Entries) -> str | None:
    named = {name: entries[name] for name in PLACE_FIELDS if name in entries}
    if not named:
        return None
    place = next(iter(named.values())).path
    try:
        infra = parse_infra({name: entry.value for name, entry in named.items()})
    except ValueError as error:
        reader.error(place, "invalid-value", f"{field_name(place)}: {error}")
        return None
    if not infra.is_kubernetes:
        message = f"{field_name(place)}: {shown(infra.written)} is not Kubernetes: write infra: k8s, or leave it out"
        reader.error(place, "not-kubernetes", message)
    return infra.context


def _images(reader: Reader, entries: Entries, context: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the image, or the image for each context: SkyPilot calls a context a region."""
    if "image_id" not in entries:
        return None, {}
    path, value = entries["image_id"]
    if isinstance(value, str):
        return _image(reader, path, value), {}
    images = {
        key.partition("/")[2] or key: _image(reader, (*path, key), image)
        for key, image in value.items()
        if reader.has_shape((*path, key), image, Shape.TEXT)
    }
    if list(images) == ["docker"]:
        return images["docker"], {}
    if context is not None and context in images:
        return images[context], {}
    if context is not None or not images:
        has = listed(list(images)) or "none"
        message = f"{field_name(path)} names no image for the context {context or 'that it runs in'}; it has {has}"
        reader.error(path, "no-image", message)
    return None, images


def _image(reader: Reader, path: FieldPath, value: str) -> str:
    image = value.strip().removeprefix("docker:")
    if image.startswith(_CLOUD_IMAGES) or not is_image(image):
        message = f"{field_name(path)}: {shown(image)} is no container image: write such as docker:python:3.12"
        reader.error(path, "invalid-value", message)
    return image


def _priority_class(reader: Reader, entries: Entries) -> str | None:
    if "priority_class" not in entries:
        return None
    path, name = entries["priority_class"]
    return name if check_priority_class(reader, path, name) else None


def _job_recovery(reader: Reader, entries: Entries) -> tuple[int, tuple[int, ...]]:
    if "job_recovery" not in entries:
        return 0, ()
    path, value = entries["job_recovery"]
    fields = reader.section(path, value, JOB_RECOVERY) if isinstance(value, dict) else {}
    if isinstance(value, str):
        reader.warning(path, "ignored-field", f"{field_name(path)} has no effect here: {JOB_RECOVERY['strategy'].text}")
    restarts = fields.get("max_restarts_on_errors", 0)
    if not 0 <= restarts <= MAX_ATTEMPTS:
        place = (*path, "max_restarts_on_errors")
        message = f"{field_name(place)} is {shown(restarts)}: it must be from 0 to {MAX_ATTEMPTS}"
        reader.error(place, "invalid-value", message)
    return restarts, _exit_codes(reader, (*path, "recover_on_exit_codes"), fields.get("recover_on_exit_codes", []))


def _exit_codes(reader: Reader, path: FieldPath, value: Any) -> tuple[int, ...]:
    """Return exit codes in ascending order, as a podFailurePolicy must list them."""
    codes = value if isinstance(value, list) else [value]
    places = [(*path, index) for index in range(len(codes))] if isinstance(value, list) else [path]
    for place, code in zip(places, codes, strict=True):
        if not reader.has_shape(place, code, Shape.INTEGER):
            continue
        if code in RESERVED_EXIT_CODES:
            message = f"{field_name(place)}: exit code {code} has a meaning of its own here: choose another"
            reader.error(place, "reserved", message)
        elif code not in _EXIT_CODES:
            reader.error(place, "invalid-value", f"{field_name(place)}: {shown(code)} is no exit code: 1 to 254")
        elif codes.count(code) > 1 and codes.index(code) != place[-1]:
            reader.error(place, "invalid-value", f"{field_name(place)}: exit code {code} stands twice: leave one")
    return tuple(sorted({code for code in codes if type(code) is int}))
