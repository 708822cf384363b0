"""What results say, as data: kinds of sentences with their numbers, each worded once."""
