"""YAML: what a scalar means, where it stood, and what is refused with which words."""

from __future__ import annotations

import json

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import yaml as ours
from reconciler.core.field_path import field_name, field_path
from reconciler.core.schema.masking import masked_key
from reconciler.core.schema.yaml_syntax import MAX_BYTES
from reconciler.core.yaml import parse_documents
from reconciler.core.yaml_output import dump_manifests

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
)


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything with libyaml, and as where PyYAML comes without it."""
    if request.param == "python":
        monkeypatch.setattr(ours, "_Loader", ours._PythonLoader)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        *((word, word) for word in ("yes", "no", "NO", "on", "off", "y", "n", "tRUE")),
        ("4", 4),
        ("-4", -4),
        ("+4", 4),
        ("0", 0),
        ("0644", 420),
        ("0o17", 15),
        ("017", 15),
        ("0x10", 16),
        ("0b101", 5),
        ("08", "08"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", "18446744073709551616"),
        ("9" * 5000, "9" * 5000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("2e-5", 2e-5),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        (".", "."),
        ("-", "-"),
        ("1.2.3", "1.2.3"),
        ("2024-01-31", "2024-01-31"),
        ("2026-13-45", "2026-13-45"),
        ("=", "="),
        ("'4'", "4"),
        ('"true"', "true"),
        ("!!str 4", "4"),
        ("!!int 4", 4),
    ],
)
def test_type_of_a_scalar(text: str, value: object) -> None:
    """Numbers are what kubectl takes for numbers; what YAML readers disagree on stays text (B01, B03, B05)."""
    documents, problems = parse_documents(f"- {text}" if text != "-" else "['-']", "f.yaml")

    assert problems == []
    assert documents[0].value == [value]
    assert type(documents[0].value[0]) is type(value)


@pytest.mark.parametrize(
    ("text", "code", "line", "message"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "duplicate-key", 3, "a stands twice, in line 1 and in line 3", id="duplicate"),
        pytest.param("a: {b: 1, 'b': 2}", "duplicate-key", 1, "a.b stands twice", id="duplicate-quoted"),
        pytest.param("1: a\n'1': b", "duplicate-key", 2, "1 stands twice", id="duplicate-by-text"),
        pytest.param("a: 1\n\tb: 2", "tab", 2, "a tab, where YAML takes only blanks", id="tab"),
        pytest.param("\ta: 1", "tab", 1, "a tab", id="tab-first"),
        pytest.param("a: {{ b }}", "unrendered-template", 1, "an unrendered template", id="template"),
        pytest.param("a: {{ b }}-c", "unrendered-template", 1, "an unrendered template", id="template-and-text"),
        pytest.param("{% if x %}\na: b", "unrendered-template", 1, "an unrendered template", id="template-block"),
        pytest.param(
            "$ kubectl apply -f - <<EOF\na: b\nc: d",
            "shell-command",
            1,
            "a shell command, not YAML: '$ kubectl ...'",
            id="prompt",
        ),
        pytest.param("# x\ncat > x.yaml << 'EOF'\na: b", "shell-command", 2, "a shell command, not YAML", id="cat"),
        pytest.param("sky jobs launch x.yaml", "shell-command", 1, "'sky ...'", id="command-alone"),
        pytest.param("$ export T=hf_abc\na: b", "shell-command", 1, "'$ export ...'", id="no-secret-in-it"),
        pytest.param("a:\n<<<<<<< HEAD\n  b: 1\n=======\n", "merge-conflict", 2, "a conflict marker", id="conflict"),
        pytest.param("a: &x [*x]", "self-reference", 1, "refers to itself", id="self-reference"),
        pytest.param("a: &x\n  <<: *x", "self-reference", 2, "refers to itself", id="merges-itself"),
        pytest.param(BOMB, "too-many-values", 5, "more than 10000 keys and values", id="alias-bomb"),
        pytest.param("a: &x " + "y" * 600_000 + "\nb: [*x, *x]", "too-large", 2, "aliases expanded", id="wide-bomb"),
        pytest.param("a: [" + "1," * 20_000 + "]", "too-many-values", 1, "split it", id="too-many"),
        pytest.param("[" * 100_000, "too-deep", 1, "nested deeper than 64 levels", id="too-deep"),
        pytest.param("- " * 5_000, "too-deep", 1, "nested deeper than 64 levels", id="too-deep-block"),
        pytest.param(" " * (MAX_BYTES + 1), "too-large", 1, "at most 1048576 are read", id="too-large"),
        pytest.param("? [a]\n: b", "bad-key", 1, "a key must be text", id="list-as-key"),
        pytest.param("<<: 1", "bad-merge", 1, "takes a mapping", id="merge-of-a-number"),
        pytest.param(
            "a: !!binary aGk=", "unsupported-tag", 1, "! begins a tag, and this one fits no value", id="binary"
        ),
        pytest.param("a: !!int x", "unsupported-tag", 1, "! begins a tag", id="tag-that-lies"),
        pytest.param("a: !!set {b}", "unsupported-tag", 1, "! begins a tag", id="set"),
        pytest.param("a: !x {b: 1}", "unsupported-tag", 1, "! begins a tag", id="own-tag"),
        pytest.param("a: 'b\n\nc: d", "syntax", 1, "a quote that is opened here, and never closed", id="open-quote"),
        pytest.param("a: b: c", "syntax", 1, "quote a text with a colon in it", id="two-colons"),
        pytest.param("a: b\n  --c: d", "syntax", 2, "or indent less", id="too-far"),
        pytest.param("a: >\n b\nc\nd: e", "syntax", 3, "neither `key: value` nor part of the text", id="no-colon"),
        pytest.param("a:\n  b: 1\n c: 2", "syntax", 3, "fits none of the lines above", id="between-levels"),
        pytest.param("a: @b", "syntax", 1, "a text that begins with this character needs quotes", id="at"),
        pytest.param("a: *", "syntax", 1, "* begins an alias", id="star"),
        pytest.param("a: &", "syntax", 1, "& begins an anchor", id="ampersand"),
        pytest.param('a: "\\d"', "syntax", 1, "write \\\\, or use single quotes", id="escape"),
        pytest.param("%YAML 2.0\n---\na: b", "syntax", 1, "not valid YAML: ", id="another-yaml"),
        pytest.param("a: *b", "syntax", 1, "* begins an alias, and there is no anchor", id="undefined-alias"),
        pytest.param('a: "\\ud800"', None, 1, "", id="half-a-surrogate"),
        pytest.param(b"a: \xe9", "not-utf8", 1, "not UTF-8 at byte 3", id="latin-1"),
        pytest.param(b"\xff\xfea\0", "not-utf8", 1, "not UTF-8 at byte 0", id="utf-16"),
        pytest.param("a: \ud800", "not-utf8", 1, "not UTF-8 at byte 3", id="surrogate-in-text"),
        pytest.param("a: 1\nb: \0", "nul-byte", 2, "a NUL byte", id="nul"),
        pytest.param("a: 1\nb: \x07", "control-character", 2, "a control character", id="bell"),
    ],
)
def test_refusal(text: str | bytes, code: str | None, line: int, message: str) -> None:
    """What can't be read right is refused with its line, and the likely cause by name."""
    _, problems = parse_documents(text, "f.yaml")
    problem = problems[0]

    assert len(problems) == 1
    assert (problem.path, problem.severity, problem.line) == ("f.yaml", "error", line if code else problem.line)
    assert problem.code == (code or problem.code)
    assert message in problem.message


@pytest.mark.parametrize(
    ("text", "beyond"),
    [
        pytest.param("[" * 64 + "]" * 64, "[" * 65 + "]" * 65, id="depth"),
        pytest.param("a: [" + "1," * 9_997 + "]", "a: [" + "1," * 9_998 + "]", id="values"),
        pytest.param(
            "a: &x [1, 2]\nb: [" + "*x," * 3_331 + "]", "a: &x [1, 2]\nb: [" + "*x," * 3_332 + "]", id="aliases"
        ),
        pytest.param("#" * MAX_BYTES, "#" * (MAX_BYTES + 1), id="bytes"),
    ],
)
def test_what_is_within_its_bounds_is_read(text: str, beyond: str) -> None:
    """64 levels, 10 000 keys and values with aliases expanded, and 1 MiB: not one more."""
    assert parse_documents(text, "f.yaml")[1] == []
    assert len(parse_documents(beyond, "f.yaml")[1]) == 1


def test_all_duplicates_are_reported_and_the_first_value_stands() -> None:
    """One pass names every duplicate key, with both lines, and goes on reading."""
    documents, problems = parse_documents("a: 1\nb:\n  c: 1\n  c: 2\na: 2\n", "f.yaml")

    assert [(p.line, p.column, p.field) for p in problems] == [(4, 3, "b.c"), (5, 1, "a")]
    assert documents[0].value == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "---\n# x\n---\n...\n", "null\n", "\ufeff"])
def test_nothing_is_no_document(text: str) -> None:
    """Documents of nothing, of null or of comments alone are left out."""
    assert parse_documents(text, "f.yaml") == ([], [])


def test_documents_before_a_syntax_error_are_kept() -> None:
    """A broken document does not hide those before it."""
    documents, problems = parse_documents("a: 1\n---\nb: [\n", "f.yaml")

    assert [document.value for document in documents] == [{"a": 1}]
    assert [problem.code for problem in problems] == ["syntax"]


@pytest.mark.parametrize(
    "change", [str, lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: t.strip()]
)
def test_line_ends_marks_and_missing_ends_change_nothing(change: object) -> None:
    """CRLF, a byte order mark and a missing last line end are no difference (B14)."""
    text = "a: 1\nrun: |\n  x\n\ty\n  é\nb: 2\n"
    documents, problems = parse_documents(change(text.replace("\n\t", "\n  \t")).encode(), "f.yaml")  # type: ignore[operator]

    assert problems == []
    assert documents[0].value == {"a": 1, "run": "x\n\ty\né\n", "b": 2}
    assert documents[0].position(("b",)) == (6, 1)


def test_merge_keys() -> None:
    """`<<` merges: what a mapping says itself wins, then the first of a list; positions are those of the origin."""
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  c: 3\n  '<<': text\n"
    document = parse_documents(text, "f.yaml")[0][0]

    assert document.value["z"] == {"a": 1, "b": 1, "c": 3, "<<": "text"}
    assert document.position(("z", "b")) == (1, 14)
    assert document.source(("z", "c")) == "3"


def test_positions_and_sources() -> None:
    """A position is a key's, an item's, or the nearest parent's; a source is the text without quotes."""
    document = parse_documents("a:\n  b: [1, 007]\n  'c': \"true\"\n", "f.yaml")[0][0]

    assert document.position(()) == (1, 1)
    assert document.position(("a", "b")) == (2, 3)
    assert document.position(("a", "b", 1)) == (2, 10)
    assert document.position(("a", "missing", "deeper")) == (1, 1)
    assert document.source(("a", "b", 1)) == "007"
    assert document.source(("a", "c")) == "true"
    assert document.source(("a", "b")) is None
    assert document.source(("a", "missing")) is None
    assert document.source(("a", "b", 7)) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("spec", "containers", 0, "env"), "spec.containers[0].env"),
        (("annotations", "job-reconciler/suspend"), "annotations.job-reconciler/suspend"),
        (("labels", "app.kubernetes.io/name"), "labels['app.kubernetes.io/name']"),
        (("a b",), "['a b']"),
        (("x" * 100,), "['" + "x" * 60 + "...']"),
    ],
)
def test_field_name(path: tuple[str | int, ...], name: str) -> None:
    """A path reads as people write it."""
    assert field_name(path) == name


TEXTS = st.text() | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?,<= \n\t0179.e~$")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=6,
)


@given(data=st.binary() | TEXTS.map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_end_in_documents_or_problems(data: bytes) -> None:
    """No input raises, the answer is always the same, and what is read is plain JSON."""
    documents, problems = parse_documents(data, "f.yaml")

    assert problems == parse_documents(data, "f.yaml")[1]
    assert all(problem.line and problem.column and problem.message for problem in problems)
    for document in documents:
        assert json.loads(json.dumps(document.value, allow_nan=False)) == document.value


@given(value=st.dictionaries(st.text(alphabet="abc", min_size=1), VALUES))
def test_what_is_dumped_is_read_back(value: dict[str, object]) -> None:
    """Our own streams load as what they were, by our reader and by PyYAML's."""
    text = dump_manifests([value, value])
    documents, problems = parse_documents(text, "f.yaml")

    assert problems == []
    assert [document.value for document in documents] == ([value, value] if value else [{}, {}])
    assert list(pyyaml.safe_load_all(text)) == [value, value]


def test_dump_is_for_people() -> None:
    """Scripts are blocks, doubtful words are quoted, and nothing points elsewhere (B09)."""
    shared = {"x": "1e3"}
    text = dump_manifests([{"run": "a\nb\n", "m": "no", "t": "12:30", "s": [shared, shared]}])

    assert text == "---\nrun: |\n  a\n  b\nm: 'no'\nt: '12:30'\ns:\n- x: '1e3'\n- x: '1e3'\n"


@given(st.lists(st.text(max_size=20) | st.integers(0, 99), max_size=6))
def test_a_field_name_leads_back_to_its_path(steps: list[str | int]) -> None:
    """What a problem calls a field is enough to find its line, but for what stands behind a key's `=`."""
    path = tuple(step if isinstance(step, int) else masked_key(step) for step in steps if step != "")

    assert field_path(field_name(path)) == path


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("".join(f"k{n}: 1\n" for n in range(4_999)), [], id="as many as may be"),
        pytest.param("".join(f"k{n}: 1\n" for n in range(50_000)), ["too-many-values"], id="one mapping"),
        pytest.param("a: 1\n" * 50_000, ["duplicate-key"] * 4_999 + ["too-many-values"], id="one key"),
        pytest.param("a: {" + ", ".join(f"k{n}" for n in range(50_000)) + "}", ["too-many-values"], id="keys alone"),
    ],
)
def test_keys_are_counted(text: str, problems: list[str]) -> None:
    """What follows too many is not read, however they are written."""
    assert [problem.code for problem in parse_documents(text, "f.yaml")[1]] == problems


def test_a_key_that_is_cut_leads_to_its_line_where_it_is_the_only_one() -> None:
    (document,), _ = parse_documents(f"a:\n- b:\n    c=1: x\n    {'d' * 99}: x\n    e=1: x\n    e=2: x\n", "f.yaml")
    names = [field_name(("a", 0, "b", key)) for key in document.value["a"][0]["b"]]

    assert names[::2] == ["a[0].b['c=...']", "a[0].b['e=...']"]
    assert [document.find(name) for name in names] == [(3, 5), (4, 5), (2, 3), (2, 3)]
    assert document.find("a[1].b['c=...']") == (1, 1)
