"""How an API server's refusals read: the fields that are wrong and what to do, but no secrets and no page of text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cluster.refusal import Expired, error_of, shorten
from reconciler.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnauthorized,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    WebhookFailed,
)

TEMPLATE = 'Invalid value: {"containers":[{"env":[{"name":"HF_TOKEN","value":"hunter2"}]}]}: field is immutable'
REQUIRED = {"field": "spec.template.spec.containers[0].image", "message": "Required value"}


def said(code: int, reason: str = "", message: str = "", causes: Any = None) -> ClusterError:
    """Return the error of a Status."""
    status = {"kind": "Status", "reason": reason, "message": message, "details": {"causes": causes}}
    return error_of(code, json.dumps(status).encode(), "create Job ml/a-1 on kind")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        pytest.param(
            said(500, "InternalError", 'failed calling webhook "mjobset.kb.io": connection refused'),
            WebhookFailed,
            '500 InternalError: failed calling webhook "mjobset.kb.io": connection refused (what serves that '
            "webhook is not running; the next pass tries again)",
            id="webhook",
        ),
        pytest.param(
            said(422, "Invalid", 'Job.batch "a-1" is invalid: …', [REQUIRED]),
            Invalid,
            "422 Invalid: spec.template.spec.containers[0].image: Required value",
            id="the fields instead of the message",
        ),
        pytest.param(
            said(422, "Invalid", TEMPLATE, [{"field": "spec.template", "message": TEMPLATE}]),
            Invalid,
            "422 Invalid: spec.template: Invalid value: …: field is immutable",
            id="a whole template, and a secret in it",
        ),
        pytest.param(
            said(422, "Invalid", "", [{"field": "spec.a", "message": 'Unsupported value: "b": supported values: "c"'}]),
            Invalid,
            '422 Invalid: spec.a: Unsupported value: "b": supported values: "c"',
            id="short values stay",
        ),
        pytest.param(
            said(422, "Invalid", "", [{"field": f"spec.f{i}", "message": "Required value"} for i in range(6)]),
            Invalid,
            "422 Invalid: spec.f0: Required value; spec.f1: Required value; spec.f2: Required value; "
            "spec.f3: Required value; and 2 more",
            id="many fields",
        ),
        pytest.param(
            said(400, "BadRequest", 'strict decoding error: unknown field "spec.foo"'),
            Invalid,
            '400 BadRequest: strict decoding error: unknown field "spec.foo"',
            id="unknown field",
        ),
        pytest.param(
            said(409, "AlreadyExists", 'jobs.batch "a-1" already exists'),
            AlreadyExists,
            '409 AlreadyExists: jobs.batch "a-1" already exists',
            id="exists",
        ),
        pytest.param(
            said(409, "Conflict", "the object has been modified"),
            Conflict,
            "409 Conflict: the object has been modified",
            id="changed",
        ),
        pytest.param(
            said(422, "Invalid", "", [{"field": "metadata.uid", "message": 'Invalid value: "u": field is immutable'}]),
            Conflict,
            '422 Invalid: metadata.uid: Invalid value: "u": field is immutable',
            id="another object",
        ),
        pytest.param(
            said(403, "Forbidden", "exceeded quota: gpus, requested: nvidia.com/gpu=8", [{"reason": "x"}]),
            Forbidden,
            "403 Forbidden: exceeded quota: gpus, requested: nvidia.com/gpu=8",
            id="quota",
        ),
        pytest.param(
            said(403, "Forbidden", 'User "ada" cannot create resource "jobs"'),
            Forbidden,
            '403 Forbidden: User "ada" cannot create resource "jobs" '
            "(docs/operating.md lists the rights that are needed)",
            id="RBAC",
        ),
        pytest.param(
            said(403, "Forbidden", 'User "system:anonymous" cannot create resource "jobs"'),
            Forbidden,
            '403 Forbidden: User "system:anonymous" cannot create resource "jobs" '
            "(the kubeconfig's user has no credentials, so the request went without any)",
            id="anonymous",
        ),
        pytest.param(
            said(401, "Unauthorized", "Unauthorized"),
            ClusterUnauthorized,
            "401 Unauthorized: Unauthorized (the credentials were read again and are still refused: log in again)",
            id="401",
        ),
        pytest.param(said(404, "NotFound", "no jobs"), NotFound, "404 NotFound: no jobs", id="404"),
        pytest.param(said(410, "Expired", "too old"), Expired, "410 Expired: too old", id="410"),
        pytest.param(said(504, "Timeout"), ClusterUnreachable, "504 Timeout: no reason given", id="no message"),
    ],
)
def test_refusals(error: ClusterError, kind: type[ClusterError], text: str) -> None:
    """A refusal names the attempt, the API's reason, the fields, and what to do."""
    assert type(error) is kind
    assert str(error) == f"could not create Job ml/a-1 on kind: {text}"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"message": "no Kubernetes"}', b"\xff\xfe"])
@pytest.mark.parametrize("status", [302, 400, 403, 404, 409, 410, 422])
def test_other_voices(status: int, body: bytes) -> None:
    """Something on the way that speaks with Kubernetes' codes says nothing about the object."""
    error = error_of(status, body, "read Job ml/a-1 on kind")

    assert type(error) is ClusterUnreachable
    assert str(error).startswith(f"could not read Job ml/a-1 on kind: {status}, and not in Kubernetes' own words: ")


@given(
    st.integers(300, 599),
    st.one_of(
        st.binary(max_size=2000),
        st.recursive(
            st.none() | st.text(max_size=900) | st.integers(),
            lambda inner: (
                st.lists(inner, max_size=8)
                | st.dictionaries(st.sampled_from(["kind", "message", "reason", "details", "causes", "field"]), inner)
            ),
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_no_body_is_too_odd_or_too_long(status: int, body: bytes) -> None:
    """Whatever comes back, the error is one line of bounded length."""
    text = str(error_of(status, body, "read it"))

    assert "\n" not in text
    assert len(text) < 1000


def test_the_end_of_a_long_text_stays() -> None:
    """The API says what is wrong last."""
    assert shorten("a" * 900 + "\n  the end", 30) == "a" * 10 + " … " + "a" * 12 + " the end"
