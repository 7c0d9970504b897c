"""The Helm chart gives the same objects as kustomize, rendered by Helm's own library."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import DEPLOY, documents, library

helm = library("helm_python.chart")

CHART = DEPLOY / "chart" / "inferlog"
EXAMPLES = {path.stem: path for path in (CHART / "examples").glob("*.yaml")}
KUSTOMIZED = {name: name if name == "monitoring" else f"overlays/{name}" for name in EXAMPLES} | {"": "node"}
"""By the values: the folder with the same objects; the default is a node's daemon."""


def values(name: str) -> dict[str, Any]:
    """What an example sets, nothing for the default."""
    return dict(yaml.safe_load(EXAMPLES[name].read_text(encoding="utf-8"))) if name else {}


def rendered(folder: Path = CHART, /, **given: Any) -> list[dict[str, Any]]:
    """The objects of the chart with some values."""
    with helm.Chart.load(str(folder)) as chart:
        made = chart.render(values=given, name="demo")
    return [each for text in made.values() for each in yaml.safe_load_all(text) if each]


def compared(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and name; of lists by name the order does not count, and Helm installs into the namespace that it is told."""
    found = {}
    for each in copy.deepcopy(objects):
        if each["kind"] != "Namespace":
            each["metadata"].pop("namespace", None)
            found[each["kind"], each["metadata"]["name"]] = in_order(each)
    return found


def in_order(value: Any) -> Any:
    """With lists of named things sorted."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        made = [in_order(each) for each in value]
        named = all(isinstance(each, dict) and "name" in each for each in made)
        return sorted(made, key=lambda each: (each["name"], each.get("mountPath", ""))) if named else made
    return value


@pytest.mark.parametrize("name", sorted(KUSTOMIZED))
def test_the_same_objects_as_kustomize(name: str) -> None:
    """Each example values file, and the default."""
    assert compared(rendered(**values(name))) == compared(documents(KUSTOMIZED[name]))


@pytest.mark.parametrize("name", sorted(KUSTOMIZED))
def test_what_is_exported_is_the_same(name: str, exported: Path) -> None:
    """Without the links."""
    assert rendered(exported / "chart" / "inferlog", **values(name)) == rendered(**values(name))


def test_each_overlay_has_its_values() -> None:
    """And the other way round."""
    assert {path.parent.name for path in (DEPLOY / "overlays").rglob("kustomization.yaml")} | {"monitoring"} == EXAMPLES.keys()


@pytest.mark.parametrize("name", sorted(KUSTOMIZED))
def test_lint(name: str) -> None:
    """No finding of `helm lint --strict`."""
    result = helm.lint(str(CHART), values=values(name), strict=True)
    assert result["total_charts_linted"] == 1
    assert [each["error"] for each in result["messages"]] == ["icon is recommended"]
    assert not result["errors"]


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "sidecars"}, {"sidecar": {"nativ": True}}, {"engine": {"port": "8000"}}, {"sidecar": {"extraArgs": ["pd-role"]}}],
    ids=str,
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    """By the schema."""
    with pytest.raises(Exception, match=r"(?i)schema|enum|must be|additional|pattern"):
        rendered(**wrong)


def test_all_values_are_used() -> None:
    """What users set arrives."""
    objects = rendered(
        mode="sidecar",
        nameOverride="logs",
        image={"repository": "registry.example/inferlog", "tag": "9", "pullPolicy": "Always"},
        imagePullSecrets=[{"name": "pull"}],
        resources={"limits": {"memory": "1Gi"}},
        engine={"podLabels": {"pd_group": "chat"}, "env": [{"name": "A", "value": "b"}], "replicas": 3, "command": ["my-vllm"]},
        sidecar={"extraArgs": ["--pd-role=decode"], "logsSize": "1Gi"},
        monitoring={"enabled": True, "labels": {"release": "kps"}, "rules": False, "dashboards": False},
    )
    by_kind = {each["kind"]: each for each in objects}
    assert by_kind.keys() == {"Deployment", "ConfigMap", "PodMonitor", "ServiceMonitor"}
    assert by_kind["PodMonitor"]["metadata"]["labels"]["release"] == "kps"
    assert by_kind["ConfigMap"]["metadata"]["name"] == "logs-logtee"
    template = by_kind["Deployment"]["spec"]["template"]
    assert template["metadata"]["labels"]["pd_group"] == "chat"
    (sidecar,), (engine,) = template["spec"]["initContainers"], template["spec"]["containers"]
    assert (sidecar["image"], sidecar["imagePullPolicy"]) == ("registry.example/inferlog:9", "Always")
    assert sidecar["args"][-1] == "--pd-role=decode"
    assert sidecar["resources"] == {"limits": {"memory": "1Gi"}}
    assert engine["command"][-2:] == ["--", "my-vllm"]
    assert {"name": "A", "value": "b"} in engine["env"]
    assert template["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert by_kind["Deployment"]["spec"]["replicas"] == 3


@pytest.mark.parametrize("config", [{"sources": [{"path": "/x/*.log"}]}, "sources: [{path: /x/*.log}]"], ids=["mapping", "text"])
def test_a_nodes_configuration(config: object) -> None:
    """As text or as a mapping."""
    (found,) = (each for each in rendered(node={"config": config, "scrapedFrom": ""}) if each["kind"] == "ConfigMap")
    assert yaml.safe_load(found["data"]["inferlog.yaml"]) == {"sources": [{"path": "/x/*.log"}]}
