"""Say in the author's words why a text can't be read as YAML: most such files were pasted, templated or half merged.

Leaf beside `yaml`, which is its only caller. Messages quote no more of the file than the program of a pasted command
line: any word of a file that is not what it should be may be a secret.
"""

from __future__ import annotations

import re
from typing import Any

from reconciler.core.schema.masking import masked

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what YAML 1.1 counts as the end of a line
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMAND = re.compile(
    r"\$ +\S.*|(?:sudo )?(?:cat|tee|echo)\s.*(?:<<|>).*|(?:kubectl|sky|git|bash|sh|helm)\s+[\w./-]+.*"
)
_PROGRAM = re.compile(r"(?:\$ +)?(?:sudo +)?\S+")
_CONFLICT = re.compile(r"^(?:<{7}|>{7}) |^={7}$|^\|{7} ", re.MULTILINE)
_SHOWN = 60
_MOST_TAG_DIRECTIVES = 100
# What the parser says of the likeliest mistakes, what they are, and whether they are where it was or where it began.
_LIKELY = (
    (
        "mapping values are not allowed",
        "a colon that ends no key: quote a text with a colon in it, or write it as a block after |; or indent less",
        False,
    ),
    (
        "could not find expected ':'",
        "a line that is neither `key: value` nor part of the text above: indent it, or put a colon and a blank in",
        True,
    ),
    (
        "parsing a block mapping",
        "a line whose indentation fits none of the lines above, or a text without quotes",
        False,
    ),
    ("scanning a quoted scalar", "a quote that is opened here, and never closed", True),
    ("unknown escape character", "a \\ in double quotes begins an escape: write \\\\, or use single quotes", False),
    ("cannot start any token", "a text that begins with this character needs quotes", False),
    ("scanning an alias", "* begins an alias: a text that begins with it needs quotes", False),
    ("scanning an anchor", "& begins an anchor: a text that begins with it needs quotes", False),
)
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels, aliases expanded"
TEMPLATE = (
    "an unrendered template ({{ }} or {% %}): commit the rendered file, or quote the value if it is meant as text"
)


class Fault(Exception):  # noqa: N818 - raised where reading can't go on, and only collected where it can
    """One thing wrong with a text; lines and columns from 1."""

    def __init__(
        self, code: str, message: str, *, line: int = 1, column: int = 1, field: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column
        self.field = field

    @classmethod
    def at(cls, event: Any, code: str, message: str, field: tuple[str | int, ...] = ()) -> Fault:
        """Place a fault where an event of the parser starts."""
        mark = event.start_mark
        return cls(code, message, line=mark.line + 1, column=mark.column + 1, field=field)


def unreadable(raw: bytes) -> Fault | None:
    """Tell what keeps bytes from being text of a sane size, or None."""
    if len(raw) > MAX_BYTES:
        return Fault("too-large", f"the file has {len(raw)} bytes; at most {MAX_BYTES} are read")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line, column = _place(raw[: error.start].decode())
        return Fault("not-utf8", f"not UTF-8 at byte {error.start}: save it as UTF-8", line=line, column=column)
    if b"\0" in raw:
        line, column = _place(raw[: raw.index(b"\0")].decode())
        return Fault("nul-byte", "a NUL byte: this is no text file", line=line, column=column)
    if raw.count(b"\n%TAG") > _MOST_TAG_DIRECTIVES:  # libyaml compares each with each
        return Fault("unsupported-tag", "%TAG directives are of no use here: leave them out")
    return None


def explain(error: Exception, raw: bytes) -> Fault:
    """Turn what the parser raised into a fault that names the likely cause."""
    text = raw.decode()
    conflict = _CONFLICT.search(text)
    if conflict:
        line, column = _place(text[: conflict.start()])
        return Fault("merge-conflict", "a conflict marker of git: resolve the conflict", line=line, column=column)
    return pasted_command(raw) or _at_mark(error, text)


def pasted_command(raw: bytes) -> Fault | None:
    """Tell whether the first line with anything on it is a shell command, copied along with the YAML."""
    for number, line in enumerate(_BREAK.split(raw.decode()), start=1):
        words = line.strip()
        if words and not words.startswith("#"):
            if not _COMMAND.fullmatch(words):
                return None
            program = masked(_PROGRAM.findall(words)[0])[:_SHOWN]
            message = f"a shell command, not YAML: '{program} ...'; keep only the YAML of it"
            return Fault("shell-command", message, line=number)
    return None


def _at_mark(error: Exception, text: str) -> Fault:
    context = getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or context
    if mark is None:
        found = _UNPRINTABLE.search(text)
        line, column = _place(text[: found.start()]) if found else (1, 1)
        return Fault("control-character", "a control character: remove or escape it", line=line, column=column)
    lines = [*_BREAK.split(text), ""]
    here = lines[min(mark.line, len(lines) - 1)]
    started = lines[min(context.line, len(lines) - 1)] if context else ""
    indentation = here[: len(here) - len(here.lstrip())]
    if any(sign in line for line in (here, started) for sign in ("{{", "{%")):
        code, message = "unrendered-template", TEMPLATE
    elif "nesting depth" in str(getattr(error, "problem", None)):  # newer versions of libyaml stop before we do
        code, message = "too-deep", TOO_DEEP
    elif "\t" in indentation or here[mark.column : mark.column + 1] == "\t":
        code, message = "tab", "a tab, where YAML takes only blanks for indentation"
    else:
        return _syntax(error, mark, context)
    return Fault(code, message, line=mark.line + 1, column=mark.column + 1)


def _syntax(error: Exception, mark: Any, context: Any) -> Fault:
    began = f" {getattr(error, 'context', None)}, from line {context.line + 1}" if context else ""
    problem = str(getattr(error, "problem", None))
    problem = re.sub(r"(tag handle) .*", r"\1", problem)  # PyYAML names it, libyaml doesn't
    said = f"{problem}{began}"
    for words, likely, at_beginning in _LIKELY:
        if words in said:
            place = context if context and at_beginning else mark
            message = f"not valid YAML: {likely} (the parser says: {said})"
            return Fault("syntax", message, line=place.line + 1, column=place.column + 1)
    return Fault("syntax", f"not valid YAML: {said}", line=mark.line + 1, column=mark.column + 1)


def _place(before: str) -> tuple[int, int]:
    lines = _BREAK.split(before)
    return len(lines), len(lines[-1]) + 1
