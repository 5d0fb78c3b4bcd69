"""What becomes of each field of a SkyPilot task: the whole schema of SkyPilot 0.14.1, as data.

A field that SkyPilot knows is in one of these tables, so that none is dropped in silence. The texts end up in messages
and in the documentation: a refusal gives the reason and what to write instead.
"""

from __future__ import annotations

from reconciler.core.schema.fields import Fields, Shape, ignored, refused, taken

TEXT, INTEGER, NUMBER, BOOLEAN = Shape.TEXT, Shape.INTEGER, Shape.NUMBER, Shape.BOOLEAN
MAPPING, LIST = Shape.MAPPING, Shape.LIST

_INTERNAL = refused("it is internal to SkyPilot; leave it out")
_NO_CLOUD = refused("jobs run on Kubernetes only; leave it out")
_SITE_ONLY = refused("it configures SkyPilot's own provisioning; leave it out, and use pod_config for what a pod needs")
_ONE_JOB = refused("a file is one job; give each task a file of its own")

TASK: Fields = {
    "name": taken("the job's name; without it, the file's path below jobs/", TEXT),
    "resources": taken("what one node asks for", MAPPING),
    "num_nodes": taken("how many nodes run the job together; default 1", INTEGER),
    "setup": taken("a bash script that runs before `run`", TEXT),
    "run": taken("the bash script that is the job", TEXT),
    "envs": taken("environment variables; their values are the text as it stands in the file", MAPPING),
    "secrets": taken("variables with values from a Kubernetes Secret; a value in the file is in git", MAPPING, LIST),
    "config": taken("settings of this task alone", MAPPING),
    "workdir": taken(
        "a folder of the repository, or {url, ref} of another one, which becomes ~/sky_workdir", TEXT, MAPPING
    ),
    "file_mounts": taken("files and folders of the repository, each under the path where the job finds it", MAPPING),
    "volumes": taken(
        "what to mount, by the path in the container: the name of a PersistentVolumeClaim, or one of the forms below",
        MAPPING,
    ),
    "managed_secrets": refused(
        "they live in a SkyPilot server; write secrets: {NAME: null} and keep a Kubernetes Secret"
    ),
    "service": refused("a service never completes, and this runs jobs; deploy it as a Deployment"),
    "pool": refused("a pool never completes, and this runs jobs; leave it out"),
    "event_callback": refused("it is a command of SkyPilot's controller; watch the status branch instead"),
    "inputs": refused("it is a hint for SkyPilot's choice between clouds; leave it out"),
    "outputs": refused("it is a hint for SkyPilot's choice between clouds; leave it out"),
    "api_server_access": ignored("there is no SkyPilot server, so a pod never gets access to one"),
    "experimental": refused("SkyPilot 0.14 has moved it; write what was in experimental.config_overrides under config"),
    "execution": _ONE_JOB,
    "primary_tasks": _ONE_JOB,
    "termination_delay": _ONE_JOB,
    "inter_connection": _ONE_JOB,
    "env_file": refused("only committed values count; write the variables under envs, and secrets under secrets"),
    "file_mounts_mapping": _INTERNAL,
    "volume_mounts": _INTERNAL,
    "_metadata": _INTERNAL,
    "_user_specified_yaml": _INTERNAL,
}

WORKDIR: Fields = {
    "url": taken("the https URL of a git repository", TEXT),
    "ref": taken("a commit, branch or tag of it; default its HEAD", TEXT),
}

RESOURCES: Fields = {
    "infra": taken("k8s, or k8s/<context>", TEXT),
    "cloud": taken("the older spelling of infra: kubernetes", TEXT),
    "region": taken("the older spelling of a context, beside cloud: kubernetes", TEXT),
    "cpus": taken('CPUs of a node: 4, 0.5 or "4+", which is 4; default 2, or 4 for each GPU', NUMBER, TEXT),
    "memory": taken(
        'memory of a node: 16 is 16 GiB, also 512MB or 1TB, binary; "4x" is 4 GiB for each CPU; default 1 GiB for each '
        "CPU, with GPUs 4 GiB",
        NUMBER,
        TEXT,
    ),
    "accelerators": taken(
        "GPUs of a node: H100, H100:8 or {H100: 8}; several of one count are a choice", TEXT, MAPPING, LIST
    ),
    "image_id": taken(
        "the container image, with or without docker:; or {context: image}, where clusters need different ones",
        TEXT,
        MAPPING,
    ),
    "labels": taken("labels of the pods", MAPPING),
    "disk_size": taken("the disk of a node in GiB, asked for as ephemeral storage", INTEGER, TEXT),
    "priority_class": taken("the Kubernetes PriorityClass of the job", TEXT),
    "job_recovery": taken("what to do when the command fails", TEXT, MAPPING),
    "any_of": taken("alternatives; the first one on Kubernetes is taken", LIST),
    "ordered": taken("alternatives; the first one on Kubernetes is taken", LIST),
    "use_spot": ignored("write the nodeSelector and the toleration of your spot nodes in config.kubernetes.pod_config"),
    "priority": ignored(
        "it orders SkyPilot's own queue only; write priority_class, the name of a Kubernetes PriorityClass"
    ),
    "autostop": ignored("the pods of a job go when it ends"),
    "ports": ignored("a job's pods are reached by a Kubernetes Service that selects their labels"),
    "network_tier": ignored("it switches on a cloud's fast network; what a pod needs for that goes into pod_config"),
    "disk_tier": ignored("the disk of a pod is the one of its node"),
    "zone": refused("Kubernetes picks the node; write nodeSelector in config.kubernetes.pod_config"),
    "instance_type": refused(
        "Kubernetes picks the node; write cpus, memory and accelerators, or nodeSelector in pod_config"
    ),
    "accelerator_args": refused("it is for TPUs of one cloud; write their node labels in config.kubernetes.pod_config"),
    "local_disk": refused("Kubernetes picks the node; write nodeSelector in config.kubernetes.pod_config"),
    "max_hourly_cost": refused("a cluster has no prices; limit what may run by a ResourceQuota"),
    "ephemeral_storage": refused("SkyPilot has renamed it; write disk_size"),
    "volumes": refused("they are disks of a cloud; mount a PersistentVolumeClaim by config.kubernetes.pod_config"),
    "hooks": refused(
        "a job gets SIGTERM before it is stopped; trap it in run, and give it time by pod_config's "
        "terminationGracePeriodSeconds"
    ),
    "spot_recovery": refused("SkyPilot has renamed it; write job_recovery"),
    "_docker_login_config": refused("name the registry's Secret by imagePullSecrets in config.kubernetes.pod_config"),
    "_is_image_managed": _INTERNAL,
    "_requires_fuse": _INTERNAL,
    "_cluster_config_overrides": _INTERNAL,
    "_no_missing_accel_warnings": _INTERNAL,
}

_NESTED = refused("alternatives can't be nested; write them in one list")
ALTERNATIVE: Fields = {**RESOURCES, "any_of": _NESTED, "ordered": _NESTED}

VOLUME: Fields = {
    "name": taken("a PersistentVolumeClaim in the job's namespace", TEXT),
    "sub_path": taken("a path within that volume", TEXT),
    "size": taken("GiB of a new volume that is made for each pod and goes with it", INTEGER, TEXT),
    "type": taken("k8s-pvc, the only kind that can be made with a pod", TEXT),
    "labels": taken("labels of the new volume's claim", MAPPING),
    "config": taken("how the new volume is made", MAPPING),
    "host_path": refused("in SkyPilot it is for Slurm; write a hostPath volume in config.kubernetes.pod_config"),
    "mode": refused("in SkyPilot it is for Slurm; write readOnly at a volumeMount in config.kubernetes.pod_config"),
}
VOLUME_CONFIG: Fields = {
    "storage_class_name": taken("a StorageClass; default the cluster's", TEXT),
    "access_mode": taken("ReadWriteOnce, the default, ReadWriteOncePod, ReadWriteMany or ReadOnlyMany", TEXT),
    "namespace": refused("a volume is made in the job's namespace; leave it out"),
    "host_path": refused("write a hostPath volume in config.kubernetes.pod_config"),
    "cleanup_on_deletion": ignored("the volume goes with its pod"),
}

JOB_RECOVERY: Fields = {
    "strategy": ignored(
        "a job always recovers, on the cluster it is on; the annotation job-reconciler/max-recoveries bounds how often"
    ),
    "max_restarts_on_errors": taken("how often the command may fail and start again; default 0", INTEGER),
    "recover_on_exit_codes": taken("exit codes that count as an interruption, not as a failure", INTEGER, LIST),
}

CONFIG: Fields = {
    "kubernetes": taken("how the pods are made", MAPPING),
    "hooks": RESOURCES["hooks"],
    "docker": refused(
        "pods are not run by docker, and /dev/shm is memory already; write securityContext and the like in "
        "kubernetes.pod_config"
    ),
    "nvidia_gpus": refused("a pod can't change its node's GPUs; leave it out"),
    "active_workspace": refused("workspaces are a SkyPilot server's; leave it out"),
    **dict.fromkeys(("ssh", "gcp", "azure", "aws", "oci", "nebius", "slurm", "vast", "runpod"), _NO_CLOUD),
}

SITE_ONLY = (
    "allowed_nodes",
    "apt_mirrors",
    "auto_mounts",
    "autoscaler",
    "high_availability",
    "max_inline_command_length",
    "networking",
    "ports",
    "post_provision_runcmd",
    "pricing",
    "rdma",
)
KUBERNETES: Fields = {
    "pod_config": taken("merged into the pods, over .sky.yaml's", MAPPING),
    "custom_metadata": taken(
        "labels and annotations of all that is made; job-reconciler/ annotations steer us", MAPPING
    ),
    "namespace": taken("the namespace of the job", TEXT),
    "set_pod_resource_limits": taken("limits as a multiple of the requests; true is 1", BOOLEAN, NUMBER),
    "provision_timeout": ignored("a pod waits for its place as long as it takes"),
    "kueue": refused("queues of Kueue are not supported yet; leave it out, and order jobs by PriorityClass"),
    "quota": refused("queues are not supported yet; leave it out, and order jobs by PriorityClass"),
    "dws": refused("flex-start nodes are not supported; ask for them by nodeSelector and annotations in pod_config"),
    "remote_identity": refused("write serviceAccountName in pod_config.spec"),
    "enable_docker": refused("add a docker-in-docker container in pod_config.spec.containers; it ends with the job"),
    "context_configs": refused(
        "in a task there is one context; write pod_config here, or context_configs in .sky.yaml"
    ),
    "allowed_contexts": refused("write infra: k8s/<context> in resources, or contexts in reconciler.yaml"),
    **dict.fromkeys(SITE_ONLY, _SITE_ONLY),
}

CUSTOM_METADATA: Fields = {
    "labels": taken("labels of all that is made", MAPPING),
    "annotations": taken("annotations of all that is made; job-reconciler/ ones steer us", MAPPING),
    "name": refused("all that is made is named after the job; leave it out"),
    "namespace": refused("write namespace beside custom_metadata"),
}
