"""Write JSON Schemas of the files from the tables that they are read by, for editors to show while somebody types.

They are draft-07, which yaml-language-server reads, with its words `deprecationMessage` and `errorMessage`. A schema
accepts every valid file, and refuses what can be told from one place of a file: unknown and refused fields, wrong types
and ranges. The rest (names that are taken, spellings of sizes and GPUs) is left to `reconcile validate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.core.schema.controls import CONTROLS
from reconciler.core.schema.environment import REGISTRY_LOGIN
from reconciler.core.schema.fields import Fate, Field, Fields, Shape
from reconciler.core.schema.pod_config import MAIN_ALIASES, METADATA, POD_CONFIG, REFUSED_SPEC
from reconciler.core.schema.resources import MAX_ATTEMPTS, RESERVED_EXIT_CODES
from reconciler.core.schema.settings_fields import CONTEXT, LIMITS, RECONCILER, SKY
from reconciler.core.schema.settings_fields import KUBERNETES as SKY_KUBERNETES
from reconciler.core.schema.task_fields import (
    ALTERNATIVE,
    CONFIG,
    CUSTOM_METADATA,
    JOB_RECOVERY,
    RESOURCES,
    TASK,
    VOLUME,
    VOLUME_CONFIG,
    WORKDIR,
)
from reconciler.core.schema.task_fields import KUBERNETES as TASK_KUBERNETES
from reconciler.model import ANNOTATION_PREFIX, OnChange

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

_TYPES = {
    Shape.TEXT: "string",
    Shape.INTEGER: "integer",
    Shape.NUMBER: "number",
    Shape.BOOLEAN: "boolean",
    Shape.MAPPING: "object",
    Shape.LIST: "array",
}
_SCALAR = ["string", "number", "boolean"]
_TEXT_LIST: Schema = {"items": {"type": "string"}}
_TEXTS: Schema = {
    "additionalProperties": {"type": ["string", "null"]},
    "patternProperties": {
        f"^{ANNOTATION_PREFIX}": {
            "type": "null",
            "errorMessage": f"{ANNOTATION_PREFIX} keys are read from custom_metadata.annotations of a task alone",
        }
    },
}
_NAMESPACE: Schema = {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_IN_THE_REPOSITORY: Schema = {
    "pattern": r"^(?![/~]|\.\.(/|$)|[A-Za-z][A-Za-z0-9+.-]*://)",
    "errorMessage": "only what is in the repository can be copied: write a path from its root on",
}
_EXIT_CODE: Schema = {"minimum": 0, "maximum": 255, "not": {"enum": sorted(RESERVED_EXIT_CODES)}}


def task_schema() -> Schema:
    """Return the schema of a task file."""
    names = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"enum": list(REGISTRY_LOGIN)}}
    variables: Schema = {
        "propertyNames": names,
        "additionalProperties": {"type": _SCALAR, "errorMessage": 'a variable needs a value: "" is empty'},
    }
    secrets: Schema = {
        "propertyNames": names,
        "additionalProperties": {"type": [*_SCALAR, "null"], "description": "null: the value is kept out of git"},
        "items": {"type": "string", "pattern": "^secrets:"},
    }
    task = _section(
        TASK,
        name={"pattern": "^[-A-Za-z0-9_. /]*$"},
        resources=_resources(),
        num_nodes={"minimum": 1},
        run={"type": "string", "pattern": r"\S", "errorMessage": "there is nothing to run"},
        envs=variables,
        secrets=secrets,
        workdir={**_section(WORKDIR), **_IN_THE_REPOSITORY},
        file_mounts={"additionalProperties": {"type": ["string", "null"], **_IN_THE_REPOSITORY}},
        volumes={"additionalProperties": {"type": ["string", "object", "null"], **_volume()}},
        config=_section(CONFIG, kubernetes=_task_kubernetes()),
    )
    return _whole("A SkyPilot task, as a job", task | {"required": ["run"]})


def sky_schema() -> Schema:
    """Return the schema of `.sky.yaml`."""
    layer = {"pod_config": _pod_config(), "custom_metadata": _metadata(CUSTOM_METADATA), "namespace": _NAMESPACE}
    contexts = {"additionalProperties": {"type": ["object", "null"], **_section(CONTEXT, **layer)}}
    factor = {"minimum": 1}
    kubernetes = _section(SKY_KUBERNETES, **layer, context_configs=contexts, set_pod_resource_limits=factor)
    return _whole("SkyPilot's config, as far as it counts for jobs", _section(SKY, kubernetes=kubernetes))


def settings_schema() -> Schema:
    """Return the schema of `reconciler.yaml`."""
    lists = dict.fromkeys(("priority_classes", "images", "namespaces"), _TEXT_LIST)
    limits = _section(LIMITS, **lists, gpus={"minimum": 0})
    settings = _section(
        RECONCILER, contexts=_TEXT_LIST, namespace=_NAMESPACE, history_limit={"minimum": 0}, limits=limits
    )
    return _whole("Settings of a repository of jobs", settings)


SCHEMAS: dict[str, Callable[[], Schema]] = {"task": task_schema, "sky": sky_schema, "reconciler": settings_schema}


def _whole(title: str, section: Schema) -> Schema:
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "type": "object", **section}


def _section(fields: Fields, **details: Schema) -> Schema:
    """Describe the mapping that a table reads; `details` has what the table doesn't say of a field."""
    properties = {name: _property(field) | details.get(name, {}) for name, field in fields.items()}
    return {"additionalProperties": False, "properties": properties}


def _property(field: Field) -> Schema:
    """Describe a field. Null is absence, so it is all that a refused field can be."""
    if field.fate is Fate.TAKEN:
        return {"description": field.text, "type": [*(_TYPES[shape] for shape in field.shapes), "null"]}
    if field.fate is Fate.IGNORED:
        text = f"has no effect here: {field.text}"
        return {"description": text, "deprecationMessage": text}
    text = f"can't be used here: {field.text}"
    return {"type": "null", "description": text, "deprecationMessage": text, "errorMessage": text}


def _resources() -> Schema:
    codes = {"items": {"type": "integer", **_EXIT_CODE}, **_EXIT_CODE}
    restarts = {"minimum": 0, "maximum": MAX_ATTEMPTS}
    recovery = _section(JOB_RECOVERY, max_restarts_on_errors=restarts, recover_on_exit_codes=codes)
    alternatives = {"items": {"type": "object", **_alternative()}}
    return _section(RESOURCES, job_recovery=recovery, labels=_TEXTS, any_of=alternatives, ordered=alternatives)


def _alternative() -> Schema:
    """Describe an alternative: the one that is not taken may be another cloud's, with that cloud's fields."""
    nested = {name: _property(field) for name, field in ALTERNATIVE.items() if field is not RESOURCES[name]}
    known = {name: {"description": field.text} for name, field in ALTERNATIVE.items()}
    return {"additionalProperties": False, "properties": known | nested}


def _volume() -> Schema:
    return _section(VOLUME, labels=_TEXTS, config=_section(VOLUME_CONFIG))


def _task_kubernetes() -> Schema:
    custom = _metadata(CUSTOM_METADATA)
    custom["properties"]["annotations"] |= _task_annotations()
    return _section(
        TASK_KUBERNETES,
        pod_config=_pod_config(),
        custom_metadata=custom,
        namespace=_NAMESPACE,
        set_pod_resource_limits={"minimum": 1},
    )


def _task_annotations() -> Schema:
    words: dict[str, list[Any]] = {
        "suspend": [True, False, "true", "false", None],
        "on-change": [*(word.value for word in OnChange), None],
    }
    controls = {
        ANNOTATION_PREFIX + name: {"description": field.text}
        | ({"enum": words[name]} if name in words else {"type": [*_SCALAR, "null"]})
        for name, field in CONTROLS.items()
    }
    unknown = f"^{ANNOTATION_PREFIX}(?!({'|'.join(CONTROLS)})$)"
    return {"properties": controls, "patternProperties": {unknown: False}}


def _metadata(fields: Fields) -> Schema:
    return _section(fields, labels=_TEXTS, annotations=_TEXTS)


def _pod_config() -> Schema:
    main = {
        "not": {"required": ["name"], "properties": {"name": {"type": "string", "not": {"enum": sorted(MAIN_ALIASES)}}}}
    }
    ours = {"errorMessage": "what starts in the main container watches over the job; write setup and run", "not": {}}
    container = {"type": "object", "if": main, "then": {"properties": {"command": ours, "args": ours}}}
    spec = _section(REFUSED_SPEC)["properties"] | {
        "restartPolicy": {"const": "Never", "description": "the Job starts a new pod where one is needed"},
        "priorityClassName": {"type": ["string", "null"]},
        "containers": {"type": ["array", "null"], "items": container},
    }
    return _section(POD_CONFIG, metadata=_metadata(METADATA), spec={"properties": spec})
