"""What controllers of engines (RBG, AIBrix, KubeRay) warn of while objects come and go: they try again, and nothing failed."""

import re

from parsers.events import NOTHING, Nothing
from parsers.rules import Scope, rule

_OBJECT = r"[\w.-]{1,128} \\\"[\w./-]{1,253}\\\""


@rule(
    runtime="",
    scope=Scope.GATEWAY,
    anchor=('"Reconciler error" err=', '"Failed to reconcile workload" err='),
    pattern=(
        rf"\"(?:Reconciler error|Failed to reconcile workload)\" err=\"(?:{_OBJECT} not found"
        rf"|Operation cannot be fulfilled on {_OBJECT}: the object has been modified|sts [\w.-]{{1,253}} has no revision)"
    ),
    source=("Reconciler error", "Failed to reconcile workload"),
    samples={
        "rbg": '"Failed to reconcile workload" err="RoleInstanceSet.workloads.x-k8s.io \\"stress-rbg-0000-role-0\\" not found"',
    },
)
def reconciled_later(_: re.Match[str]) -> Nothing:
    """A part is not there yet or was changed meanwhile: the next round of the controller finds it."""
    return NOTHING
