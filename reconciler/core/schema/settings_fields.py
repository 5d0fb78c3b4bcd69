"""What becomes of each field of `.sky.yaml` (the config of SkyPilot 0.14.1) and of our own `reconciler.yaml`."""

from __future__ import annotations

from reconciler.core.schema.fields import Fields, Shape, ignored, refused, taken
from reconciler.core.schema.task_fields import SITE_ONLY

TEXT, INTEGER, NUMBER, BOOLEAN = Shape.TEXT, Shape.INTEGER, Shape.NUMBER, Shape.BOOLEAN
MAPPING, LIST = Shape.MAPPING, Shape.LIST

_SERVER = ignored("it configures a SkyPilot server, and there is none")
_CLOUD = ignored("jobs run on Kubernetes only")

SKY: Fields = {
    "kubernetes": taken("how pods are made, for all jobs", MAPPING),
    **dict.fromkeys(
        (
            "active_workspace",
            "admin_policy",
            "allowed_clouds",
            "api_server",
            "daemons",
            "dashboard",
            "data",
            "db",
            "jobs",
            "logs",
            "metrics",
            "plugins",
            "provision",
            "rbac",
            "serve",
            "workspace",
            "workspace_config",
            "workspaces",
        ),
        _SERVER,
    ),
    **dict.fromkeys(
        ("aws", "azure", "docker", "gcp", "nebius", "nvidia_gpus", "oci", "runpod", "slurm", "ssh", "vast"), _CLOUD
    ),
}

CONTEXT: Fields = {
    "pod_config": taken("merged into the pods of all jobs", MAPPING),
    "custom_metadata": taken("labels and annotations of all that is made", MAPPING),
    "namespace": taken("the namespace of jobs that name none", TEXT),
    "provision_timeout": ignored("a pod waits for its place as long as it takes"),
    "remote_identity": ignored("write serviceAccountName in pod_config.spec"),
    "set_pod_resource_limits": refused("for one context it is not supported; write it under kubernetes"),
    **dict.fromkeys(
        ("dws", "enable_docker", "kueue", "quota"), ignored("it is not supported yet; jobs are made without it")
    ),
    **dict.fromkeys(SITE_ONLY, ignored("it configures SkyPilot's own provisioning")),
}

KUBERNETES: Fields = {
    **CONTEXT,
    "set_pod_resource_limits": taken("limits as a multiple of the requests; true is 1", BOOLEAN, NUMBER),
    "context_configs": taken("the same for single contexts, over the ones for all", MAPPING),
    "allowed_contexts": ignored("write contexts in reconciler.yaml"),
}

RECONCILER: Fields = {
    "owner": taken("the label on all that is ours; default a hash of the remote's URL", TEXT),
    "source_branch": taken("the branch that is applied; default the branch of HEAD", TEXT),
    "status_branch": taken("the branch for what became of the jobs; default job-status; none for none", TEXT),
    "contexts": taken("the contexts that jobs may name; default all", LIST),
    "namespace": taken("the namespace of jobs, where neither they nor .sky.yaml name one", TEXT),
    "default_image": taken("the image of tasks without image_id; default python:3.12", TEXT),
    "git_image": taken(
        "the image with git and sh that clones what is too large for a ConfigMap; default alpine/git:v2.47.2", TEXT
    ),
    "secret": taken("the Kubernetes Secret behind secrets; default job-secrets", TEXT),
    "interval": taken("how often the loop looks without an event; default 60s", NUMBER, TEXT),
    "status_interval": taken("how often the loop commits at most; default 5s", NUMBER, TEXT),
    "history_limit": taken("how many finished Jobs of a job stay on the cluster; default 3", INTEGER),
    "limits": taken("what the repository may ask for; without it, anything", MAPPING),
}

LIMITS: Fields = {
    "priority_classes": taken("the PriorityClasses that jobs may have", LIST),
    "images": taken("the images that containers may have; * stands for any text", LIST),
    "namespaces": taken("the namespaces that jobs may run in", LIST),
    "gpus": taken("the most GPUs that one job may have over all its nodes", INTEGER),
}
