"""Settings of the machine: read, judged, written and given back."""
