"""`python -m hepdata` is `hept-data`."""

from hept_cli.data import main

main()
