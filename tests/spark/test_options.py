"""Options of `format("penstock")`, checked without Spark."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.spark.options import Kind, Option, parse_request, text

BATCHES = Kind(
    "to read batches",
    Option("batches", text, "the name of a queue"),
    (
        Option("batch_id", int, "a whole number", is_required=True),
        Option("page_size", int, "a whole number", default=7),
    ),
    ignored=frozenset({"checkpointlocation"}),
)
PLAIN = Kind("to read plain things", Option("plain", text, "the name of a queue"))
KINDS = (BATCHES, PLAIN)


def test_the_values_of_all_options_are_known() -> None:
    request = parse_request(KINDS, {"batches": "mail", "batch_id": "3", "namespace": "shop"})

    assert request.kind is BATCHES
    assert request.target == "mail"
    assert request.values == {"batch_id": 3, "page_size": 7}
    assert (request.url, request.namespace) == (None, "shop")


@pytest.mark.parametrize("name", ["batch_id", "batchId", "batchid", "BATCH_ID"])
def test_an_option_may_be_spelled_as_in_python_or_as_in_spark(name: str) -> None:
    assert parse_request(KINDS, {"batches": "mail", name: "3"}).values["batch_id"] == 3


def test_options_of_spark_itself_are_passed_over() -> None:
    given = {"batches": "mail", "batchid": "3", "checkpointlocation": "/tmp/x"}

    assert "checkpointlocation" not in parse_request(KINDS, given).values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give exactly one of the options batches, plain; none was given"),
        (
            {"batches": "a", "plain": "b"},
            "give exactly one of the options batches, plain; batches and plain was given",
        ),
        (
            {"batches": "a", "batchid": "1", "colour": "red"},
            "there is no option 'colour' to read batches; there are batches, batch_id, page_size, "
            "url, namespace",
        ),
        (
            {"plain": "a", "checkpointlocation": "x"},
            "there is no option 'checkpointlocation' to read plain things; there are plain, url, "
            "namespace",
        ),
        (
            {"batches": "a"},
            "option 'batch_id' is missing, which is needed to read batches; give a whole number",
        ),
        (
            {"batches": "a", "batch_id": "x"},
            "option 'batch_id' is 'x'; give a whole number",
        ),
        (
            {"batches": "a", "batch_id": "1", "batchid": "2"},
            "option 'batchid' is given twice; give it once",
        ),
        ({"batches": "", "batchid": "1"}, "option 'batches' is ''; give the name of a queue"),
        (
            {"path": "mail"},
            r"format\('penstock'\) has no paths; call load\(\) and save\(\) without one, and name "
            "a queue by one of the options batches, plain",
        ),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}$"):
        parse_request(KINDS, given)


def test_a_url_is_never_shown() -> None:
    request = parse_request(KINDS, {"plain": "mail", "url": "redis://:sesame@host"})

    assert request.url == "redis://:sesame@host"
    assert "sesame" not in repr(request)
