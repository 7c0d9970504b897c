"""Grafana dashboards, and the Python that generates them: `make dashboards`."""
