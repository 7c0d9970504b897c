"""Are drafts accepted, and are they as long as the draft model was made for."""

from dashboards.frame import Board
from dashboards.panels import graph, number
from dashboards.queries import of_engine, rate

_BY = "@engine, method"
_NOTHING = "No speculative decoding, or no traffic"


def _share(accepted: str, drafted: str, by: str) -> str:
    return f"{rate(accepted, by)} / ({rate(drafted, by)} > 0)"


BOARD = Board(
    "inferlog-spec",
    "inferlog / Speculative decoding",
    "Are drafts accepted, and are they as long as the draft model was made for?",
    [
        (
            "",
            [
                graph(
                    "Acceptance",
                    "Accepted over drafted tokens of the last interval, and what it was in this process; far below that is a collapse",
                    (f"avg by ({_BY}) (inferlog_spec_acceptance_ratio)", "@engine {{method}}"),
                    (f"avg by ({_BY}) (inferlog_spec_acceptance_baseline_ratio)", "@engine {{method}} usually"),
                    unit="percentunit",
                    most=1,
                    width=12,
                    nothing=_NOTHING,
                ),
                graph(
                    "Acceptance by position",
                    "Share of drafts accepted up to each position; positions that are never accepted only cost time",
                    (f"avg by ({_BY}, position) (inferlog_spec_position_acceptance_ratio)", "@engine {{method}} {{position}}"),
                    unit="percentunit",
                    most=1,
                    width=12,
                    nothing=_NOTHING,
                ),
                graph(
                    "Tokens a step",
                    "Mean tokens of a step with the bonus token, by the log and by SGLang itself; 1 is what no speculation gives",
                    (f"avg by ({_BY}) (inferlog_spec_acceptance_length)", "@engine {{method}}"),
                    (of_engine("avg by (namespace, pod) (sglang:spec_accept_length)"), "{{pod}} SGLang's own"),
                    width=12,
                    nothing=_NOTHING,
                ),
                graph(
                    "Drafted against accepted",
                    "Draft tokens a second, and how many of them were accepted",
                    (rate("inferlog_spec_draft_tokens_total", _BY), "@engine {{method}} drafted"),
                    (rate("inferlog_spec_accepted_tokens_total", _BY), "@engine {{method}} accepted"),
                    width=12,
                    nothing=_NOTHING,
                ),
                number(
                    "Draft length",
                    "Configured draft tokens a step",
                    (f"max by ({_BY}) (inferlog_spec_draft_length)", "@engine {{method}}"),
                    width=8,
                    nothing="No speculative decoding",
                ),
                number(
                    "Block size",
                    "Draft tokens that the draft model was trained for",
                    (f"max by ({_BY}) (inferlog_spec_block_size)", "@engine {{method}}"),
                    width=8,
                    nothing="The log tells of no other than the draft length",
                ),
                number(
                    "Draft length over block size",
                    "1 where they agree; below it drafts are cut short, above it the rest is guesswork",
                    (f"max by ({_BY}) (inferlog_spec_draft_length) / max by ({_BY}) (inferlog_spec_block_size)", "@engine {{method}}"),
                    unit="percentunit",
                    width=8,
                    nothing="They agree, as far as the log tells",
                ),
            ],
        ),
        (
            "Sums",
            [
                graph(
                    "Drafts",
                    "Drafts a second",
                    (rate("inferlog_spec_drafts_total", _BY), "@engine {{method}}"),
                    unit="ops",
                    nothing=_NOTHING,
                ),
                graph(
                    "Acceptance over the range of a point",
                    "Accepted over drafted tokens by the log's sums, and by vLLM's own",
                    (_share("inferlog_spec_accepted_tokens_total", "inferlog_spec_draft_tokens_total", _BY), "@engine {{method}}"),
                    (
                        of_engine(
                            _share(
                                "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "namespace, pod"
                            )
                        ),
                        "{{pod}} vLLM's own",
                    ),
                    unit="percentunit",
                    most=1,
                    nothing=_NOTHING,
                ),
                graph(
                    "DSpark's blocks",
                    "Tokens a step that confidence let SGLang verify, and what whole blocks would have given",
                    (f"avg by ({_BY}) (inferlog_spec_cap_length)", "@engine verified"),
                    (f"avg by ({_BY}) (inferlog_spec_block_acceptance_length)", "@engine whole blocks"),
                    (f"avg by ({_BY}, stat) (inferlog_spec_uncapped_acceptance_length)", "@engine estimate {{stat}}"),
                    nothing="No DSpark in SGLang",
                ),
            ],
        ),
    ],
)
