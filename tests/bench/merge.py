"""Compare `merge_pod_config` with the function of SkyPilot 0.14.1 that it copies: `python -m tests.bench.merge`.

The function is read out of the wheel that pip downloads, and runs with nothing of SkyPilot around it. Both merge the
pairs of tests/golden/pod_config_merge.json; with `--freeze` these are made anew, and what upstream's function makes of
them is written beside them. Upstream changes its arguments and ours must not, so upstream is timed twice: on copies
that were made before, and as one has to call it to keep the arguments.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.core.compose import MergeConflict, merge_pod_config

RELEASE = "skypilot==0.14.1"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "pod_config_merge.json"
PAIRS = 400
ROUNDS = 30
FIELDS = (
    *("containers", "initContainers", "ephemeralContainers", "volumes", "resourceClaims", "env", "claims"),
    *("volumeMounts", "volumeDevices", "ports", "hostAliases", "topologySpreadConstraints"),
    *(
        "args",
        "command",
        "imagePullSecrets",
        "tolerations",
        "envFrom",
        "nodeSelector",
        "labels",
        "metadata",
        "spec",
        "x",
    ),
)
KEYS = ("name", "mountPath", "devicePath", "containerPort", "ip", "topologyKey")

Merge = Callable[[dict[str, Any], dict[str, Any]], Any]


class InvalidConfigError(ValueError):
    """Stands in for SkyPilot's own exception."""


def upstream() -> Merge:
    """Return upstream's function, which merges its second argument into its first."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={folder}", RELEASE]
        subprocess.run(pip, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        source = zipfile.ZipFile(wheel).read("sky/utils/config_utils.py").decode()
    exceptions = types.SimpleNamespace(InvalidSkyPilotConfigError=InvalidConfigError)
    names: dict[str, Any] = {"exceptions": exceptions, "yaml_utils": None, "__name__": "config_utils"}
    names["sky_logging"] = types.SimpleNamespace(init_logger=lambda _: None)
    exec(compile(re.sub(r"(?m)^from sky\b.*$", "", source), "config_utils.py", "exec"), names)  # noqa: S102
    merge: Merge = names["merge_k8s_configs"]
    return merge


def make_pairs() -> list[dict[str, Any]]:
    """Make trees of the fields that a merge treats in different ways; an override often is a changed base."""
    chance = random.Random(14)
    pairs = []
    for _ in range(PAIRS):
        base = _mapping(chance, 3)
        override = _changed(chance, copy.deepcopy(base)) if chance.random() < 0.7 else _mapping(chance, 3)
        pairs.append({"base": base, "override": override})
    return pairs


def _mapping(chance: random.Random, depth: int) -> dict[str, Any]:
    return {name: _value(chance, depth - 1) for name in chance.sample(FIELDS, chance.randint(0 if depth < 3 else 1, 3))}


def _value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth <= 0 or kind < 0.25:
        return chance.choice([None, "", "a", "b", 0, 1, True, False])
    if kind < 0.6:
        return _mapping(chance, depth)
    return [_item(chance, depth - 1) for _ in range(chance.randint(0, 2))]


def _item(chance: random.Random, depth: int) -> Any:
    if chance.random() < 0.06:
        return chance.choice([None, "a", 1])
    keys = {chance.choice(KEYS): chance.choice(["a", "b", "c", 1, 2, None]) for _ in range(chance.randint(0, 2))}
    return keys | _mapping(chance, depth)


def _changed(chance: random.Random, tree: Any) -> Any:
    if isinstance(tree, dict):
        kept = {key: _changed(chance, item) for key, item in tree.items() if chance.random() < 0.8}
        return kept | (_mapping(chance, 1) if chance.random() < 0.2 else {})
    if isinstance(tree, list):
        return [_changed(chance, item) for item in tree if chance.random() < 0.8]
    return _value(chance, 1) if chance.random() < 0.25 else tree


def outcome(merge: Merge, pair: dict[str, Any]) -> dict[str, Any]:
    """Return a pair with what upstream's function makes of it; `error` is the field that it names, if it names one."""
    merged, override = copy.deepcopy((pair["base"], pair["override"]))
    try:
        merge(merged, override)
    except InvalidConfigError as error:
        found = re.match(r"Cannot override config field '([^']*)'", str(error))
        return pair | {"error": found[1] if found else None}
    except (AttributeError, TypeError):
        return pair | {"error": None}
    return pair | {"merged": merged}


def seconds(merge: Merge, pairs: list[dict[str, Any]]) -> float:
    """Return the least time of some rounds over all pairs; the copies that a function may change are made before."""
    best = float("inf")
    for _ in range(ROUNDS):
        fresh = [copy.deepcopy((pair["base"], pair["override"])) for pair in pairs]
        begun = time.perf_counter()
        for base, override in fresh:
            try:
                merge(base, override)
            except (InvalidConfigError, MergeConflict, AttributeError, TypeError):
                continue
        best = min(best, time.perf_counter() - begun)
    return best


def with_copies(merge: Merge) -> Merge:
    """Return a function with the same contract as ours: no argument changes, and the result shares nothing."""
    return lambda base, override: merge(copy.deepcopy(base), copy.deepcopy(override))


def main() -> None:
    """Freeze the pairs, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="make the pairs anew, and write what comes of them")
    theirs = upstream()
    if parser.parse_args().freeze:
        frozen = [json.dumps(outcome(theirs, pair), separators=(",", ":")) for pair in make_pairs()]
        GOLDEN.write_text("[\n" + ",\n".join(frozen) + "\n]\n", encoding="utf-8")
    pairs = json.loads(GOLDEN.read_text(encoding="utf-8"))
    ours = seconds(merge_pod_config, pairs)
    print(f"merge_pod_config: {_microseconds(ours, pairs)}")
    for name, merge in (("", theirs), (" on copies", with_copies(theirs))):
        took = seconds(merge, pairs)
        print(f"upstream's function{name}: {_microseconds(took, pairs)}, ratio {ours / took:.2f}")


def _microseconds(took: float, pairs: list[dict[str, Any]]) -> str:
    return f"{took * 1e6 / len(pairs):.1f} us a pair"


if __name__ == "__main__":
    main()
