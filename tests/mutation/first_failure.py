"""A plugin of pytest: the first failing example of a property is enough, however long it is."""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Change the profile that conftest.py chose."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("first failure", settings(), phases=phases)
    settings.load_profile("first failure")
