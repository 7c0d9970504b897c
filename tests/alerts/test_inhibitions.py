"""What a real Alertmanager holds back of real alerts, by the snippet that is shipped: each alert has the labels that its rule gives it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.alerts.promtool import cases, fired_labels
from tests.alerts.servers import Alertmanager, Pager, Start
from tests.alerts.words import ALERTS
from tests.exporter.conftest import wait_for

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(120)]

RULES = {rule["alert"]: rule for rule in ALERTS}
CASES = cases()
ELSEWHERE = {"pod": "decode-1", "instance": "10.0.0.8:19877"}
BESIDE = {"source": "other"}
ON_HOSTS = {"namespace": "", "pod": ""}
HEADLESS = {**ON_HOSTS, "instance": "host-b:19877"}
OF_A_NODE = {"pod": "inferlog-x7k2p"}


def fired(name: str, **changed: str) -> dict[str, str]:
    """The labels of the first incident of an alert's cases, with others in the place of some."""
    labels = {"alertname": name} | fired_labels(RULES[name], CASES[name]["fires"][0]) | changed
    return {label: value for label, value in labels.items() if value}


class Silence(NamedTuple):
    """What fires, what that explains, and what it does not."""

    fires: dict[str, str]
    held_back: list[dict[str, str]]
    told: list[dict[str, str]]


def death(name: str) -> Silence:
    """The rest of the pod is silent, its kind and the exporter's own alerts but for tickets, and everything elsewhere."""
    return Silence(
        fired(name),
        held_back=[
            *(fired(each) for each in ("InferlogJitAfterReady", "InferlogPDRecomputing", "InferlogKVTransferFailures")),
            *(fired(each) for each in ("InferlogKVPoolSaturated", "InferlogFP8ScalesMissing", "InferlogRDMARailSilent")),
            fired("InferlogEngineOutOfMemory"),
        ],
        told=[
            fired("InferlogJitAfterReady", **ELSEWHERE),
            fired("InferlogJitAfterReady", **BESIDE),
            fired("InferlogRDMARailSilent", **ELSEWHERE),
            fired("InferlogExporterLosingBytes"),
            fired("InferlogPDVersionsDiffer"),
        ],
    )


LATE = ["InferlogLogSilent", "InferlogEngineSuspectedHang", "InferlogStartupStuck"]
SILENCES = {
    **{name: death(name) for name in ("InferlogEngineDead", "InferlogEngineCrashLoop", "InferlogEngineHang")},
    "on hosts": Silence(
        fired("InferlogEngineDead", **ON_HOSTS),
        held_back=[fired("InferlogJitAfterReady", **ON_HOSTS), fired("InferlogRDMARailSilent", **ON_HOSTS)],
        told=[fired("InferlogJitAfterReady", **HEADLESS), fired("InferlogRDMARailSilent", **HEADLESS)],
    ),
    "page of its kind": Silence(
        fired("InferlogJitAfterReady"),
        held_back=[fired("InferlogJitFailed"), fired("InferlogJitDuringWarmup")],
        told=[
            fired("InferlogJitFailed", **ELSEWHERE),
            fired("InferlogJitFailed", **BESIDE),
            fired("InferlogKVPoolSaturated"),
            fired("InferlogPDRecomputing"),
        ],
    ),
    "verdict": Silence(
        fired("InferlogPDRecomputing"),
        held_back=[fired("InferlogPDPartial"), fired("InferlogKVTransferFailures"), fired("InferlogKVHandshakeFailures")],
        told=[fired("InferlogKVTransferFailures", **ELSEWHERE), fired("InferlogKVReadAfterExpiry"), fired("InferlogJitFailed")],
    ),
    **{
        name: Silence(
            fired(name),
            held_back=[fired(each) for each in LATE],
            told=[*(fired(each, **ELSEWHERE) for each in LATE), fired("InferlogJitAfterReady"), fired("InferlogKVExpired")],
        )
        for name in ("InferlogExporterLagging", "InferlogSourceDown", "InferlogExporterDown")
    },
    "exporter of a node": Silence(
        fired("InferlogExporterDown", **OF_A_NODE),
        held_back=[fired(each) for each in LATE],
        told=[fired(each, **ELSEWHERE) for each in LATE],
    ),
}


def states(alertmanager: Alertmanager) -> dict[frozenset[tuple[str, str]], str]:
    """By its labels, whether an alert is active or suppressed."""
    return {frozenset(labels.items()): state for labels, state in alertmanager.alerts()}


@pytest.mark.parametrize("silence", SILENCES.values(), ids=SILENCES)
def test_what_explains_others_holds_them_back_until_it_is_over(silence: Silence, start: Start, pager: Pager, tmp_path: Path) -> None:
    """Nobody is told of what is held back; once the cause has gone it is told."""
    alertmanager = Alertmanager(start, tmp_path, pager).wait_ready()
    fires, others = {"labels": silence.fires}, [*silence.held_back, *silence.told]
    alertmanager.post(fires)
    wait_for(lambda: frozenset(silence.fires.items()) in states(alertmanager), "the cause", 20)
    alertmanager.post(*({"labels": labels} for labels in others))

    expected = {frozenset(labels.items()): "suppressed" for labels in silence.held_back}
    expected |= {frozenset(labels.items()): "active" for labels in (silence.fires, *silence.told)}
    assert len(expected) == 1 + len(others)
    wait_for(lambda: states(alertmanager) == expected, "all of them", 20)
    heard = {frozenset(labels.items()) for labels in (silence.fires, *silence.told) if labels["severity"] != "info"}
    wait_for(lambda: {frozenset(alert["labels"].items()) for _, alert in pager.notifications} == heard, "the notifications", 20)
    for path, alert in pager.notifications:
        assert path == ("/page" if alert["labels"]["severity"] == "critical" else "/ticket")

    alertmanager.post(fires | {"endsAt": datetime.now(UTC).isoformat()})
    first = frozenset(silence.held_back[0].items())
    wait_for(lambda: states(alertmanager).get(first) == "active", "the end of it", 20)
