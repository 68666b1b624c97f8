"""`python -m wideproof` is `wideproof`."""

from wideproof.cli import main

main()
