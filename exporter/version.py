"""The version of this package; packaging reads it here, and asking for the installed one takes a command 10 ms."""

VERSION = "0.1.0"
