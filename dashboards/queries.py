"""PromQL as people write it, made into what a dashboard needs: each metric gets the variables that apply to it."""

import re

from exporter.families import FAMILIES, PREFIX

SOURCE = 'source=~"$source"'
RUNTIME = 'runtime=~"$runtime"'
TARGET = ('job=~"$job"', 'instance=~"$instance"', 'namespace=~"$namespace"', 'pod=~"$pod"')

# What the dashboards use beside our own families: of the engines, of this process (client_python), and of Prometheus about a scrape.
_METRIC = re.compile(r"\b(up|inferlog_\w+|vllm:\w+|sglang:\w+|process_\w+|scrape_\w+)\b(?:\{([^}]*)\})?")
_ENGINE = "namespace, pod, source"


def names(expression: str) -> list[str]:
    """The metrics of a query, in their order."""
    return list(dict.fromkeys(match[1] for match in _METRIC.finditer(expression)))


def expand(expression: str) -> str:
    """A query with the dashboard's variables in it; `@engine` stands for the labels that tell one engine from another."""

    def selector(match: re.Match[str]) -> str:
        name, own = match.groups()
        matchers = [*TARGET, *_matchers(name)]
        return f"{name}{{{', '.join([*matchers, *([own] if own else [])])}}}"

    return _METRIC.sub(selector, expression).replace("@engine", _ENGINE)


def _matchers(name: str) -> list[str]:
    if not name.startswith(PREFIX):
        return []
    common = FAMILIES[name.removeprefix(PREFIX)].common
    return [matcher for label, matcher in (("source", SOURCE), ("runtime", RUNTIME)) if label in common]


def legend(text: str) -> str:
    """A legend; `@engine` is the pod, where there is one, and the source."""
    return text.replace("@engine", "{{pod}} {{source}}")


def rate(metric: str, by: str = "@engine") -> str:
    """Events a second."""
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def events(metric: str, by: str = "@engine") -> str:
    """Events of each step, and only where there are any: what did not happen takes no place in the legend, nor time in the sum."""
    return f"sum by ({by}) (increase({metric}[$__rate_interval]) > 0)"


def at_work(metric: str, by: str = "@engine") -> str:
    """The same of seconds, as how many are at work at once."""
    return f"sum by ({by}) (rate({metric}[$__rate_interval]) > 0)"


def of_engine(expression: str) -> str:
    """A query on an engine's own metrics, for the pods whose logs are read. They have no `source`; the pod joins them."""
    return f"{expression} and on (namespace, pod) inferlog_source_up"


def quantile(share: float, histogram: str) -> str:
    """A quantile of one of the engine's own histograms, by pod."""
    return of_engine(f"histogram_quantile({share}, sum by (namespace, pod, le) (rate({histogram}_bucket[$__rate_interval])))")


def encoded(family: str, label: str, states: list[str], by: str = "@engine", where: str = "") -> str:
    """A state set as one number for each engine: the index of the state that is 1. The others are left out first, for `or` is slow on many."""
    each = [f'({PREFIX}{family}{{{label}="{state}"}} == 1) * {index}' for index, state in enumerate(states)]
    told = " or ".join(each)
    return f"max by ({by}) ({f'({told}){where}' if where else told})"


JUDGED = ' unless on (@engine) inferlog_pd_verdict{verdict=~"not_judged|not_disaggregated"} == 1'
"""Behind a query on checks: they are evaluated whatever the role, and mean nothing for an engine that is not judged."""
