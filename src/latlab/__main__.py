"""`python -m latlab` is `latlab`."""

from latlab.cli import main

main()
