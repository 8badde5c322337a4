"""`python -m midstride.cli` is `midstride`."""

from midstride.cli.app import main

main()
