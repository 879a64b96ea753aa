"""Certificates for all tests of receivers."""

import pytest

from tests.support.callback_certificates import Papers, made_papers


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Authorities and certificates made up for these tests."""
    return made_papers(tmp_path_factory.mktemp("papers"))
