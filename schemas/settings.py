"""The base of every settings class: frozen, closed, its field docstrings readable by a program."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A group of settings; a name that it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )
