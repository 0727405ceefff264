"""The colours: enough contrast to read, in light and in dark."""

import re
from pathlib import Path

import pytest

import validate.report

CSS = (Path(validate.report.__file__).parent / "style.css").read_text(encoding="utf-8")
READ = [
    ("ink", "paper"),
    ("ink", "card"),
    ("ink", "fill"),
    ("soft", "paper"),
    ("soft", "card"),
    ("soft", "fill"),
    ("link", "paper"),
]
READ += [(tone, f"{tone}-fill") for tone in ("ok", "warn", "hold", "stop", "none")] + [("none", "card")]
READ += [(f"look{number}", "paper") for number in range(6)]


def themes():
    """The colours of both themes by name."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks[:2])
    return {"light": light, "dark": dark}


def luminance(colour):
    """Relative luminance of #rrggbb. WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), READ)
def test_text_can_be_read_on_its_ground(theme, text, ground):
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5 to 1."""
    colours = themes()[theme]
    high, low = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_both_themes_name_the_same_colours():
    """No colour of the light theme shines through in the dark."""
    light, dark = themes().values()
    assert light.keys() == dark.keys()
