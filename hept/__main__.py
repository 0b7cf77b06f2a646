"""`python -m hept` is `hept-train`."""

from hept_cli.train import main

main()
