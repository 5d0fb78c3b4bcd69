"""Break valid files at random, many in one repository, and look at what `validate` says of them and of the others.

By hand: `python tests/engine/mutated_files.py 100000 [SEED]`, which ends at the first rule that is broken and shows the
file. A smaller number runs as a test.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import run

from reconciler.core.document import problem_entry
from reconciler.core.settings import parse_site
from reconciler.engine.validate import CheckedFile, validate
from reconciler.model import Problem
from reconciler.source.clone import open_repository
from reconciler.source.repository import Repository
from reconciler.source.revision import SETTINGS

ROOT = Path(__file__).resolve().parent.parent.parent
BATCH = 500
SETTINGS_OF_A_BATCH = 50
NEIGHBOURS = {
    "jobs/good.yaml": b"name: neighbour-good\nrun: x\nresources: {priority_class: neighbour}\n",
    "jobs/warned.yaml": b"name: neighbour-warned\nrun: x\nresources: {use_spot: true}\n",
    "jobs/bad.yaml": b"name: neighbour-bad\nrun: x\nresources:\n  cpus: many\n",
    "priorities/good.yaml": (
        b"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: neighbour}\nvalue: 7\n"
    ),
}
SCALARS = (
    *("", "~", "true", "no", "0", "-1", "1.50", "0x10", "0777", "1e999", ".nan", "2026-13-45", "1_000", "9" * 30),
    *("k8s/", "aws", "16G", "4x", "H100:0.5", "secrets:A", "$HOME", "{{ a }}", "{}", "[]", "[a, [b]]", "{a: {b: }}"),
    *('"\\0"', '"\\e[31m"', '"\\u2028"', "'x'", "|", ">-", "a: b", "&a b", "*a", "!!int x", "!!set {a}"), "x" * 300,
)  # fmt: skip
TOKENS = (
    *(b"\t", b"\0", b"\r", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x1b[2J", b"\n---\n"),
    *(b"{", b"}", b"[", b"]", b"&a ", b"*a ", b"<<: ", b"!x ", b"? ", b": ", b"- ", b"'", b'"', b"#", b"%", b"@", b"`"),
    *(b"<<<<<<< HEAD\n", b"\n%YAML 1.1\n---\n", b"{% if x %}", b"{{", b"|", b">", b" ", b"\n", b",", b"[" * 80),
)  # fmt: skip


class BrokenRuleError(AssertionError):
    """What a mutation has brought to light."""


def corpus() -> list[bytes]:
    """Return valid task files and classes: the examples, those of the documents, and the goldens."""
    files = [*(ROOT / "jobs").glob("*.yaml"), *(ROOT / "priorities").glob("*.yaml")]
    files += (ROOT / "tests/golden/render").glob("*/task.yaml")
    shown = [
        text
        for page in (ROOT / "docs").glob("*.md")
        for text in re.findall(
            r"^```yaml\n(# (?:jobs|priorities)/\S+\n.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
        )
    ]
    return [*(file.read_bytes() for file in sorted(files)), *(text.encode() for text in sorted(shown))]


def settings_corpus() -> list[tuple[str, bytes]]:
    """Return valid settings files."""
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for name in SETTINGS:
            pattern = rf"^```yaml\n(# {re.escape(name)}\n.*?)^```"
            found += [(name, t.encode()) for t in re.findall(pattern, page.read_text(), re.DOTALL | re.MULTILINE)]
    return found


def mutated(data: bytes, others: list[bytes], source: random.Random) -> bytes:
    """Break a file in one to three ways."""
    for _ in range(source.randint(1, 3)):
        data = source.choice((_bytes, _lines, _lines, _value, _value, _value, _value, _spliced))(data, others, source)
    return data


def _bytes(data: bytes, _others: list[bytes], source: random.Random) -> bytes:
    at = source.randint(0, len(data))
    way = source.randrange(4)
    if way == 0:
        return data[:at] + source.choice(TOKENS) + data[at:]
    if way == 1:
        return data[:at] + bytes([source.randrange(256)]) + data[at + 1 :]
    if way == 2:
        return data[:at] + data[at + source.randint(1, 12) :]
    return data[:at] if source.random() < 0.2 else data.replace(b"\n", b"\r\n")


def _lines(data: bytes, _others: list[bytes], source: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, to = source.randrange(len(lines)), source.randrange(len(lines))
    way = source.randrange(5)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(to, lines[at])
    elif way == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif way == 3:
        lines[at] = b" " * source.randint(1, 4) + lines[at]
    else:
        lines[at] = lines[at].removeprefix(b"  ")
    return b"\n".join(lines)


def _value(data: bytes, _others: list[bytes], source: random.Random) -> bytes:
    """Put another value after one of the keys, or another name before its colon."""
    keys = list(re.finditer(rb"([\w./-]+):( [^\n]*)?", data))
    if not keys:
        return data
    key = source.choice(keys)
    if source.random() < 0.3:
        return data[: key.start(1)] + source.choice(keys)[1] + data[key.end(1) :]
    return data[: key.end(1)] + b": " + source.choice(SCALARS).encode() + data[key.end() :]


def _spliced(data: bytes, others: list[bytes], source: random.Random) -> bytes:
    other = source.choice(others)
    return data[: source.randint(0, len(data))] + other[source.randint(0, len(other)) :]


def check(count: int, seed: int, folder: Path) -> Counter[str]:
    """Send so many mutated files through `validate` and count what was said by its code.

    Raises BrokenRuleError: when a file is not listed, when what is said of the neighbours changes, or when a problem is
    not one line of text at a place of its file.
    """
    source = random.Random(seed)
    seeds = corpus()
    met: Counter[str] = Counter()
    run(["git", "init", "--quiet", str(folder)], check=True)
    _write(folder, NEIGHBOURS)
    with open_repository(str(folder), folder) as repository:
        expected = validate(repository, None)
        for number in range(0, count, BATCH):
            files = dict(_batch(seeds, min(BATCH, count - number), source))
            _write(folder, files)
            for file in _checked(repository, files, expected):
                met.update({problem.code for problem in file.problems} or {"accepted"})
            for name, data in settings_corpus() * SETTINGS_OF_A_BATCH:
                broken = mutated(data, seeds, source)
                _check_problems(name, broken, tuple(parse_site({name: broken})[1]))
            for path in files:
                (folder / path).unlink()
    return met


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _batch(seeds: list[bytes], count: int, source: random.Random) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        data = source.choice(seeds)
        place = "priorities" if b"PriorityClass\n" in data else "jobs"
        yield f"{place}/mutated-{number}.yaml", mutated(data, seeds, source)


def _checked(repository: Repository, files: dict[str, bytes], expected: list[CheckedFile]) -> list[CheckedFile]:
    """Validate, and hold what comes out against the rules; return what is said of the mutated files."""
    found = validate(repository, None)
    if [file for file in found if file.path in NEIGHBOURS] != expected:
        raise BrokenRuleError("the verdict on a neighbour has changed; halve the batch to find by which file")
    others = [file for file in found if file.path not in NEIGHBOURS]
    if {file.path for file in others} != files.keys():
        raise BrokenRuleError(f"not listed: {files.keys() - {file.path for file in others}}")
    for file in others:
        _check_problems(file.path, files[file.path], file.problems)
    return others


def _check_problems(path: str, data: bytes, problems: tuple[Problem, ...]) -> None:
    lines = len(re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-8", "replace")))
    places = [(problem.line or 0, problem.column or 0) for problem in problems]
    for problem in problems:
        text = json.dumps(problem_entry(problem), ensure_ascii=False, allow_nan=False)
        placed = problem.line is None or (1 <= problem.line <= lines + 1 and (problem.column or 1) >= 1)
        if not (text.isprintable() and placed and problem.path == path and problem.message and len(text) < 3000):
            raise BrokenRuleError(f"{text}\n{data!r}")
    if places != sorted(places):
        raise BrokenRuleError(f"{path}: not in the order of the file: {places}\n{data!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mutated-") as scratch:
        how_many, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
        for code, times in check(how_many, first, Path(scratch)).most_common():
            print(f"{times:8} {code}")
