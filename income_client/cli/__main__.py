"""``python -m income_client.cli`` is ``income-client``."""

from . import main

main()
