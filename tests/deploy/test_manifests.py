"""What is applied is valid, whole and harmless: each overlay and example as kustomize builds it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.generate import files
from exporter.config import load
from tests.conftest import parsed_arguments

from .conftest import DEPLOY, ROOT, documents, library, rendered

FOLDERS = sorted(
    str(path.parent.relative_to(DEPLOY))
    for path in DEPLOY.rglob("kustomization.yaml")
    if "components" not in path.parts and "base" not in path.parts
)
VERSIONS = ("1.32", "1.37")
OF_OPERATORS = ("monitoring.coreos.com", "orchestration.aibrix.ai", "workloads.x-k8s.io")


def test_all_ways_are_there() -> None:
    """The list is not empty by accident."""
    assert {"node", "monitoring", "overlays/sidecar", "overlays/sidecar-plain", "examples/vllm-pd", "examples/aibrix-ray"} <= set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_exported_is_the_same(folder: str, exported: Path) -> None:
    """Wherever it is written."""
    assert rendered(str(exported / folder)) == rendered(folder)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_schema(folder: str, version: str) -> None:
    """No unknown key and no wrong type, in the oldest and the newest version that the validator knows."""
    kubernetes_validate = library("kubernetes_validate")

    for each in documents(folder):
        if not each["apiVersion"].startswith(OF_OPERATORS):
            kubernetes_validate.validate(each, version, strict=True)
    for pod in pods(folder):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": pod["spec"]}, version, strict=True
        )


def test_a_key_that_is_misspelt_is_found() -> None:
    """The validation above can fail."""
    kubernetes_validate = library("kubernetes_validate")
    (daemons,) = (each for each in documents("node") if each["kind"] == "DaemonSet")
    daemons["spec"]["template"]["spec"]["containers"][0]["volumMounts"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(daemons, VERSIONS[0], strict=True)


def test_operator_kinds() -> None:
    """The Prometheus operator's own types take them, and keep every key."""
    models = library("cloudcoil.models.prometheus_operator.v1")

    seen = set()
    for each in documents("monitoring"):
        if each["apiVersion"] == "monitoring.coreos.com/v1":
            model = getattr(models, each["kind"]).model_validate(each)
            assert model.model_dump(by_alias=True, exclude_unset=True, mode="json") == each
            seen.add(each["kind"])
    assert seen == {"PodMonitor", "ServiceMonitor", "PrometheusRule"}


def test_an_operator_key_that_is_misspelt_is_found() -> None:
    """The comparison above can fail."""
    models = library("cloudcoil.models.prometheus_operator.v1")

    (monitor,) = (each for each in documents("monitoring") if each["kind"] == "PodMonitor")
    monitor["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
    assert models.PodMonitor.model_validate(monitor).model_dump(by_alias=True, exclude_unset=True, mode="json") != monitor


def test_rules_and_dashboards_are_the_shipped_ones() -> None:
    """Nothing is copied, so nothing is out of step."""
    found = documents("monitoring")
    (rule,) = (each for each in found if each["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(files()["prometheusrule.yaml"])["spec"]
    maps = [each for each in found if each["kind"] == "ConfigMap"]
    shipped = {path.name: json.loads(path.read_text()) for path in (ROOT / "dashboards").glob("inferlog-*.json")}
    assert {name: json.loads(text) for each in maps for name, text in each["data"].items()} == shipped
    assert all(each["metadata"]["labels"]["grafana_dashboard"] == "1" for each in maps)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_object_is_too_large_for_kubectl(folder: str) -> None:
    """`kubectl apply` keeps each object in an annotation of 256 KiB."""
    assert all(len(json.dumps(each)) < 262_144 for each in documents(folder))


def pods(folder: str) -> Iterator[dict[str, Any]]:
    """All pod templates in it, at whatever depth a custom resource has them."""
    waiting: list[Any] = list(documents(folder))
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "containers" in each.get("spec", {}) if isinstance(each.get("spec"), dict) else False:
                yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def sidecars(folder: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All containers of inferlog, each with its pod."""
    for pod in pods(folder):
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
            if container["name"] == "inferlog":
                yield pod, container


WORKLOADS = [folder for folder in FOLDERS if folder != "monitoring"]


@pytest.mark.parametrize("folder", WORKLOADS)
def test_inferlog_has_as_few_rights_as_it_can(folder: str) -> None:
    """Everywhere the same; root only on the node, without any capability."""
    found = list(sidecars(folder))
    assert found
    for _, container in found:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (context["runAsUser"], context.get("runAsNonRoot")) == ((0, None) if folder == "node" else (10001, True))
        assert all(mount.get("readOnly") or "state" in mount["name"] for mount in container["volumeMounts"])
        assert "memory" in container["resources"]["limits"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
        assert "startupProbe" not in container
        assert (container.get("readinessProbe") or {}).get("httpGet", {}).get("path") == {
            "node": "/-/ready", "overlays/engine-ready": "/engine/ready"
        }.get(folder)  # fmt: skip


@pytest.mark.parametrize("folder", WORKLOADS)
def test_flags_and_files_are_ones_that_inferlog_takes(folder: str, tmp_path: Path) -> None:
    """The arguments are parsed by the real command line, the configuration by the real loader."""
    for _, container in sidecars(folder):
        found = parsed_arguments(*container["args"])
        assert found["logs"] or found["config"]
    for each in documents(folder):
        for name, text in (each.get("data") or {}).items() if each["kind"] == "ConfigMap" else ():
            if name == "inferlog.yaml":
                (tmp_path / name).write_text(text)
                assert load(tmp_path / name).sources


@pytest.mark.parametrize("folder", WORKLOADS)
def test_what_is_mounted_is_there(folder: str) -> None:
    """Each mount has its volume, each volume its configuration, each probe and monitor its port."""
    maps = {each["metadata"]["name"] for each in documents(folder) if each["kind"] == "ConfigMap"}
    for pod in pods(folder):
        volumes = {each["name"]: each for each in pod["spec"].get("volumes", [])}
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes.keys()
            ports = {port["name"] for port in container.get("ports", [])}
            probes = [container[name] for name in ("livenessProbe", "readinessProbe") if name in container]
            assert {probe["httpGet"]["port"] for probe in probes} <= ports
            if container["name"] == "inferlog":
                assert container["ports"] == [{"name": "inferlog", "containerPort": 19877}]
                assert pod["metadata"]["labels"]["inferlog"] == ("node" if folder == "node" else "sidecar")
        assert {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume} <= maps


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_engine_writes_where_inferlog_reads(folder: str) -> None:
    """In one volume, with room for what is kept; the engine's own command is behind the script."""
    for pod, container in sidecars(folder):
        if folder == "node":
            continue
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert volumes["logs"]["emptyDir"]["sizeLimit"] == "512Mi"
        (engine,) = (each for each in pod["spec"]["containers"] if each is not container)
        assert {"name": "logs", "mountPath": "/logs"} in engine["volumeMounts"]
        assert {"name": "PYTHONUNBUFFERED", "value": "1"} in engine["env"] or "logging" in folder
        if "logging" not in folder:
            assert engine["command"][:4] == ["python3", "/inferlog/logtee.py", "/logs/engine.log", "--"]


def test_the_scrape_configuration_is_what_the_monitors_are() -> None:
    """The same labels, with and without the operator."""
    jobs = {job["job_name"]: job for job in yaml.safe_load((DEPLOY / "monitoring" / "scrape.yaml").read_text())["scrape_configs"]}
    found = documents("monitoring")
    (pod,) = (each["spec"]["podMetricsEndpoints"][0] for each in found if each["kind"] == "PodMonitor")
    (service,) = (each["spec"]["endpoints"][0] for each in found if each["kind"] == "ServiceMonitor")

    def snake(rule: dict[str, Any]) -> dict[str, Any]:
        return {re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), key): value for key, value in rule.items()}

    labels = [rule for rule in jobs["inferlog"]["relabel_configs"] if rule.get("target_label") == "pd_group"]
    assert [snake(rule) for rule in pod["relabelings"]] == labels
    assert [snake(rule) for rule in service["metricRelabelings"]] == jobs["inferlog-node"]["metric_relabel_configs"]
    assert pod["honorLabels"] is service["honorLabels"] is jobs["inferlog"]["honor_labels"] is jobs["inferlog-node"]["honor_labels"] is True


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_only_public_images(path: Path) -> None:
    """No registry is named: what users need is on Docker Hub, and inferlog's image is theirs to name."""
    for image in re.findall(r"image: *(\S+)", path.read_text()):
        if "{{" not in image:
            assert re.fullmatch(
                r"(?:inferlog|vllm/vllm-openai|lmsysorg/sglang|prom/prometheus|prom/alertmanager|grafana/grafana):v?[\d.]+", image
            )
