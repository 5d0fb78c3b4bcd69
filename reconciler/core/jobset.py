"""The form that we give a JobSet, for a task of several nodes, and how to read its numbers and its outcome back.

Its one child is an Indexed Job with a pod for each node, whose index is the node's rank. The ranks live and die
together: what ends one of them restarts the JobSet, which makes all of them anew.

    what ended a rank                        child Job, backoffLimit 0       JobSet
    DisruptionTarget, refused by its node,   Count: BackoffLimitExceeded     RestartJobSetAndIgnoreMaxRestarts
    main exits 217, 218, 255, recover code,
    a clone exits 75, 217, 255
    any container exits with non-zero        FailJob: PodFailurePolicy       RestartJobSet, maxRestarts N

    recoveries = status.restarts - status.restartsCountTowardsMax
    user errors = status.restartsCountTowardsMax, plus 1 when the JobSet Failed

There is no back-off, and nothing bounds the recoveries. NB: disruptions must be Count. With FailJob the JobSet would
have to tell them from errors by their reason, and a pod that its node refused has no exit code to tell by.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.core.exit_codes import CLONE_INTERRUPTED, PEER_LOST, RUNTIME_LOST, SETUP_FAILED, TOLD_TO_STOP
from reconciler.core.manifest import integer
from reconciler.model import Manifest, State
from reconciler.runs import Counts, Outcome

API_VERSION = "jobset.x-k8s.io/v1alpha2"
RESTART_ANNOTATION = "jobset.sigs.k8s.io/restart-attempt"
NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
UID_LABEL = "jobset.sigs.k8s.io/jobset-uid"
CHILD = "r"  # short, since it is in the name of each pod, which has 63 characters

_RULES: list[Manifest] = [  # NB: a hyphen in a name is refused
    {"name": "userError", "action": "RestartJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
    {"name": "lost", "action": "RestartJobSetAndIgnoreMaxRestarts"},
]
_OUTCOMES = {"Completed": State.SUCCEEDED, "Failed": State.FAILED}


def jobset_form(  # noqa: PLR0913 - by name only
    template: Manifest,
    *,
    name: str,
    nodes: int,
    max_restarts_on_errors: int,
    recover_on_exit_codes: Sequence[int],
    main_container: str,
    clone_containers: Sequence[str] = (),
) -> Manifest:
    """Return the spec of a JobSet of this name, all but `suspend`, that runs the pod `template` on so many nodes."""
    recoverable = {TOLD_TO_STOP, PEER_LOST, RUNTIME_LOST} | (set(recover_on_exit_codes) - {0, SETUP_FAILED})
    codes = {main_container: recoverable} | dict.fromkeys(clone_containers, CLONE_INTERRUPTED)
    child = {
        "completionMode": "Indexed",
        "completions": nodes,
        "parallelism": nodes,
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                *(
                    {"action": "Count", "onExitCodes": {"containerName": name, "operator": "In", "values": sorted(own)}}
                    for name, own in codes.items()
                ),
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            ]
        },
        "template": template,
    }
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": name},
        "failurePolicy": {
            "maxRestarts": max_restarts_on_errors,
            "restartStrategy": "BlockingRecreate",  # no rank starts before the last one of the old ones has stopped
            "rules": [dict(rule) for rule in _RULES],
        },
        "replicatedJobs": [{"name": CHILD, "replicas": 1, "template": {"spec": child}}],
    }


def host_name_pattern(name: str) -> str:
    """Return the host name of a JobSet's ranks, as a format for printf whose argument is the rank."""
    return f"{name}-{CHILD}-0-%d.{name}"


def child_spec(jobset: Manifest) -> Manifest:
    """Return the spec of the Job that makes the pods; an empty one if the JobSet is not ours in form."""
    for replicated in (jobset.get("spec") or {}).get("replicatedJobs") or ():
        if replicated.get("name") == CHILD:
            return (replicated.get("template") or {}).get("spec") or {}
    return {}


def counts(jobset: Manifest) -> Counts:
    """Read the numbers from one JobSet as the server holds it. Before its first write there is no status."""
    status = jobset.get("status") or {}
    on_error = integer(status.get("restartsCountTowardsMax")) or 0
    doubt = None if has_our_rules(jobset) else "the JobSet's failurePolicy is not ours: errors may count as recoveries"
    return Counts(max(0, restarts(jobset) - on_error), restarts_on_error=on_error, inexact=doubt)


def outcome(jobset: Manifest) -> Outcome | None:
    """Tell how a JobSet ended, or None while it goes on."""
    for condition in (jobset.get("status") or {}).get("conditions") or ():
        kind = condition.get("type")
        if kind in _OUTCOMES and condition.get("status") == "True":
            reason, message = condition.get("reason") or kind, condition.get("message") or ""
            return Outcome(_OUTCOMES[kind], reason, message, condition.get("lastTransitionTime"))
    return None


def fails_on_next_error(jobset: Manifest) -> bool:
    """Whether no restart on an error is left."""
    limit = ((jobset.get("spec") or {}).get("failurePolicy") or {}).get("maxRestarts")
    return counts(jobset).restarts_on_error >= (integer(limit) or 0)


def restarts(jobset: Manifest) -> int:
    """Return the number of the attempt that the JobSet is at, the first being 0."""
    return integer((jobset.get("status") or {}).get("restarts")) or 0


def was_ready(jobset: Manifest) -> bool:
    """Whether all ranks of the present attempt ran at once, as far as the controller has seen."""
    replicated = (jobset.get("status") or {}).get("replicatedJobsStatus") or ()
    return any(integer(job.get("ready")) for job in replicated)


def check_echo(jobset: Manifest) -> str | None:
    """Tell what a server would lose of a JobSet that it gave back from a dry run, or None if it keeps our form."""
    lost = [] if has_our_rules(jobset) else ["spec.failurePolicy.rules"]
    lost += [] if child_spec(jobset).get("podFailurePolicy") else ["podFailurePolicy of the child Job"]
    if not lost:
        return None
    return f"this JobSet drops {', '.join(lost)}, so it could not count recoveries; JobSet 0.11 or newer is needed"


def has_our_rules(jobset: Manifest) -> bool:
    """Whether errors and interruptions are told apart as they are in our form; defaults may have been added."""
    rules = ((jobset.get("spec") or {}).get("failurePolicy") or {}).get("rules") or ()
    return len(rules) == len(_RULES) and all(
        mine.items() <= rule.items() for mine, rule in zip(_RULES, rules, strict=True)
    )
