"""What serves and redraws: the dashboard, Prometheus, OpenTelemetry, the terminal views."""
