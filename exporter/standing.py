"""The P/D verdict that is in force, since when, and which of its checks fail since when."""

from collections.abc import Iterator

from exporter.clock import EventClock
from exporter.counters import Sample
from exporter.pd_evidence import PdEvidence
from exporter.verdict import IDLE, ROLES, STATUSES, VERDICTS, Judgement, PdSettings, judge
from parsers.header import Head


class Standing:
    """What was last judged; it changes with the line whose evidence changes it."""

    STATE = ("verdict", "since", "failing", "unjudged")

    def __init__(self) -> None:
        self.verdict = ""
        self.since: Head | None = None
        """The line that brought the verdict."""
        self.failing: dict[str, Head] = {}
        """By check, the line since which it fails without a break."""
        self.unjudged: Head | None = None
        """The last line that changed the evidence, until the second of the log in which it is has passed."""

    def take(self, judgement: Judgement, head: Head) -> None:
        """The judgement behind a line."""
        if judgement.verdict != self.verdict:
            self.verdict, self.since = judgement.verdict, head
        self.failing = {check: self.failing.get(check, head) for check, status in judgement.checks.items() if status == "fail"}

    def since_epoch(self, verdict: str, evidence: PdEvidence, clock: EventClock) -> float | None:
        """When a verdict began; None for one that no line of the log has brought."""
        since = self.since
        if since is None or (at := clock.epoch(since)) is None:
            return None
        if verdict == IDLE and evidence.quiet_from is not None and since.time is not None:
            return at + evidence.quiet_from - since.time + evidence.quiet_seconds
        return at if verdict == self.verdict else None

    def samples(self, evidence: PdEvidence, settings: PdSettings, clock: EventClock, log_now: float | None) -> Iterator[Sample]:
        """Role, verdict and checks at this time of the log's clock, and since when."""
        verdict, checks = judge(evidence, settings, log_now)
        for role in ROLES:
            yield Sample("pd_role", (role,), role == settings.role)
        for each in VERDICTS:
            yield Sample("pd_verdict", (each,), each == verdict)
        if (since := self.since_epoch(verdict, evidence, clock)) is not None:
            yield Sample("pd_verdict_timestamp_seconds", (), since)
        for check, status in checks.items():
            for each in STATUSES:
                yield Sample("pd_evidence", (check, each), each == status)
            head = self.failing.get(check) if status == "fail" else None
            if head is not None and (at := clock.epoch(head)) is not None:
                yield Sample("pd_check_failing_timestamp_seconds", (check,), at)
