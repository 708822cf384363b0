"""What is in the code of a program on disk: its instructions and its symbols."""
