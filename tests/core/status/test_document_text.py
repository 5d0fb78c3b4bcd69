"""Documents as YAML that every reader reads the same."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.status.document_text import load
from reconciler.core.yaml_output import dump
from reconciler.model import Document

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["job", "message", "attempts"]), VALUE))
def test_round_trip(content: Document) -> None:
    """What is written is read back, and written again as the same bytes."""
    document = {"schema_version": 1, **content}
    text = dump(document)

    assert load(text) == document
    assert dump(load(text)) == text
    assert text.encode().decode() == text


@given(TEXT)
def test_one_line_a_value(value: str) -> None:
    """A diff on the status branch shows a changed value as one changed line."""
    assert dump({"message": value}).count("\n") == 1


AMBIGUOUS = [
    *(
        "1",
        "-1",
        "+1",
        "1.5",
        ".5",
        "1e3",
        "12e45",
        "1_000",
        "1,000",
        "0x1f",
        "0o17",
        "017",
        "0b1",
        "12:30",
        "190:20:30",
    ),
    *(
        "true",
        "False",
        "YES",
        "no",
        "On",
        "off",
        "y",
        "N",
        "null",
        "Null",
        "~",
        "",
        ".inf",
        "-.INF",
        ".nan",
        "NaN",
        "inf",
    ),
    *(
        "2026-03-01",
        "2026-03-01T10:00:00Z",
        "2026-03-01 10:00:00",
        "=",
        "<<",
        "1234567890" * 4,
        "12345678e0" + "0" * 30,
    ),
]


@pytest.mark.parametrize("value", AMBIGUOUS)
def test_ambiguous_text_is_quoted(value: str) -> None:
    """pyyaml#173, #107, #613: what one YAML reader takes for text is a number, a date or a bool for another."""
    text = dump({"value": value})

    assert text == f"value: '{value}'\n"
    assert yaml.safe_load(text) == {"value": value}


@pytest.mark.parametrize("value", ["train", "jobs/train.yaml", "RUNNING", "/tmp", "Größe", "_", "exit code 3"])
def test_words_stay_bare(value: str) -> None:
    assert dump({"value": value}) == f"value: {value}\n"


def test_what_occurs_twice_is_written_twice() -> None:
    """Anchors are legal YAML that few tools read."""
    attempt = {"node": "node-1"}

    assert dump({"attempts": [attempt, attempt]}) == "attempts:\n- node: node-1\n- node: node-1\n"


def test_half_a_surrogate_pair_ends_no_pass() -> None:
    """JSON from an API can hold one, and no encoding can."""
    assert load(dump({"schema_version": 1, "message": "a\ud800b"}))["message"] == "a?b"


def test_time_without_quotes_is_text() -> None:
    """A person may have edited the file."""
    assert load("schema_version: 1\nended_at: 2026-03-01T10:00:00Z\n")["ended_at"] == "2026-03-01T10:00:00Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "is not YAML: while parsing", id="not YAML"),
        pytest.param("- a", "is no mapping but list", id="a list"),
        pytest.param("", "is no mapping but NoneType", id="empty"),
        pytest.param("a: 1", "has schema_version None, and this release knows 1", id="no version"),
        pytest.param(
            "schema_version: 2", "has schema_version 2, and this release knows 1: upgrade it", id="later release"
        ),
        pytest.param(
            "a: !!python/object:os.system {}",
            "! begins a tag, and this one fits no value here",
            id="code",
        ),
    ],
)
def test_what_is_no_document(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        load(text)
