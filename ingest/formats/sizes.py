"""Integers as wide as the columns that hold them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SmallInt = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""A count or a position: what a column of 32 bits can hold."""
