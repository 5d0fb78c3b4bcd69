from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.quantity import format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("4", Fraction(4), id="plain"),
        pytest.param(16, Fraction(16), id="a YAML integer"),
        pytest.param(0.1, Fraction(1, 10), id="a YAML float is its text, not its binary value"),
        pytest.param(1e-07, Fraction(1, 10**7), id="a float that Python writes with an exponent"),
        pytest.param("500m", Fraction(1, 2), id="milli"),
        pytest.param("250u", Fraction(1, 4000), id="micro"),
        pytest.param("1n", Fraction(1, 10**9), id="nano"),
        pytest.param("2k", Fraction(2000), id="kilo is a small k"),
        pytest.param("3M", Fraction(3 * 10**6), id="mega"),
        pytest.param("1G", Fraction(10**9), id="giga"),
        pytest.param("1T", Fraction(10**12), id="tera"),
        pytest.param("1P", Fraction(10**15), id="peta"),
        pytest.param("1E", Fraction(10**18), id="a bare E is exa"),
        pytest.param("1E3", Fraction(1000), id="E with digits is an exponent"),
        pytest.param("12e-1", Fraction(6, 5), id="negative exponent"),
        pytest.param("1Ki", Fraction(1024), id="kibi"),
        pytest.param("1.5Gi", Fraction(3 * 2**29), id="a fraction of a binary unit"),
        pytest.param("1Ei", Fraction(2**60), id="exbi"),
        pytest.param(".5", Fraction(1, 2), id="no digit before the point"),
        pytest.param("5.", Fraction(5), id="no digit after the point"),
        pytest.param("+1", Fraction(1), id="plus sign"),
        pytest.param("-1k", Fraction(-1000), id="minus sign"),
    ],
)
def test_quantity_is_read_exactly(text: str | float, number: Fraction) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            ".",
            "-",
            "Gi",
            "1K",
            "1ki",
            "1Kib",
            "1 Gi",
            " 1",
            "1\n",
            "1e",
            "1e3Gi",
            "1e100",
            "4+",
            "0x10",
            "1_0",
            "nan",
        ],
        *["\u0661", "1" * 65, True, float("inf"), None, [], {}],
    ],
)
def test_anything_else_is_refused_with_an_example(text: str | float) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write a number such as 4, 500m, 16Gi or 1e3"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        pytest.param(Fraction(0), "0", id="zero"),
        pytest.param(Fraction(16 * 2**30), "16Gi", id="memory"),
        pytest.param(Fraction(1500), "1500", id="not a whole kilo"),
        pytest.param(Fraction(3, 2), "1500m", id="a half"),
        pytest.param(Fraction(10**9), "1G", id="decimal"),
        pytest.param(Fraction(-4), "-4", id="negative"),
    ],
)
def test_a_number_is_written_as_people_write_it(number: Fraction, text: str) -> None:
    assert format_quantity(number) == text


def test_what_kubernetes_cannot_hold_is_not_written() -> None:
    with pytest.raises(ValueError, match="finer than 1n"):
        format_quantity(Fraction(1, 3))


@given(st.integers(-(2**63), 2**63).map(lambda nanos: Fraction(nanos, 10**9)) | st.integers().map(Fraction))
def test_what_is_written_reads_back_as_the_same_number(number: Fraction) -> None:
    if abs(number) < 2**63:
        assert parse_quantity(format_quantity(number)) == number


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=8))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    try:
        number = parse_quantity(text)
    except ValueError:
        return
    assert isinstance(number, Fraction)
