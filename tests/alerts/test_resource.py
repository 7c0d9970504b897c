"""The PrometheusRule is one by the operator's own model: no key is unknown to it, and every value has its form."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from cloudcoil.models.prometheus_operator import v1
from pydantic import ValidationError

from alerts.generate import HERE

RESOURCE: dict[str, Any] = yaml.safe_load((HERE / "prometheusrule.yaml").read_text(encoding="utf-8"))


def understood(resource: dict[str, Any]) -> Any:
    """What the model keeps of a resource: it drops keys that it does not know."""
    return v1.PrometheusRule.model_validate(resource).model_dump(by_alias=True, exclude_unset=True, mode="json")


def test_the_operator_understands_all_of_it() -> None:
    """As written."""
    assert understood(RESOURCE) == RESOURCE


@pytest.mark.parametrize(
    "spoil",
    [
        lambda groups: groups[1]["rules"][0].update(keepFiringFor="5m"),
        lambda groups: groups[1]["rules"][0].update(labls={}),
        lambda groups: groups[1].update(query_ofset="1m"),
        lambda groups: groups[1].update(interval="30 s"),
        lambda groups: groups[1]["rules"][0].update({"for": "soon"}),
        lambda groups: groups[1]["rules"][0].update(labels=["severity"]),
        lambda groups: groups[1]["rules"][0].update(annotations={"summary": 5}),
        lambda groups: groups[1].pop("name"),
        lambda groups: groups[1]["rules"][0].pop("expr"),
    ],
    ids=["unknown field", "misspelt", "misspelt in group", "interval", "for", "labels", "annotation", "no name", "no expression"],
)
def test_the_model_sees_mistakes(spoil: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Else the test above would prove nothing."""
    spoilt = copy.deepcopy(RESOURCE)
    spoil(spoilt["spec"]["groups"])
    try:
        assert understood(spoilt) != spoilt
    except ValidationError as error:
        assert "spec" in str(error)
