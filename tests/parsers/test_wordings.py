"""Texts at INFO that no release has, in the files that print vLLM's signals."""

import pytest

from tests.parsers.reading import header, read

JSON = '{{"levelname": "INFO", "name": "{}", "message": "{}", "process": 1}}'
CASES = {
    "a signal in other words": (header("shm_broadcast.py:681") + "The workers have been silent for 60 seconds.", 1),
    "what the file says": (header("shm_broadcast.py:681") + "vLLM message queue communication handle: Handle(local_reader_ranks=[1])", 0),
    "a text that begins with a value": (header("kv_cache_utils.py:1147") + "Overriding num_gpu_blocks=7 with num_gpu_blocks_override=9", 0),
    "behind a tag": (header("backends.py:417") + "[backbone] Cache the graph of compile range (1, 8192) for later use", 0),
    "other words behind a tag": (header("backends.py:417") + "[backbone] Graphs for (1, 8192) were built in 38.19 s", 1),
    "a file that prints no signal": (header("plugin.py:1") + "The workers have been silent for 60 seconds.", 0),
    "a path for a name": (header(".../device_communicators/shm_broadcast.py:681") + "The workers have been silent for 60 seconds.", 1),
    "a row of the logo": (header("launcher.py:367") + "       █     █     █▄   ▄█", 0),
    "an empty text": (header("shm_broadcast.py:681") + " ", 0),
    "below INFO": (header("shm_broadcast.py:681", level="DEBUG") + "The workers have been silent for 60 seconds.", 0),
    "not of an engine": ("INFO 07-14 03:12:07 shm_broadcast.py:681 The workers have been silent", 0),
}


@pytest.mark.parametrize(("line", "counts"), CASES.values(), ids=CASES)
def test_what_counts(line, counts):
    """Each line of it, whatever came between."""
    other = header("plugin.py:1") + "hello"
    assert read(f"{line}\n{other}\n{line}\n").log.unrecognised.get("INFO", 0) == 2 * counts


def test_the_list_is_short_and_of_the_files_that_matter():
    """It is read by every process that meets a text of theirs, and holds no file that says anything."""
    from parsers.wordings import _known

    known = _known()
    assert {
        "backends.py",
        "monitor.py",
        "kv_cache_utils.py",
        "shm_broadcast.py",
        "kernel_warmup.py",
        "loggers.py",
        "core.py",
    } <= known.keys()
    assert 300 < sum(len(texts.beginnings) + len(texts.pieces) for texts in known.values()) < 1000


def test_a_beginning_is_looked_at_once(monkeypatch):
    """Whatever the format of the records: the look costs more than all else about them. Warnings have looks of their own."""
    looks = []
    monkeypatch.setattr("parsers.unknown.alike", lambda pattern, line, start: looks.append(line))
    plain, json = header("plugin.py:1") + "hello from a plugin, %d", JSON.format("vllm.plugin", "hello again from a plugin, %d")
    assert read("".join(f"{plain % n}\n{json % n}\n" for n in range(50)).encode()).counts["log_lines_total"]["INFO"] == 100
    assert len(looks) == 2


def test_what_was_said_below_info_may_be_new_at_info():
    """No word of DEBUG is in the list."""
    said = "The workers have been silent for 60 seconds.\n"
    told = read(header("shm_broadcast.py:681", level="DEBUG") + said + header("shm_broadcast.py:681") + said)
    assert told.log.unrecognised.get("INFO", 0) == 1
