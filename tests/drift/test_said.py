"""What a release's watched files say at INFO, by beginnings."""

import pytest

from exporter.drift.facts import Facts
from exporter.drift.release import Release
from exporter.drift.said import FREE, said, wordings

SIZE = 'logger.info_once("GPU KV cache size: %s tokens", n)\n'
CASES = {
    "a file with a line of ours is watched": ({"vllm/a.py": SIZE + 'logger.info("Hello")\n'}, {("a.py", "GPU KV cache size: "), ("a.py", "Hello")}),
    "another is not": ({"vllm/a.py": 'logger.info("Hello")\n'}, set()),
    "nor one that only warns": ({"vllm/a.py": SIZE.replace("info_once", "warning")}, set()),
    "files of one name cannot be told apart": (
        {"vllm/a.py": SIZE, "vllm/b/a.py": 'logger.info("There it is")\n'}, {("a.py", "GPU KV cache size: "), ("a.py", "There it is")}
    ),
    "a value first": (
        {"vllm/a.py": SIZE + 'logger.info("%s are not there", x)\n'},
        {("a.py", "GPU KV cache size: "), ("a.py", "* are not there")},
    ),
    "each line": ({"vllm/a.py": SIZE + 'logger.info("One\\nOther")\n'}, {("a.py", "GPU KV cache size: "), ("a.py", "One"), ("a.py", "Other")}),
    "values only": ({"vllm/a.py": SIZE + 'logger.info("%s: %s", a, b)\n'}, {("a.py", "GPU KV cache size: "), ("a.py", FREE)}),
    "what nobody can follow": ({"vllm/a.py": SIZE + "logger.info(message)\n"}, {("a.py", "GPU KV cache size: "), ("a.py", FREE)}),
    "what callers give": (
        {
            "vllm/a.py": SIZE + 'def told(message="By default"):\n    logger.info(message)\n',
            "vllm/b.py": 'told("From %s", there)\ntold(message=f"With {x} words")\nother("none of it")\n',
        },
        {("a.py", "GPU KV cache size: "), ("a.py", "By default"), ("a.py", "From "), ("a.py", "With ")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_what_a_release_says(files, expected, wheel):
    """Of the files in which a rule's line stands at INFO, and of those that are watched for another release."""
    assert set(said(Release(wheel(files)), ())) == {(f"said {file}", text) for file, text in expected}


def test_a_file_stays_watched_where_its_line_is_gone(wheel):
    """So that the list has what all releases say."""
    facts = Facts()
    facts.add(Release(wheel({"vllm/a.py": SIZE}, version="0.40.0")))
    facts.add(Release(wheel({"vllm/a.py": 'logger.info("Goodbye")\n'}, version="0.41.0")))
    assert wordings(facts.releases["vllm"].values()) == '{\n "a.py": ["GPU KV cache size: ", "Goodbye"]\n}\n'


def test_a_file_that_says_anything_is_not_watched(wheel):
    """One release is enough."""
    facts = Facts()
    facts.add(Release(wheel({"vllm/a.py": SIZE}, version="0.40.0")))
    facts.add(Release(wheel({"vllm/a.py": SIZE + "logger.info(message)\n"}, version="0.41.0")))
    assert wordings(facts.releases["vllm"].values()) == "{\n\n}\n"
