"""Links among the files that are copied lead where they lead on a file system, where those files alone are."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.core.git_tree import SYMLINK
from reconciler.core.repository_links import Links
from reconciler.model import TreeEntry

FOLDERS = ["", "d", "d/e", "f"]
NAMES = ["a", "b", "c"]
STEPS = st.sampled_from([*NAMES, "d", "e", "..", "..", ".", ""])
TARGETS = st.lists(STEPS, min_size=1, max_size=4).map("/".join).filter(lambda target: target and target[0] != "/")
PLACES = [f"{folder}/{name}".lstrip("/") for folder, name in itertools.product(FOLDERS, NAMES)]
TREES = st.dictionaries(st.sampled_from(PLACES), st.none() | TARGETS | TARGETS, min_size=2, max_size=8)


def lost(folder: str, tree: dict[str, str | None]) -> dict[str, str | None]:
    """Return what is said of each link of a folder; None in a tree is a file that is no link."""
    entries = [TreeEntry(SYMLINK if to is not None else "100644", p, 1, p.encode()) for p, to in tree.items()]
    links = Links(folder.encode(), entries, {place: to.encode() for place, to in tree.items() if to is not None})
    return {place: links.lost(place.encode()) for place, target in tree.items() if target is not None}


def leaves(root: Path, link: Path) -> bool:
    """Tell whether following a link passes through a folder outside; by what the kernel says of each step."""
    steps, here, links = [link.name], link.parent, 0
    while steps and links < 50:
        step = steps.pop()
        if step == ".." and here == root:
            return True
        path = (here / step).resolve() if step == ".." else here / step
        if path.is_symlink():
            links += 1
            steps += reversed(path.readlink().parts)
        elif path.exists():
            here = path
        else:
            return False
    return False


@settings(max_examples=60)
@given(TREES)
@example({"d/e/b": "..", "d/e/a": "b/../..", "a": None})
@example({"a": "b", "b": "a"})
@example({"a": "b/", "b": None})
@example({"a": "b/.", "b": None})
@example({"d/a": "../d/./b", "d/b": "../f", "f/c": None})
def test_a_link_is_found_where_the_kernel_finds_it(tree: dict[str, str | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        for place, target in tree.items():
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("") if target is None else path.symlink_to(target)
        found = {
            place: (root / place).exists() and not leaves(root, root / place)
            for place, target in tree.items()
            if target is not None
        }

    assert {place: why is None for place, why in lost("", tree).items()} == found


@pytest.mark.parametrize("length", [39, 40, 41])
def test_a_chain_of_links_may_be_as_long_as_the_kernel_follows_it(tmp_path: Path, length: int) -> None:
    (tmp_path / "0").touch()
    for number in range(1, length + 1):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    try:
        found = (tmp_path / str(length)).exists()
    except OSError:
        found = False
    tree = {"0": None} | {str(number): str(number - 1) for number in range(1, length + 1)}

    assert (lost("", tree)[str(length)] is None) == found
