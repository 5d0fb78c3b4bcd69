"""The variables of a task: `envs` with their text as it stands in the file, `secrets` by reference or by value."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Any

from reconciler.core.field_path import field_name
from reconciler.core.schema.fields import Shape, listed, shown
from reconciler.core.schema.masking import masked_key
from reconciler.core.schema.name_rules import OUR_VARIABLES, is_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.core.field_path import FieldPath
    from reconciler.core.schema.fields import Reader

REFERENCE = "secrets:"
_WORDS = {
    word: meaning
    for words, meaning in ((("yes", "on"), True), (("no", "off"), False))
    for lower in words
    for word in (lower, lower.capitalize(), lower.upper())
}
_UNDERSCORED = re.compile(r"[-+]?[1-9][0-9]{0,18}(?:_[0-9]{1,18}){1,4}")
_BASE_60 = re.compile(r"[-+]?[1-9][0-9]{0,8}(?::[0-5]?[0-9]){1,4}")
_MAYBE_SECRET = re.compile(r"key|token|secret|pass|pin|auth|cred|[^A-Za-z0-9_]", re.IGNORECASE)
_NAMED = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
REGISTRY_LOGIN = ("SKYPILOT_DOCKER_USERNAME", "SKYPILOT_DOCKER_PASSWORD", "SKYPILOT_DOCKER_SERVER")


def read_envs(reader: Reader, path: FieldPath, envs: dict[str, Any]) -> dict[str, str]:
    """Return variables and their values: the source text, so that `true`, `007` and `2e-5` stay what they are.

    SkyPilot passes `True`, `7` and `2e-5`, and for `no` or `1:30` `False` or `90`; one warning names variables where
    a program would see the difference, and shows it of one whose name is not that of a secret.
    All variables without a value are named at once, by one problem.
    """
    result = {name: _env(reader, (*path, name), value) for name, value in envs.items()}
    empty = [name for name, value in envs.items() if value is None]
    if empty:
        others = f", nor have {listed([*map(masked_key, empty[1:])])}" if empty[1:] else ""
        message = f'{field_name((*path, empty[0]))} has no value{others}: write one ("" is empty) or use secrets'
        reader.error((*path, empty[0]), "missing-value", message)
    there = {
        name: _in_python(envs[name], text) for name, text in result.items() if reader.document.is_plain((*path, name))
    }
    differing = [name for name, text in there.items() if text != result[name]]
    if differing:
        names = listed([*map(masked_key, differing)])
        message = f"passed as written: {names}; SkyPilot would pass what Python makes of it"
        if tellable := next((name for name in differing if not _MAYBE_SECRET.search(name)), None):
            message += f': {tellable} is "{result[tellable]}" here and "{there[tellable]}" there; quote it'
        reader.warning((*path, differing[0]), "env-text", message)
    return result


def read_secrets(
    reader: Reader, path: FieldPath, secrets: dict[str, Any] | list[Any], envs: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return variables with the keys of the Secret that hold their values, and those with a value in the file.

    One warning names the latter, and nothing shows a value. A variable that is in `envs` too is refused: one of them
    would silently win.
    """
    if isinstance(secrets, dict):
        places = [((*path, name), name, value) for name, value in secrets.items()]
    else:
        places = [((*path, index), item, None) for index, item in enumerate(secrets)]
    references: dict[str, str] = {}
    values: dict[str, str] = {}
    for place, item, value in places:
        if not isinstance(item, str) or (isinstance(secrets, list) and not item.startswith(REFERENCE)):
            message = f"{field_name(place)} must be {REFERENCE}NAME; with values, secrets is a mapping"
            reader.error(place, "invalid-value", message)
            continue
        name = item.removeprefix(REFERENCE)
        if name in envs:
            line, _ = reader.document.position(("envs", name))
            message = f"{masked_key(name)} is in secrets and, in line {line}, in envs too: leave one"
            reader.error(place, "conflict", message)
        if not _is_variable(reader, place, name):
            continue
        if value is None:
            references[name] = name
            if reader.document.is_anchor(place):
                message = f"{field_name(place)} is null, for & begins an anchor: a text that begins with & needs quotes"
                reader.warning(place, "anchor", message)
        elif reader.has_shape(place, value, Shape.TEXT, Shape.NUMBER, Shape.BOOLEAN):
            values[name] = _env(reader, place, value)
    if values:
        message = (
            f"in git, where whoever can read the repository finds it: {listed([*values])}; write null, and keep the "
            "value under that key of a Kubernetes Secret"
        )
        reader.warning((*path, next(iter(values))), "inline-secret", message)
    return references, values


def named_in(text: str) -> list[str]:
    """Return the variables that a text names, as `$NAME` or `${NAME}`."""
    return [first or second for first, second in _NAMED.findall(text)]


def filled_in(text: str, env: Mapping[str, str]) -> str:
    """Put values in the place of `$NAME` and `${NAME}`; what there is no value for stays, and values are not read."""
    return _NAMED.sub(lambda match: env.get(match[1] or match[2], match[0]), text)


def _env(reader: Reader, place: FieldPath, value: Any) -> str:
    text = value if isinstance(value, str) else reader.document.source(place) or ""
    if _is_variable(reader, place, str(place[-1])) and value is not None and value is not text:
        reader.has_shape(place, value, Shape.TEXT, Shape.NUMBER, Shape.BOOLEAN)
    if "\0" in text:
        reader.error(place, "nul-byte", f"{field_name(place)} has a NUL in it, which no variable can hold")
    return text


def _is_variable(reader: Reader, place: FieldPath, name: str) -> bool:
    """Check a name; of `NAME=value` or `NAME:value` in a wrong place only the name is shown."""
    if name in REGISTRY_LOGIN:
        message = (
            f"{field_name(place)} can't be used here: the kubelet pulls the image, not the job; make a Secret by "
            "kubectl create secret docker-registry, and name it in imagePullSecrets of "
            "config.kubernetes.pod_config.spec"
        )
        reader.error(place, "unsupported-field", message)
        return False
    if name in OUR_VARIABLES:
        reader.error(place, "reserved", f"{name} is ours, and tells our supervisor about the run: choose another name")
        return False
    if is_variable(name):
        return True
    message = f"{shown(masked_key(name))} can't name a variable: use letters, digits and _, and no digit first"
    reader.error(place, "invalid-value", message)
    return False


def _in_python(value: Any, text: str) -> str:
    """Return what PyYAML, which reads YAML 1.1, and str() make of a text without quotes."""
    if isinstance(value, bool | int | float):
        return (
            text if isinstance(value, float) and "e" in text.lower() else str(value)
        )  # it leaves most exponents alone
    if text in _WORDS:
        return str(_WORDS[text])
    if _UNDERSCORED.fullmatch(text):
        return str(int(text.replace("_", "")))
    if _BASE_60.fullmatch(text):
        sign = "-" if text.startswith("-") else ""
        return sign + str(reduce(lambda total, part: total * 60 + int(part), text.lstrip("+-").split(":"), 0))
    return text
