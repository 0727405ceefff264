"""Sampling parameters as logged."""

import pyarrow as pa
import pytest

from ingest.sampling import PARAMETERS, parameters_of


@pytest.mark.parametrize("value", [2**70, 10**400, "1", True, float("nan"), [1]])
def test_whatever_is_logged_becomes_a_number_that_a_column_holds_or_nothing(value):
    """Exports state any JSON in the place of a temperature."""
    found = parameters_of(dict.fromkeys(PARAMETERS, value))
    assert pa.array(found, pa.float64()).null_count >= 1  # top_k has no room for any of them
    assert found[PARAMETERS.index("top_k")] is None


def test_numbers_are_taken_as_logged():
    """A missing one is unknown."""
    assert parameters_of({"temperature": 1, "top_k": 40}) == (1.0, None, 40, None, None)
