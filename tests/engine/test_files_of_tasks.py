"""What is asked of git for the files of tasks, and which image may clone them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reconciler.core.task import parse_task_file
from reconciler.engine.files import Files
from reconciler.model import Limits, Manifest, Site, Task, TreeEntry

if TYPE_CHECKING:
    from reconciler.engine.files import Tree

URL = "https://example.com/a"


class Commit:
    """A commit of two files; `asked` is what was asked of it."""

    commit = "c" * 40

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.was_read: list[list[str]] = []

    def leaves(self, paths: Iterable[str]) -> list[TreeEntry]:
        """Return all of it, as nothing else is asked for here."""
        self.asked.append(sorted(paths))
        sizes = {b"data/large": 2_000_000, b"train/a": 1}
        return [TreeEntry("100644", path.decode(), size, path) for path, size in sizes.items()]

    def read(self, entries: Iterable[TreeEntry]) -> dict[str, bytes]:
        """Return the same for each."""
        self.was_read.append([entry.sha for entry in entries])
        return dict.fromkeys(self.was_read[-1], b"x")


def task_of(text: str) -> Task:
    file = parse_task_file("jobs/train.yaml", f"run: x\n{text}\n".encode())
    assert file.task is not None, file.problems
    return file.task


def files_of(tree: Tree, *tasks: Task, limits: Limits | None = None) -> Files:
    return Files(tree, tasks, URL, Site(git_image="example.com/git:1"), (limits or Limits(), Limits()))


def test_git_is_asked_once_for_all_tasks_and_only_if_one_needs_it() -> None:
    tree, plain = Commit(), task_of("")
    needing = [task_of("workdir: train"), task_of("file_mounts: {~/a: train/a, ~/b: data}")]
    files = files_of(tree, plain, *needing)

    assert (files.of(plain), tree.asked) == ((None, []), [])
    chosen = [files.of(task)[0] for task in needing]
    assert [len(each.chosen.files) for each in chosen if each] == [1, 2]
    assert tree.asked == [["data", "train", "train/a"]]


def job(name: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default", "labels": {}, "annotations": {}}}


def test_contents_are_read_when_a_run_is_made_and_once_for_equal_workdirs() -> None:
    """A plan holds none, however many runs it makes."""
    tree, task, script = Commit(), task_of("workdir: train"), task_of("setup: " + "x" * 100_000)
    files = files_of(tree, task, script)
    makers = [files.maker(each, job("a")) for each in (task, task, script, task_of(""))]
    assert (tree.was_read, makers[-1]) == ([], None)
    made = [make() for make in makers if make]

    assert tree.was_read == [["train/a"]]
    assert [[each["kind"] for each in objects] for objects in made] == [["ConfigMap"]] * 3


def test_what_is_kept_of_contents_does_not_grow_with_the_jobs() -> None:
    tree = Folders(100)
    tasks = [task_of(f"workdir: src/{n:04}") for n in range(100)]
    files = files_of(tree, *tasks)
    for task in tasks:
        for _ in range(2):  # for the dry run and the real one
            files.objects(task, job("a"))

    assert (len(tree.was_read), len(files._contents)) == (100, 16)


def test_git_is_asked_for_all_files_when_a_command_line_could_not_hold_the_paths() -> None:
    """Paths of many tasks together, each of which is fine: no file may stop its neighbours."""
    tree = Commit()
    tasks = [task_of(f"workdir: {number}/{'a/' * 2000}b") for number in range(20)]
    files_of(tree, *tasks).of(tasks[0])

    assert tree.asked == [[""]]


class Counted(bytes):
    """A path that counts how often it is looked at."""

    __slots__ = ()
    looks = 0
    __hash__ = bytes.__hash__

    def __lt__(self, other: bytes) -> bool:
        """Compare, as sorting does."""
        Counted.looks += 1
        return super().__lt__(other)

    def __eq__(self, other: object) -> bool:
        """Compare."""
        Counted.looks += 1
        return super().__eq__(other)

    def startswith(self, *arguments: Any) -> bool:
        """Compare the beginning."""
        Counted.looks += 1
        return super().startswith(*arguments)


class Folders(Commit):
    """A commit of many folders with a file each."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def leaves(self, paths: Iterable[str]) -> list[TreeEntry]:
        """Return all of it."""
        self.asked.append(sorted(paths))
        return [TreeEntry("100644", f"sha-{n}", 1, Counted(b"src/%04d/a" % n)) for n in range(self.number)]


def test_tasks_with_a_workdir_each_cost_the_same_each() -> None:
    """Nobody scans all files for each task, nor gives git a command line that grows with them."""
    number = 600
    tree = Folders(number)
    tasks = [task_of(f"workdir: src/{n:04}") for n in range(number)]
    files = files_of(tree, *tasks)
    Counted.looks = 0
    chosen = [files.of(task)[0] for task in tasks]

    assert [[f.entry.path for f in each.chosen.files] for each in chosen if each] == [
        [b"src/%04d/a" % n] for n in range(number)
    ]
    assert tree.asked == [[""]]
    assert Counted.looks < 60 * number


def test_the_image_that_clones_must_be_allowed() -> None:
    """Of small files nobody clones; what is large or elsewhere needs it."""
    limits = Limits(images=("python:*",))
    tasks = [task_of(f"workdir: {each}") for each in ("train", "data", "{url: https://example.com/b}")]
    files = files_of(Commit(), *tasks, limits=limits)
    problems = [files.of(task)[1] for task in tasks]

    assert [[p.code for p in each] for each in problems] == [[], ["not-allowed"], ["not-allowed"]]
    assert (
        "the image 'example.com/git:1' is not among those that reconciler.yaml allows (python:*)"
        in problems[1][0].message
    )
