"""`python -m exporter` is `inferlog`."""

from exporter.cli import main

main()
