"""The data-quality report of one night: one HTML file and its JSON twin."""
