"""The table of decisions: what a file wants, what the cluster has, what is on record, and what a pass then does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.core.decide import Options, Wanted, decide_job
from reconciler.model import INCOMPLETE, TERMINAL_STATES, Action, Manifest, OnChange, State, Task, Verb
from reconciler.runs import LiveRun, RecordedRun

RERUN = 'set the annotation job-reconciler/rerun: "{}" in jobs/train.yaml'
LOST = (
    "LOST: train-3 is not on the cluster and no end of it is on record, so somebody deleted it; "
    f"to run it again, pass --recreate-lost or {RERUN.format(4)}"
)
GONE = "no file asks for it any more"
GOING = "is being deleted; the next pass looks again"

Row = tuple[str, str, str, bool]  # verb, name, reason, needs attention


@pytest.fixture
def decide(
    task: Callable[..., Task], live_run: Callable[..., LiveRun], recorded_run: Callable[..., RecordedRun]
) -> Callable[..., list[Action]]:
    """Decide about `train`: `wants` changes the task (None: no file), `live` and `record` are runs by arguments."""

    def call(
        wants: dict[str, Any] | None,
        live: tuple[tuple[Any, ...], ...] = (),
        record: tuple[tuple[Any, ...], ...] = (),
        *,
        held: str | None = None,
        **options: Any,
    ) -> list[Action]:
        runs = [live_run(*run[:3], **(run[3] if len(run) > 3 else {})) for run in live]
        recorded = [recorded_run(*run) for run in record]
        wanted = None if wants is None else Wanted(task(**wants), "team-a")
        settings: dict[str, Any] = {
            "context": "kind",
            "now": "2026-03-01T12:00:00Z",
            "site_hash": "site",
            "history_limit": 1,
        }
        flags = Options(**(settings | options))
        return decide_job("train", wanted, runs, recorded, held=held, options=flags)

    return call


def told(actions: list[Action]) -> list[Row]:
    assert {(action.kind, action.job, action.result) for action in actions} <= {("Job", "train", None)}
    return [(action.verb.value, action.name, action.reason, action.needs_attention) for action in actions]


R, S, F, C = State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED
WAIT = {"on_change": OnChange.WAIT}


@pytest.mark.parametrize(
    ("wants", "live", "record", "expected"),
    [
        pytest.param({}, (), (), [("create", "train-1", "jobs/train.yaml is new", False)], id="new file"),
        pytest.param(
            {},
            (),
            ((1, "H", C),),
            [("create", "train-2", "its last run train-1 was cancelled", False)],
            id="last run of this version was cancelled",
        ),
        pytest.param(
            {},
            (),
            ((1, "H", S), (2, "H", C)),
            [("create", "train-3", "its last run train-2 was cancelled", False)],
            id="the last run of a version decides, not the best",
        ),
        pytest.param(
            {},
            (),
            ((1, "G", S),),
            [("create", "train-2", "a new version of jobs/train.yaml", False)],
            id="another version ended on record",
        ),
        pytest.param(
            {},
            ((3, "G", S),),
            (),
            [("create", "train-4", "a new version of jobs/train.yaml", False)],
            id="another version ended, its Job still there",
        ),
        pytest.param(
            {},
            (),
            ((1, "G", R),),
            [("create", "train-2", "a new version of jobs/train.yaml", False)],
            id="another version was lost, its file wants a new one",
        ),
        pytest.param(
            {},
            (),
            ((3, "H", S),),
            [("keep", "train-3", f"already ran as train-3 (SUCCEEDED); to run it again, {RERUN.format(4)}", False)],
            id="succeeded on record, Job gone",
        ),
        pytest.param(
            {},
            (),
            ((3, "H", State.FAILED_SETUP),),
            [("keep", "train-3", f"already ran as train-3 (FAILED_SETUP); to run it again, {RERUN.format(4)}", False)],
            id="failed on record, Job gone",
        ),
        pytest.param(
            {},
            ((3, "H", F),),
            (),
            [("keep", "train-3", f"already ran as train-3 (FAILED); to run it again, {RERUN.format(4)}", False)],
            id="failed on the cluster, record lost",
        ),
        pytest.param(
            {},
            (),
            ((3, "H", R),),
            [
                (
                    "hold",
                    "train-3",
                    LOST,
                    True,
                )
            ],
            id="was running, Job gone",
        ),
        pytest.param(
            {}, ((3, "H", R),), (), [("keep", "train-3", "is what its file asks for (RUNNING)", False)], id="runs"
        ),
        pytest.param(
            {},
            ((3, "H", State.RECOVERING),),
            ((3, "H", R),),
            [("keep", "train-3", "is what its file asks for (RECOVERING)", False)],
            id="recovers",
        ),
        pytest.param(
            {"suspend": True}, ((3, "H", R),), (), [("update", "train-3", "suspend", False)], id="is to suspend"
        ),
        pytest.param(
            {},
            ((3, "H", State.SUSPENDED, {"suspended": True}),),
            (),
            [("update", "train-3", "resume", False)],
            id="is to resume",
        ),
        pytest.param(
            {},
            ((3, "H", State.SUSPENDED, {"suspended": True, "queue": "gpu"}),),
            (),
            [("keep", "train-3", "is what its file asks for (SUSPENDED)", False)],
            id="suspended by Kueue, which alone resumes it",
        ),
        pytest.param(
            {"suspend": True},
            ((3, "H", S),),
            (),
            [("keep", "train-3", f"already ran as train-3 (SUCCEEDED); to run it again, {RERUN.format(4)}", False)],
            id="suspending what ended does nothing",
        ),
        pytest.param(
            {},
            ((3, "H", R, {"site_hash": "old"}),),
            (),
            [
                (
                    "hold",
                    "train-3",
                    (
                        "outdated: site settings changed since run train-3 was made; takes effect at the next run; "
                        f"to have it now, {RERUN.format(4)}"
                    ),
                    False,
                )
            ],
            id="site settings changed",
        ),
        pytest.param(
            {"suspend": True},
            ((3, "H", R, {"site_hash": "old"}),),
            (),
            [("update", "train-3", "suspend", False)],
            id="suspending works on an outdated run",
        ),
        pytest.param(
            {},
            ((3, "G", R),),
            (),
            [("replace", "train-4", "a new version of jobs/train.yaml, in the place of train-3", False)],
            id="another version runs: replace",
        ),
        pytest.param(
            {},
            ((3, "G", R), (2, "F", R)),
            (),
            [
                ("cancel", "train-2", "a new version of jobs/train.yaml", False),
                ("replace", "train-4", "a new version of jobs/train.yaml, in the place of train-3", False),
            ],
            id="two other versions run: the newest is replaced",
        ),
        pytest.param(
            WAIT,
            ((3, "G", R),),
            (),
            [("hold", "train-3", "a new version of jobs/train.yaml, and waits until train-3 ends", False)],
            id="another version runs: wait",
        ),
        pytest.param(
            WAIT,
            ((3, "G", S),),
            (),
            [("create", "train-4", "a new version of jobs/train.yaml", False)],
            id="the version waited for ended",
        ),
        pytest.param(
            {},
            ((3, "G", R), (2, "H", S)),
            (),
            [
                ("keep", "train-2", f"already ran as train-2 (SUCCEEDED); to run it again, {RERUN.format(4)}", False),
                ("cancel", "train-3", "jobs/train.yaml is back at the version that already ran as train-2", False),
            ],
            id="back at an ended version while another runs: replace",
        ),
        pytest.param(
            WAIT,
            ((3, "G", R),),
            ((2, "H", S),),
            [
                ("keep", "train-2", f"already ran as train-2 (SUCCEEDED); to run it again, {RERUN.format(4)}", False),
                (
                    "hold",
                    "train-3",
                    "jobs/train.yaml is back at the version that already ran as train-2; goes on until it ends",
                    False,
                ),
            ],
            id="back at an ended version while another runs: wait",
        ),
        pytest.param(
            {},
            ((4, "H", R), (3, "G", R)),
            (),
            [
                ("keep", "train-4", "is what its file asks for (RUNNING)", False),
                ("cancel", "train-3", "train-4 is what its file asks for", False),
            ],
            id="two reconcilers started two versions",
        ),
        pytest.param(
            {},
            ((3, "H", R, {"deleting": True}),),
            (),
            [("hold", "train-3", GOING, False)],
            id="our Job is being deleted",
        ),
        pytest.param(
            {},
            ((3, "G", State.CANCELLING, {"deleting": True}),),
            (),
            [("hold", "train-3", GOING, False)],
            id="the predecessor is still being deleted",
        ),
        pytest.param(
            {},
            ((4, "H", R), (3, "G", R, {"deleting": True})),
            (),
            [("keep", "train-4", "is what its file asks for (RUNNING)", False), ("hold", "train-3", GOING, False)],
            id="the successor runs, the predecessor is still being deleted",
        ),
        pytest.param(
            {},
            ((3, "H", F, {"deleting": True}),),
            ((3, "H", C),),
            [("create", "train-4", "its last run train-3 was cancelled", False)],
            id="cancelled on record, failed of being deleted",
        ),
        pytest.param(
            {},
            ((3, "G", S, {"deleting": True}),),
            ((3, "G", S),),
            [("create", "train-4", "a new version of jobs/train.yaml", False)],
            id="an ended Job that goes is in nobody's way",
        ),
        pytest.param(
            {},
            ((3, "H", R, {"namespace": "team-b"}),),
            (),
            [("hold", "train-3", "moves at the next run: it runs in namespace team-b, and is to run in team-a", False)],
            id="another namespace, same version",
        ),
        pytest.param(
            {},
            ((3, "G", R, {"namespace": "team-b"}),),
            (),
            [("hold", "train-3", "moves at the next run: it runs in namespace team-b, and is to run in team-a", False)],
            id="another namespace, another version",
        ),
        pytest.param(
            {"context": "prod"},
            ((3, "G", R),),
            (),
            [
                (
                    "hold",
                    "train-3",
                    "moves at the next run: asks for context prod; this pass speaks to kind",
                    False,
                )
            ],
            id="another context, runs here",
        ),
        pytest.param(
            {"context": "prod"},
            (),
            (),
            [("hold", "train-1", "asks for context prod; this pass speaks to kind", False)],
            id="another context, nothing here",
        ),
        pytest.param(
            {"context": "kind"}, (), (), [("create", "train-1", "jobs/train.yaml is new", False)], id="this context"
        ),
        pytest.param(None, ((3, "H", R),), ((3, "H", R),), [("cancel", "train-3", GONE, False)], id="file gone, runs"),
        pytest.param(
            None,
            ((3, "H", R, {"deleting": True}),),
            (),
            [("hold", "train-3", GOING, False)],
            id="file gone, being deleted",
        ),
        pytest.param(None, (), ((3, "H", R),), [], id="file gone, Job gone: only the record changes"),
        pytest.param(None, ((3, "H", S),), (), [], id="file gone, ended, not on record"),
    ],
)
def test_row(
    decide: Callable[..., list[Action]],
    wants: dict[str, Any] | None,
    live: Any,
    record: Any,
    expected: list[Row],
) -> None:
    """One version of a file runs once, and nothing ends without a reason to."""
    actions = decide(wants, live, record)

    assert told(actions) == expected


def test_replace_carries_the_job_to_delete(decide: Callable[..., list[Action]]) -> None:
    """The predecessor travels with the action, as it was read; the successor's manifest is attached later."""
    [action] = decide({}, ((3, "G", R, {"namespace": "team-a"}),))

    assert action.verb is Verb.REPLACE
    assert action.live is not None
    assert action.live["metadata"]["name"] == "train-3"
    assert action.manifest is None
    assert action.namespace == "team-a"


@pytest.mark.parametrize(("suspend", "suspended"), [(True, False), (False, True)], ids=["suspend", "resume"])
def test_update_is_a_merge_patch_of_suspend_alone(
    decide: Callable[..., list[Action]], *, suspend: bool, suspended: bool
) -> None:
    [action] = decide({"suspend": suspend}, ((3, "H", R, {"suspended": suspended}),))

    assert action.manifest == {"spec": {"suspend": suspend}}
    assert action.live is not None


@pytest.mark.parametrize(
    ("suspend", "queue", "spec"),
    [
        pytest.param(False, None, {"spec": {"suspend": False}}, id="goes"),
        pytest.param(True, None, {"spec": {"suspend": True}}, id="stays suspended by its file"),
        pytest.param(False, "gpu", {}, id="stays suspended by Kueue"),
    ],
)
def test_a_run_that_is_not_complete_is_completed(
    decide: Callable[..., list[Action]], *, suspend: bool, queue: str | None, spec: Manifest
) -> None:
    """A pass died before it had made all that the run needs: the caller adds the objects, the patch lets it go."""
    stands = {"suspended": True, "queue": queue, "incomplete": True}
    [action] = decide({"suspend": suspend}, ((3, "H", State.SUSPENDED, stands),))

    assert (action.verb, action.name) == (Verb.UPDATE, "train-3")
    assert action.manifest == {"metadata": {"annotations": {INCOMPLETE: None}}} | spec


def test_lost_run_is_made_again_when_asked(decide: Callable[..., list[Action]]) -> None:
    actions = decide({}, (), ((3, "H", R),), recreate_lost=True)

    assert told(actions) == [("create", "train-4", "train-3 was lost, and lost runs are to be made again", False)]


HELD = "jobs/train.yaml is invalid"


@pytest.mark.parametrize(
    ("wants", "live", "expected"),
    [
        pytest.param(None, ((3, "H", R),), [("hold", "train-3", HELD, True)], id="runs"),
        pytest.param(None, ((3, "H", S), (2, "G", S)), [], id="ended: nothing is pruned"),
        pytest.param(None, (), [], id="nothing there"),
        pytest.param({}, (), [("hold", "train-1", HELD, True)], id="would be created"),
        pytest.param({}, ((3, "G", R),), [("hold", "train-4", HELD, True)], id="would be replaced"),
        pytest.param({"suspend": True}, ((3, "H", R),), [("hold", "train-3", HELD, True)], id="would be updated"),
        pytest.param(
            {}, ((3, "H", R),), [("keep", "train-3", "is what its file asks for (RUNNING)", False)], id="would be kept"
        ),
    ],
)
def test_held(decide: Callable[..., list[Action]], wants: Any, live: Any, expected: list[Row]) -> None:
    """From an invalid file or a partial source nothing is started, changed, ended or pruned."""
    actions = decide(wants, live, ((3, "H", S), (2, "G", S)) if len(live) == 2 else (), held=HELD)

    assert told(actions) == expected
    assert all(action.manifest is None for action in actions)


OLD = "ended, on record, and older than the last {} that are kept"


@pytest.mark.parametrize(
    ("wants", "live", "record", "limit", "pruned"),
    [
        pytest.param(
            None, ((1, "F", S), (2, "G", F), (3, "H", S)), ((1, "F", S), (2, "G", F), (3, "H", S)), 1, [2, 1], id="gone"
        ),
        pytest.param(
            {}, ((1, "F", S), (2, "G", F), (3, "H", S)), ((1, "F", S), (2, "G", F), (3, "H", S)), 1, [1], id="wanted"
        ),
        pytest.param(
            {}, ((1, "F", S), (2, "H", S)), ((1, "F", S), (2, "H", S)), 0, [1], id="a wanted version is never pruned"
        ),
        pytest.param({}, ((1, "F", S), (2, "H", S)), ((2, "H", S),), 0, [], id="not on record"),
        pytest.param({}, ((1, "F", S), (2, "H", S)), ((1, "F", R),), 0, [], id="on record without its end"),
        pytest.param({}, ((1, "F", S, {"deleting": True}), (2, "H", S)), ((1, "F", S),), 0, [], id="on its way out"),
        pytest.param({}, ((1, "F", S), (2, "H", S)), ((1, "F", S),), 1, [], id="within the limit"),
        pytest.param(
            {},
            ((1, "F", S, {"uid": "other"}), (2, "H", S)),
            ((1, "F", S),),
            0,
            [],
            id="another Job of that number is on record",
        ),
    ],
)
def test_prune(
    decide: Callable[..., list[Action]], wants: Any, live: Any, record: Any, *, limit: int, pruned: list[int]
) -> None:
    """An ended Job goes when no file wants its version, its end is on record, and newer ones are enough."""
    actions = [action for action in decide(wants, live, record, history_limit=limit) if action.verb is Verb.PRUNE]

    assert told(actions) == [("prune", f"train-{number}", OLD.format(limit), False) for number in pruned]
    assert all(action.live is not None for action in actions)


HASHES = st.sampled_from("FGH")
RUNNING = [state for state in State if state not in TERMINAL_STATES | {State.INVALID}]
LIVE = st.tuples(
    st.integers(1, 4),
    HASHES,
    st.sampled_from([*RUNNING, S, F]),
    st.fixed_dictionaries({}, optional={"deleting": st.booleans(), "namespace": st.sampled_from(["team-a", "team-b"])}),
)
RECORD = st.tuples(st.integers(1, 4), HASHES, st.sampled_from([*RUNNING, S, F, C]))
CHANGES = st.fixed_dictionaries({}, optional={"suspend": st.booleans(), "on_change": st.sampled_from(OnChange)})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.none() | CHANGES,
    st.lists(LIVE, max_size=3, unique_by=lambda run: run[0]),
    st.lists(RECORD, max_size=3, unique_by=lambda run: run[0]),
    st.none() | st.just(HELD),
)
def test_whatever_is_there(
    decide: Callable[..., list[Action]], wants: Any, live: list[Any], record: list[Any], held: str | None
) -> None:
    """A version runs once, under a number that is new; what is held changes nothing; what is wanted is not pruned."""
    actions = decide(wants, tuple(live), tuple(record), held=held)
    starts = [action for action in actions if action.verb in (Verb.CREATE, Verb.REPLACE)]
    ended = [run for run in [*live, *record] if run[1] == "H" and run[2] in (S, F)]
    cancelled = [run for run in record if run[1] == "H" and run[2] is C]
    of_version = {f"train-{run[0]}" for run in live if run[1] == "H"}

    assert len(starts) <= 1
    assert not starts or wants is not None
    assert not starts or not ended or cancelled
    assert not {action.name for action in starts} & {f"train-{run[0]}" for run in [*live, *record]}
    assert not held or all(action.verb in (Verb.KEEP, Verb.HOLD, Verb.CONFLICT) for action in actions)
    assert wants is None or not {action.name for action in actions if action.verb is Verb.PRUNE} & of_version
    assert all(action.live is not None for action in actions if action.verb in (Verb.CANCEL, Verb.PRUNE, Verb.UPDATE))


def test_numbers_go_up_over_cluster_and_record(decide: Callable[..., list[Action]]) -> None:
    """A number is never used twice, wherever the highest is known."""
    assert decide({}, ((3, "G", S),), ((7, "F", S),))[0].name == "train-8"
    assert decide({}, ((9, "G", S),), ((7, "F", S),))[0].name == "train-10"


@pytest.mark.parametrize("wants", [{}, None])
def test_a_job_that_does_not_go_is_for_a_person(
    live_run: Callable[..., LiveRun], task: Callable[..., Task], wants: dict[str, Any] | None
) -> None:
    """It is held like any that goes, until it is long overdue."""
    run = live_run(3, "H", R, deleting=True)
    gone_at = {"deletionTimestamp": "2026-03-01T10:00:00Z", "finalizers": ["example.com/backup"]}
    stuck = replace(run, manifest=run.manifest | {"metadata": run.manifest["metadata"] | gone_at})
    wanted = None if wants is None else Wanted(task(**wants), "team-a")
    told = [
        (action.verb, action.needs_attention, "example.com/backup" in action.reason)
        for now in ("2026-03-01T10:05:00Z", "2026-03-01T10:06:00Z")
        for action in decide_job("train", wanted, [stuck], [], held=None, options=Options("kind", now))
    ]

    assert told == [(Verb.HOLD, False, False), (Verb.HOLD, True, True)]


NO_JOBSET = {"team-a": "kind has none"}


@pytest.mark.parametrize(
    ("live", "no_jobset", "expected"),
    [
        pytest.param((), {}, [("create", "JobSet", "train-1", "jobs/train.yaml is new", False)], id="new"),
        pytest.param(
            ((1, "G", R),),
            {},
            [("replace", "JobSet", "train-2", "a new version of jobs/train.yaml, in the place of train-1", False)],
            id="in the place of a Job",
        ),
        pytest.param(
            (),
            NO_JOBSET,
            [("hold", "JobSet", "train-1", "needs JobSet for its 2 nodes: kind has none", True)],
            id="no JobSet",
        ),
        pytest.param(
            (),
            {"team-b": "kind has none"},
            [("create", "JobSet", "train-1", "jobs/train.yaml is new", False)],
            id="none in another namespace",
        ),
        pytest.param(
            ((1, "G", R),),
            NO_JOBSET,
            [("hold", "Job", "train-1", "goes on, its successor needs JobSet for its 2 nodes: kind has none", True)],
            id="no JobSet for the successor",
        ),
        pytest.param(
            ((1, "H", R),),
            NO_JOBSET,
            [("keep", "Job", "train-1", "is what its file asks for (RUNNING)", False)],
            id="the one that runs stays",
        ),
    ],
)
def test_several_nodes(
    decide: Callable[..., list[Action]],
    live: tuple[tuple[Any, ...], ...],
    no_jobset: dict[str, str],
    expected: list[tuple[Any, ...]],
) -> None:
    """A run on several nodes is a JobSet; where there are none nothing is started and nothing is ended for it."""
    actions = decide({"num_nodes": 2}, live, no_jobset=no_jobset)

    assert [(a.verb.value, a.kind, a.name, a.reason, a.needs_attention) for a in actions] == expected
