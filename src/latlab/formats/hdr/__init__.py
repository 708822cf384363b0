"""HdrHistogram's encodings and files."""
