"""What fits, and what a measured table tells; whatever it does not tell is not known."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.analysis import sweep
from exporter.analysis.prompt_size import PromptSize, scanned
from exporter.analysis.room import Ceilings, room
from exporter.cli import main
from tests.conftest import DATA

CLUSTER = ("--pool-tokens=2493464", "--max-model-len=1048576", "--max-running-requests=6", "--max-batched-tokens=8192", "--sweep=example")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["capacity", *arguments])


def told(*arguments: str) -> dict:
    """Of two DGX Sparks."""
    result = run(*CLUSTER, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_long_prompt_alone() -> None:
    """Between two measured lengths, over one step, far from filling the pool."""
    answer = told("--prompt-tokens=125272")
    assert answer["estimate"]["ttft_seconds"] == pytest.approx(76, abs=0.5)
    assert round(answer["estimate"]["decode_tokens_per_second"], 1) == 65.2
    assert round(answer["estimate"]["aggregate_tokens_per_second"], 1) == 6.1
    assert f"{answer['room']['pool_share']:.1%}" == "5.1%"
    assert answer["room"]["requests_that_fit"] == 19
    assert (answer["room"]["cliff"], answer["room"]["chunks"]) == (True, 16)
    assert answer["estimate_basis"] == "interpolated"


def test_short_prompts_together() -> None:
    """Each fits into a step and all of them do not."""
    answer = told("--prompt-tokens=2048", "--concurrency=6")
    assert answer["estimate"]["ttft_seconds"] == 6.06
    assert (answer["room"]["batch_tokens"], answer["room"]["cliff"], answer["room"]["chunks"]) == (12_288, True, 1)
    assert "12,288 > 8,192" in run(*CLUSTER, "--prompt-tokens=2048", "--concurrency=6").stdout


def test_more_than_the_pool_holds() -> None:
    """Each is short enough for the model."""
    answer = told("--prompt-tokens=1000000", "--concurrency=3")
    assert (answer["room"]["fits"], answer["room"]["rejected"]) == (False, False)
    assert set(answer["estimate"].values()) == {None}


def test_the_anchor() -> None:
    """One length that was measured far beyond the others, and only up to the first token."""
    answer = told("--prompt-tokens=899994")
    assert answer["estimate"] == {
        "ttft_seconds": 1028.85, "prefill_tokens_per_second": 874.8, "decode_tokens_per_second": None, "aggregate_tokens_per_second": None,
    }  # fmt: skip
    assert "1,028.85 s" in run(*CLUSTER, "--prompt-tokens=899994").stdout


def test_longer_than_the_model() -> None:
    """Prompt and answer count together."""
    assert told("--prompt-tokens=2600000")["room"]["rejected"]
    assert "over max_model_len 1,048,576" in run(*CLUSTER, "--prompt-tokens=2600000").stdout
    assert told("--prompt-tokens=1048000", "--output-tokens=576")["room"]["rejected"] is False
    assert told("--prompt-tokens=1048000", "--output-tokens=577")["room"]["rejected"] is True


@pytest.mark.parametrize(
    ("prompt", "concurrency", "basis"),
    [
        (1, 1, sweep.SHORTEST), (256, 1, sweep.MEASURED), (257, 6, sweep.INTERPOLATED), (32_768, 4, sweep.MEASURED), (131_072, 2, sweep.MEASURED),
        (131_073, 1, sweep.ANCHORED), (899_994, 1, sweep.MEASURED),
        (899_995, 1, None), (131_073, 2, None), (32_769, 4, None), (131_072, 6, None), (2048, 3, None), (2048, 5, None), (2048, 7, None),
    ],
)  # fmt: skip
def test_what_the_table_knows(prompt: int, concurrency: int, basis: str | None) -> None:
    """Nothing beyond it: no column that was not measured, no length behind the last."""
    found = sweep.estimate(sweep.load(sweep.EXAMPLE), prompt, concurrency)
    assert found.basis == basis
    assert bool(found.why_not) == (basis is None)
    assert all(value is None or value > 0 for value in found.values.values())
    if basis is None:
        assert set(found.values.values()) == {None}


def test_between_two_rows_is_between_their_values() -> None:
    """Whatever the length."""
    rows = sweep.load(sweep.EXAMPLE)
    values = [sweep.estimate(rows, prompt, 1).values["ttft_seconds"] for prompt in range(8192, 131_073, 997)]
    assert all(4.80 <= value <= 78.75 for value in values)
    assert values == sorted(values)


@pytest.mark.parametrize(
    "text",
    [
        "", "prompt_tokens,concurrency\n1,1\n", "HEAD\n", "HEAD\n1,1,-1,1,1,1\n", "HEAD\n1,1,nan,1,1,1\n", "HEAD\n1,1,inf,1,1,1\n", "HEAD\n0,1,1,1,1,1\n",
        "HEAD\n1,0,1,1,1,1\n", "HEAD\n1,1.5,1,1,1,1\n", "HEAD\n,1,1,1,1,1\n", "HEAD\n1\n", "HEAD\nx,1,1,1,1,1\n", "HEAD\n1,1,1,1,1,1\n1,1,2,2,2,2\n",
    ],
)  # fmt: skip
def test_a_table_that_is_none(tmp_path: Path, text: str) -> None:
    """Is told in one line, with the line that is wrong."""
    path = tmp_path / "sweep.csv"
    path.write_text(text.replace("HEAD", ",".join(("prompt_tokens", "concurrency", *sweep.MEASURES))))
    result = run(f"--sweep={path}")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert str(path) in result.stderr


def test_an_own_table(tmp_path: Path) -> None:
    """As a spreadsheet writes it."""
    path = tmp_path / "sweep.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + b"note,prompt_tokens,concurrency," + ",".join(sweep.MEASURES).encode() + b"\r\nx,100,1,1,100,10,9\r\n"
    )
    answer = json.loads(run(f"--sweep={path}", "--prompt-tokens=100", "--json").stdout)
    assert answer["estimate"]["ttft_seconds"] == 1


def test_what_nobody_told_is_not_known() -> None:
    """No ceiling, no answer about it."""
    assert run().stdout.count("not known") == 4
    found = room(Ceilings(), 1000, 100, 2)
    assert (found.fits, found.rejected, found.cliff, found.chunks, found.pool_share, found.requests_that_fit) == (None,) * 6


def test_ceilings_of_a_log_and_what_is_given() -> None:
    """What is given counts more."""
    log = str(DATA / "vllm-0.33/rendered-combined-dspark.log")
    known = json.loads(run(log, "--json").stdout)
    assert known["ceilings"] == {"pool_tokens": 1761280, "max_model_len": 131072, "max_batched_tokens": 8192, "max_running_requests": None}
    given = json.loads(run(log, "--json", "--pool-tokens=131072").stdout)
    assert given["longest_requests_that_fit"] == 1


def test_ceilings_of_several_logs(tmp_path: Path) -> None:
    """Of a pair the smaller ones, as a request passes through both; of a rotated log what each piece tells."""
    pair = [str(DATA / "vllm-0.33/rendered-combined-dspark.log"), str(DATA / "vllm-0.26/captured-pd-prefill-tp2.log")]
    ceilings = json.loads(run(*pair, "--json").stdout)["ceilings"]
    assert ceilings == {"pool_tokens": 1761280, "max_model_len": 2048, "max_batched_tokens": 4096, "max_running_requests": None}
    whole = Path(pair[0]).read_bytes()
    half = whole.index(b"\n", whole.index(b"KV cache size")) + 1
    (tmp_path / "engine.log.1").write_bytes(whole[:half])
    (tmp_path / "engine.log").write_bytes(whole[half:])
    told = run(str(tmp_path / "engine.log"), str(tmp_path / "engine.log.1"), "--json").stdout
    assert told == run(pair[0], "--json").stdout


@pytest.mark.parametrize(
    "arguments", [("--prompt-tokens=0",), ("--prompt-tokens=-1",), ("--concurrency=0",), ("no-such.log",), ("--scan-dir=no-such",), ("--sweep=no-such",)]
)  # fmt: skip
def test_a_wrong_use(arguments: tuple[str, ...]) -> None:
    """Ends with 2."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def folder(tmp_path: Path) -> Path:
    """With dependencies, what is built, and links out of it."""
    outside = tmp_path / "outside.py"
    outside.write_text("x" * 4000)
    root = tmp_path / "project"
    for name in ("a.py", "docs/b.md", "node_modules/c.py", ".git/d.py", "pkg/build/e.py", ".hidden.py", "image.bin"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("abcd" * 100)
    (root / "link.py").symlink_to(outside)
    (root / "round").symlink_to(root)
    return root


def test_a_folder_as_a_prompt(tmp_path: Path) -> None:
    """Text and code of its own, four characters a token, and what that rests on is said."""
    root = folder(tmp_path)
    (root / ".hidden.py").unlink()
    assert scanned(root) == PromptSize(200, 2, "estimated: 4 characters a token, CJK characters one each")
    assert scanned(root, ["py"], 2).tokens == 200
    text = run("--pool-tokens=1000", "--output-tokens=0", f"--scan-dir={root}").stdout
    assert "200 prompt" in text
    assert "estimated: 4 characters a token" in text


def test_cjk_is_a_token_each(tmp_path: Path) -> None:
    """Ideographs, kana and hangul."""
    (tmp_path / "a.txt").write_text("漢字かな한글ＡＢ" + "abcd")
    assert scanned(tmp_path).tokens == 9


def test_a_folder_without_text(tmp_path: Path) -> None:
    """Is no prompt."""
    result = run(f"--scan-dir={tmp_path}")
    assert result.exit_code == 2
    assert "no file with these extensions" in result.stderr


def test_a_tokenizer_without_its_library(tmp_path: Path) -> None:
    """Says what to install, or that the file is none."""
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "tokenizer.json").write_text("{}")
    result = run(f"--scan-dir={tmp_path}", f"--tokenizer={tmp_path / 'tokenizer.json'}")
    assert result.exit_code == 2
    assert "pip install tokenizers" in result.stderr or "not a tokenizer file" in result.stderr
