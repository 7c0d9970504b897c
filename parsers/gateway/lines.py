"""The lines of gateways, whatever logs them: klog, zap, Rust's tracing, Python."""

import re

from parsers.gateway.causes import redacted
from parsers.gateway.heads import gateway_head, zap_record
from parsers.gateway.klog import OPENS, quoted
from parsers.header import ALARMING, NOBODY, UNKNOWN_LEVEL, Head, NativeHead
from parsers.rules import KEY_LENGTH, Scope, dispatch
from parsers.tagged import TaggedLines

_GO = ".go:"
_ERROR_OPENS = re.compile(r"(\"[^\"\\]{1,128}\" err=)<", re.ASCII)
_GOES_ON, _ENDS = "\t", " > "
_VALUE_LINES = 4096


class OpenValue:
    """A record of klog's whose last value has several lines: its beginning, without what the value says.

    Of the value only known words of the gateway's are kept, as it may quote what a user sent.
    """

    STATE = ("text", "level", "time", "lines")

    def __init__(self) -> None:
        self.text = ""
        self.level = ""
        """Of the record; empty when none is open."""
        self.time: float | None = None
        self.lines = 0
        """How many lines of the value came; 0 before the first one."""

    def close(self) -> None:
        """No more."""
        self.text, self.level, self.time, self.lines = "", "", None, 0


class GatewayLines(TaggedLines):
    """Reads the records of gateways."""

    def __init__(self, year: int, month: int) -> None:
        """As LogStream."""
        super().__init__(year, month)
        self._value = OpenValue()

    def _gateway_line(self, line: str, start: int) -> bool:
        """Read a line behind the header of a gateway that does not use klog; False when there is none."""
        if record := zap_record(line):
            head, text = record
            self._gateway_record(text, 0, self._gateway_head(head))
        elif native := gateway_head(line, start):
            self._gateway_record(line, native.end, self._gateway_head(native))
        else:
            return False
        return True

    def _gateway_head(self, native: NativeHead) -> Head:
        level = native.level if native.level in self.levels else UNKNOWN_LEVEL
        self.levels[level] += 1
        return Head(NOBODY, level, self.clock.read(native.time), native.where, None, self._wrapped_time)

    def _klog_line(self, line: str, native: NativeHead, head: Head) -> bool:
        """A record behind absl's and klog's header; False when its source is no Go file."""
        if _GO not in native.where:
            return False
        if line.endswith(OPENS):
            self._open_value(line, native.end, head)
        else:
            self._gateway_record(line, native.end, head)
        return True

    def _gateway_record(self, text: str, start: int, head: Head) -> None:
        if self._match(dispatch(Scope.GATEWAY), text, start, head) is None and head.level in ALARMING:
            self.unrecognised[head.level] += 1
        self._glued.clear()  # what looks like a header behind a message is the value of a field

    # -- values of several lines ---------------------------------------------------------------------------------------

    def _open_value(self, line: str, start: int, head: Head) -> None:
        """Wait for the rest of a record that begins with its error; of any other the rest tells nothing."""
        begun = _ERROR_OPENS.match(line, start)
        if begun is None:
            self._gateway_record(line, start, head)
            self._value.level = "INFO"
            return
        self._value.level, self._value.time = head.level, head.time
        rules = dispatch(Scope.GATEWAY).table.get(begun[1][:KEY_LENGTH], ())
        if any(rule.pattern.match(begun[1] + quoted("")) for rule in rules):
            self._value.text = begun[1]  # words of a rule's, so that they may be kept

    def _value_goes_on(self, line: str) -> bool:
        """Take a line of an open value; False when it is none, so that the record is given up."""
        value = self._value
        if line.startswith(_GOES_ON) and value.lines < _VALUE_LINES:
            value.lines += 1
            if value.lines == 1 and value.text:
                value.text += quoted(redacted(line[1:]))
            self.levels[UNKNOWN_LEVEL] += 1
            return True
        head = Head(NOBODY, value.level, value.time, "", None, self._wrapped_time)
        text, begun = value.text, value.lines > 0
        value.close()
        if line.startswith(_ENDS) and begun:
            self.levels[UNKNOWN_LEVEL] += 1
            self._gateway_record(text + line[len(_ENDS) - 1 :] if text else "", 0, head)
            return True
        if line.rstrip() == _ENDS.rstrip() and begun:
            self.levels[UNKNOWN_LEVEL] += 1
            self._gateway_record(text, 0, head)
            return True
        if head.level in ALARMING:
            self.unrecognised[head.level] += 1
        return False
