"""What a Python module prints, as shapes."""

import textwrap

import pytest

from exporter.drift.python_source import calls
from exporter.drift.shapes import rendered, written

CASES = {
    "%": ('logger.info("KV size: %s tokens, %.2fx", size, ratio)', ["KV size: %(size)s tokens, %(ratio).2fx"]),
    "f-string": ('logger.warning(f"took {seconds:.1f} s on {self.rank}, {share:.1%}")', ["took %(seconds).1f s on %(rank)s, %(share).1f%%"]),
    "name of a value": ('logger.error(f"{req.rid=} failed")', ["req.rid=%(req_rid)s failed"]),
    "neighbours": ('logger.info("a long "\n            "line of %d", n)', ["a long line of %(n)d"]),
    "sum": ('logger.info("head: " + f"{x}" + " end")', ["head: %(x)s end"]),
    "format": ('logger.info("{} of {:d}".format(a, b))', ["%(value)s of %(value)d"]),
    "old format of one": ('logger.info("%d in all" % n)', ["%(n_0)d in all"]),
    "old format": ('logger.info("%d of %d" % (a, b))', ["%(a)d of %(b)d"]),
    "percent sign": ('logger.info("usage: %.1f%%", usage)', ["usage: %(usage).1f%%"]),
    "percent without values": ('logger.info("100% sure")', ["100%% sure"]),
    "variable": ('text = "a %d"\nlogger.info(text, n)', ["a %(n)d"]),
    "grown": ('text = "a"\nif b:\n    text += f", b: {b}"\nlogger.info(text)', ["a", "a, b: %(b)s"]),
    "either": ('if b:\n    text = "one"\nelse:\n    text = "other"\nlogger.info(text)', ["one", "other"]),
    "joined list": (
        'parts = ["a: %d", "b: %d"]\nif c:\n    parts.append("c: %d")\nlogger.info(", ".join(parts), *args)',
        ["a: %(args_0)d, b: %(args_1)d", "a: %(args_0)d, b: %(args_1)d, c: %(args_2)d"],
    ),
    "extended list": ('parts = ["a"]\nparts.extend(["b", "c"])\nlogger.info(" ".join(parts))', ["a b c"]),
    "conditional": ('logger.info("on" if flag else "off")', ["off", "on"]),
    "once": ('logger.warning_once("careful")', ["careful"]),
    "level given": ('logger.log(logging.ERROR, "broken %s", x)', ["broken %(x)s"]),
    "printed": ('print(f"tuned {name}")', ["tuned %(name)s"]),
    "raised": ('raise RuntimeError(f"no {thing}")', ["RuntimeError: no %(thing)s"]),
    "returned by a function": ('def late(n):\n    return f"late by {n}"\n\nlogger.info(late(3))', ["late by %(n)s"]),
    "unknown value": ("logger.info(message)", []),
    "in a handler": ('try:\n    pass\nexcept OSError as error:\n    logger.error("lost: %s", error)', ["lost: %(error)s"]),
    "in a method": ('class A:\n    def f(self):\n        """Doc."""\n        logger.info("deep")', ["deep"]),
    "docstring": ('"""Module text."""\n', []),
    "keys": ('def f():\n    return {"a": 1, "b": 2}', ["a=%(value)s, b=%(value)s"]),
    "no Python": ("def (", []),
}  # fmt: skip


@pytest.mark.parametrize(("source", "shapes"), CASES.values(), ids=CASES)
def test_a_call_is_a_shape(source, shapes):
    """Literals and slots, whatever way they were written down."""
    assert sorted(written(call.shape) for call in calls("a.py", textwrap.dedent(source))) == sorted(shapes)


def test_a_call_has_its_level():
    """Log levels as they are printed, and the ways past a logger."""
    source = 'logger.info("a")\nlogger.exception("b")\nlogger.critical("c")\nprint("d")\nraise ValueError("e")'
    assert [call.level for call in calls("a.py", source)] == ["INFO", "ERROR", "CRITICAL", "print", "raise"]


def test_a_message_of_many_parts_is_followed_in_bounds():
    """Twenty optional parts are a million ways: the shortest and the longest are told."""
    source = 'text = "a"\n' + "".join(f'if c{n}:\n    text += " {n}"\n' for n in range(20)) + "logger.info(text)"
    shapes = {written(call.shape) for call in calls("a.py", source)}
    assert "a" in shapes
    assert "a " + " ".join(map(str, range(20))) in shapes
    assert len(shapes) <= 4


def test_a_shape_can_be_rendered():
    """Each slot with its own conversion."""
    assert rendered("%(a)s of %(b).2f, %(c)03d%%", {"a": "x"}) == "x of 7.00, 007%"
