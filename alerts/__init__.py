"""Alert rules: the source is `source/`, the numbers are in `thresholds.yaml`, everything else here is generated or a runbook."""
