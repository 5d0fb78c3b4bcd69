"""What a pass does where several clusters, or several passes, share one repository."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.cluster.local import LocalCluster
from reconciler.engine.options import Options
from reconciler.engine.reconcile import plan, reconcile
from reconciler.engine.record import read_job
from reconciler.errors import ExitCode, Forbidden, GuardError, SourceError, UsageError
from reconciler.model import JOB_LABEL, RUN_LABEL, TASK_HASH, Manifest, Result, Verb
from reconciler.source.repository import Repository

TRAIN = "resources: {cpus: 1, memory: 0.1}\nrun: sleep 60\n"


class East(LocalCluster):
    """A cluster by another name."""

    context = "east"


class West(LocalCluster):
    """And a third one."""

    context = "west"


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Offer two clusters, and end their jobs afterwards."""
    capacity = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    both = East(tmp_path / "east", capacity), West(tmp_path / "west", capacity)
    yield both
    for cluster in both:
        for job in cluster.list("Job"):
            cluster.delete(job)
        while cluster.list("Pod"):
            time.sleep(0.05)
        cluster.close()


def test_a_job_that_runs_on_another_cluster_is_left_to_its_passes(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """Not seen here is not lost: a pass knows only its own cluster, and the record says where the run is."""
    east, west = clusters
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository:
        first = reconcile(repository, east, Options())
        second = reconcile(repository, west, Options())

    assert [action.verb for action in first.actions] == [Verb.CREATE]
    assert [(action.verb, action.needs_attention) for action in second.actions] == [(Verb.HOLD, False)]
    assert second.actions[0].reason.startswith("train-1 is ")
    assert second.actions[0].reason.endswith("on east, and this pass speaks to west: not looked at")
    assert second.exit_code is ExitCode.FINE
    assert second.documents["train"]["context"] == "east"
    assert west.list("Job") == []


def test_a_job_that_is_to_move_stays_until_its_run_ends(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Another `infra` is no reason to run one job on two clusters at once."""
    east, west = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        commit(folder, {"jobs/train.yaml": TRAIN.replace("{cpus", "{infra: k8s/west, cpus")})
        there = reconcile(repository, west, Options())
        here = reconcile(repository, east, Options())

    assert [action.verb for action in there.actions] == [Verb.HOLD]
    assert [action.verb for action in here.actions] == [Verb.HOLD]
    assert "moves at the next run" in here.actions[0].reason
    assert (len(east.list("Job")), west.list("Job")) == (1, [])


def test_a_file_without_a_name_that_moves_stays_the_same_job(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Tidying up cancels nothing, now or at the next edit."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        commit(folder, {"jobs/train.yaml": None, "jobs/team/train.yaml": TRAIN})
        moved = reconcile(repository, east, Options())
        commit(folder, {"jobs/team/train.yaml": TRAIN + "# the same\n"})
        edited = reconcile(repository, east, Options())

    assert [(action.verb, action.job) for action in moved.actions] == [(Verb.KEEP, "train")]
    assert [(action.verb, action.job) for action in edited.actions] == [(Verb.KEEP, "train")]
    assert edited.documents["train"]["file"] == "jobs/team/train.yaml"


def test_what_another_pass_published_meanwhile_stays(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """A pass that lost the race looked earlier, at an older commit: what it never saw is neither gone nor lost."""
    east, _ = clusters
    folder = repo({"jobs/old.yaml": TRAIN})

    class Overtaken(East):
        """Lets another pass, at a newer commit, come between this one's look and its status."""

        def uid(self) -> str:
            commit(folder, {"jobs/new.yaml": TRAIN})
            with Repository(folder) as other:
                reconcile(other, east, Options())
            return super().uid()

    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        second = commit(folder, {"jobs/old.yaml": TRAIN + "# a comment: the status is to be written\n"})
        overtaken = Overtaken(east._folder, {"cpu": "4"})
        reconcile(repository, overtaken, Options(ref=second, allow_superseded=True))
        then = reconcile(repository, east, Options())

    assert then.documents["new"]["run"]["number"] == 1
    assert then.documents["new"]["state"] not in ("CANCELLED", "LOST")
    assert then.documents["new"]["exact"] is True


def test_a_record_from_before_there_was_a_remote_is_not_forgotten(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], git: Callable[..., str], tmp_path: Path
) -> None:
    """Else every job would run again, under another owner; the message says how to keep knowing them."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        first = reconcile(repository, east, Options())
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(folder, "push", "--quiet", "--set-upstream", "origin", "main")

    with Repository(folder) as repository, pytest.raises(GuardError, match="git push origin job-status") as refused:
        reconcile(repository, east, Options())

    owner = east.list("Job")[0]["metadata"]["labels"]["job-reconciler/owner"]
    assert f"owner: {owner}" in str(refused.value)
    assert first.status_commit is not None


def test_a_class_that_a_new_job_names_is_not_pruned_by_the_same_pass(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Its pods would be refused for ever."""
    east, _ = clusters
    x = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: 1\n"
    folder = repo({"jobs/one.yaml": TRAIN, "priorities/x.yaml": x % "x", "priorities/y.yaml": x % "y"})
    with Repository(folder) as repository:
        reconcile(repository, east, Options())
        two = TRAIN.replace("memory: 0.1}", "memory: 0.1, priority_class: x}")
        commit(folder, {"priorities/x.yaml": None, "jobs/two.yaml": two})
        then = reconcile(repository, east, Options())

    assert {(action.verb, action.name) for action in then.actions if action.name in ("x", "two-1")} == {
        (Verb.CREATE, "two-1"),
        (Verb.HOLD, "x"),
    }


def test_a_name_that_two_files_claim_stays_invalid(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """Being on record as invalid gives no right to the name: a second pass decides as the first."""
    east, _ = clusters
    with Repository(repo({"jobs/a.yaml": f"name: x\n{TRAIN}", "jobs/b.yaml": f"name: x\n{TRAIN}"})) as repository:
        reports = [reconcile(repository, east, Options()) for _ in range(2)]

    assert [report.actions for report in reports] == [(), ()]
    assert {report.documents["x"]["state"] for report in reports} == {"INVALID"}
    assert east.list("Job") == []


def test_settings_that_cannot_be_read_stop_the_pass(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], git: Callable[..., str]
) -> None:
    """Without them the owner, the limits and the images would be others."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN, "elsewhere.yaml": "owner: us\n"})
    (folder / "reconciler.yaml").symlink_to("elsewhere.yaml")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A link")
    with Repository(folder) as repository:
        stopped = reconcile(repository, east, Options())

    assert (stopped.actions, stopped.exit_code) == ((), ExitCode.PARTLY)
    assert [problem.path for problem in stopped.problems] == ["reconciler.yaml"]
    assert east.list("Job") == []


def test_a_branch_of_people_is_not_taken_for_the_status_branch(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], git: Callable[..., str]
) -> None:
    """A wrong name in the settings must not put our files among theirs."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    git(folder, "branch", "release")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "More")
    before = git(folder, "rev-parse", "release")
    with Repository(folder) as repository, pytest.raises(GuardError, match="release is there and is no status branch"):
        reconcile(repository, east, Options(status_branch="release"))

    assert git(folder, "rev-parse", "release") == before
    assert east.list("Job") == []


def test_several_remotes_without_a_choice_are_an_error(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], git: Callable[..., str]
) -> None:
    """No remote at all would mean another owner and an empty record."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    for name in ("upstream", "fork"):
        git(folder, "remote", "add", name, f"/nowhere/{name}.git")
    with Repository(folder) as repository, pytest.raises(SourceError, match="several remotes \\(fork, upstream\\)"):
        reconcile(repository, east, Options())

    assert east.list("Job") == []


EDITS = {
    "another task hash": {"annotations": {TASK_HASH: "0" * 64}},
    "another job": {"labels": {JOB_LABEL: "other"}},
    "another run": {"labels": {RUN_LABEL: "7"}},
    "labels gone": {"labels": {JOB_LABEL: None, RUN_LABEL: None}},
}


@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in EDITS.items()])
def test_an_edit_of_what_we_wrote_on_a_job_changes_nothing(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], edit: Manifest
) -> None:
    """The record knows the run by its uid: it is neither replaced nor cancelled, and nothing runs a second time."""
    east, _ = clusters
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository:
        reconcile(repository, east, Options())
        east.patch(east.list("Job")[0], {"metadata": edit})
        (before,) = east.list("Job")
        report = reconcile(repository, east, Options())

    assert [(a.verb, a.name) for a in report.actions] == [(Verb.KEEP, "train-1")]
    assert report.documents["train"]["run"]["uid"] == before["metadata"]["uid"]
    assert [job["metadata"]["uid"] for job in east.list("Job")] == [before["metadata"]["uid"]]


def test_a_job_with_other_labels_that_is_not_on_record_is_left_to_a_person(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """Nobody can tell whose it is, so it is not touched, and its job is neither started, changed nor ended."""
    east, _ = clusters
    folder = repo({"jobs/train.yaml": TRAIN})
    with Repository(folder) as repository:
        reconcile(repository, east, Options(status_branch="none"))
        east.patch(east.list("Job")[0], {"metadata": {"labels": {JOB_LABEL: "other"}}})
        commit(folder, {"jobs/train.yaml": TRAIN.replace("60", "61")})
        first, second = (reconcile(repository, east, Options()) for _ in range(2))

    told = [(a.verb, a.result, a.name, a.needs_attention) for a in first.actions]
    assert told == [
        (Verb.HOLD, Result.SKIPPED, "train-1", True),
        (Verb.CONFLICT, Result.SKIPPED, "train-1", True),
    ]
    assert first.exit_code is ExitCode.PARTLY
    assert "kubectl label job train-1 -n default --overwrite job-reconciler/job=train" in first.actions[1].reason
    assert (second.status_commit, len(east.list("Job"))) == (None, 1)


class Guarded(East):
    """A cluster where we may look into some namespaces only."""

    allowed: tuple[str, ...] = ("default", "team-b")

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Manifest]:
        """Refuse what is not allowed."""
        if kind != "PriorityClass" and namespace not in self.allowed:
            raise Forbidden(f"could not list {kind} in {namespace}: 403 Forbidden")
        return super().list(kind, namespace=namespace, labels=labels, fields=fields)


def test_a_namespace_that_is_forbidden_holds_its_jobs_alone(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path], commit: Callable[..., str]
) -> None:
    """What we may not see is neither absent nor lost; what we may see goes on."""
    east, _ = clusters
    elsewhere = TRAIN + "config: {kubernetes: {namespace: team-b}}\n"
    folder = repo({"jobs/train.yaml": TRAIN, "jobs/other.yaml": elsewhere})
    guarded = Guarded(east._folder, {"cpu": "4"})
    with Repository(folder) as repository:
        before = reconcile(repository, guarded, Options())
        guarded.allowed = ("default",)
        commit(folder, {"jobs/train.yaml": TRAIN.replace("60", "61"), "jobs/new.yaml": elsewhere})
        first, second = (reconcile(repository, guarded, Options()) for _ in range(2))
        commit(folder, {"jobs/other.yaml": None})
        gone = reconcile(repository, guarded, Options())

    reason = (
        "namespace team-b can't be looked into, so nothing is done there: could not list Job in team-b: 403 Forbidden"
    )
    held = [(a.verb, a.name, a.reason) for a in first.actions if a.needs_attention]
    assert held == [(Verb.HOLD, "new", reason), (Verb.HOLD, "other-1", reason)]
    assert [(a.verb, a.result, a.name) for a in first.actions if not a.needs_attention] == [
        (Verb.REPLACE, Result.DONE, "train-2")
    ]
    assert first.exit_code is second.exit_code is gone.exit_code is ExitCode.PARTLY
    assert first.documents["other"] == before.documents["other"] == gone.documents["other"]
    assert first.documents["new"]["message"] == reason
    assert len(east.list("Job")) == 2


def test_where_every_namespace_is_forbidden_there_is_nothing_to_do(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """Such credentials are good for nothing here: that is the pass's failure."""
    east, _ = clusters
    guarded = Guarded(east._folder, {"cpu": "4"})
    guarded.allowed = ()
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository, pytest.raises(Forbidden, match="in default"):
        reconcile(repository, guarded, Options())


def test_a_run_that_there_never_was_is_not_shown(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """`show train-9` must not show train-1."""
    east, _ = clusters
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository:
        reconcile(repository, east, Options())
        shown = [read_job(repository, Options(), "east", word)[0] for word in ("train", "train-1", "jobs/train.yaml")]
        with pytest.raises(UsageError, match="job train has no run 'train-9' on record, but train-1; as job-status"):
            read_job(repository, Options(), "east", "train-9")

    assert [document["job"] for document in shown] == ["train"] * 3


def test_a_commit_that_is_pushed_during_a_pass_is_not_undone(
    clusters: tuple[LocalCluster, LocalCluster],
    repo: Callable[..., Path],
    commit: Callable[..., str],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A pass that took long looks at the tip again before it writes; its successor has done the rest by then."""
    east, _ = clusters
    folder, remote, colleague = repo({"jobs/train.yaml": TRAIN}), tmp_path / "remote.git", tmp_path / "colleague"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(folder, "remote", "add", "origin", str(remote))
    git(folder, "push", "--quiet", "--set-upstream", "origin", "main")
    git(tmp_path, "clone", "--quiet", str(remote), str(colleague))

    class Slow(East):
        """Lets a colleague push while it answers."""

        def uid(self) -> str:
            commit(colleague, {"jobs/new.yaml": TRAIN})
            git(colleague, "push", "--quiet", "origin", "HEAD")
            return super().uid()

    with Repository(folder) as repository:
        report = reconcile(repository, Slow(east._folder, {"cpu": "4"}), Options())

    assert (report.superseded, report.actions, report.status_commit) == (True, (), None)
    assert report.exit_code is ExitCode.GUARD
    assert east.list("Job") == []


def test_what_pods_clone_waits_until_it_is_pushed(
    clusters: tuple[LocalCluster, LocalCluster],
    repo: Callable[..., Path],
    commit: Callable[..., str],
    git: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Their run could only fail, and with it this version; files that go with the run need no remote."""
    east, _ = clusters
    folder, remote, url = repo({"code/a": "x"}), tmp_path / "remote.git", "https://git.invalid/a.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(folder, "config", f"url.{remote}.insteadOf", url)
    git(folder, "remote", "add", "origin", url)
    git(folder, "push", "--quiet", "--set-upstream", "origin", "main")
    jobs = {f"jobs/{name}.yaml": f"workdir: {name}\n{TRAIN}" for name in ("code", "data")}
    made = commit(folder, {**jobs, "data/large": "x" * 2_000_000})
    with Repository(folder) as repository:
        before = plan(repository, east, Options())
        git(folder, "push", "--quiet")
        after = plan(repository, east, Options())

    reason = f"pods clone these files at commit {made[:10]}, which is not pushed: push it first"
    (small, large) = before.actions
    assert (small.verb, large.verb, large.needs_attention, large.reason) == (Verb.CREATE, Verb.HOLD, True, reason)
    (problem,) = before.problems
    assert (problem.code, problem.path, problem.line, problem.field) == ("not-pushed", "jobs/data.yaml", 1, "workdir")
    assert [action.verb for action in after.actions] == [Verb.CREATE, Verb.CREATE]


class Eventful(East):
    """A cluster that remembers which pods were preempted, and how often it was asked."""

    preempted: tuple[str, ...] = ()
    asked = 0

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> list[Manifest]:
        """Answer for Events too."""
        if kind != "Event":
            return super().list(kind, namespace=namespace, labels=labels, fields=fields)
        self.asked += 1
        return [{"involvedObject": {"kind": "Pod", "name": name}} for name in self.preempted]


def test_events_are_asked_for_only_what_is_unexplained(
    clusters: tuple[LocalCluster, LocalCluster], repo: Callable[..., Path]
) -> None:
    """A pod that ran on record and is gone may have been preempted: that is asked once, and then on record."""
    east, _ = clusters
    eventful = Eventful(east._folder, {"cpu": "4"})
    with Repository(repo({"jobs/train.yaml": TRAIN})) as repository:
        while not (report := reconcile(repository, eventful, Options())).documents["train"]["attempts"]:
            time.sleep(0.05)
        (pod,) = eventful.list("Pod")
        reconcile(repository, eventful, Options())
        assert eventful.asked == 0
        eventful.preempted = (pod["metadata"]["name"],)
        eventful.delete(pod)
        while pod["metadata"]["name"] in {left["metadata"]["name"] for left in eventful.list("Pod")}:
            time.sleep(0.05)
        report = reconcile(repository, eventful, Options())
        asked = eventful.asked
        again = reconcile(repository, eventful, Options())

    assert report.documents["train"]["attempts"][0]["reason"] == "PreemptionByScheduler"
    assert (asked, eventful.asked) == (1, 1)
    assert again.documents["train"]["attempts"][0]["reason"] == "PreemptionByScheduler"
