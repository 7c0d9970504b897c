"""What inferlog costs beside an engine, measured against a generic tailer: `make bench`, or `python -m bench --help`."""
