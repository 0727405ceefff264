"""The lake's extensions come from the wheels, and nothing is fetched."""

import pytest

from schemas.errors import LakeError
from warehouse import extensions


@pytest.mark.parametrize("name", extensions.EXTENSIONS)
def test_the_wheels_carry_the_extensions(name):
    """The file in the wheel is for this version of DuckDB."""
    path = extensions.wheel_path(name)
    assert path is not None
    assert path.is_file()


def test_without_a_wheel_the_message_names_it(monkeypatch, capfd):
    """Where neither wheel nor folder nor network has the extension, the refusal says what to install."""
    monkeypatch.setattr(extensions, "wheel_path", lambda _: None)
    monkeypatch.setitem(extensions._CONFIG, "extension_directory", "/nonexistent")
    monkeypatch.setitem(extensions._CONFIG, "custom_extension_repository", "/nonexistent")
    with pytest.raises(LakeError, match=r"pip install duckdb-extension-ducklake==\d"):
        extensions.connect()
    assert "no wheel duckdb-extension-ducklake" in capfd.readouterr().err


def test_a_query_cannot_reach_python_variables():
    """A misspelt table name never finds a variable of the program."""
    secret = {"x": [1]}
    connection = extensions.connect()
    with pytest.raises(Exception, match="secret does not exist"):
        connection.execute("select * from secret")
    assert secret
    connection.close()
