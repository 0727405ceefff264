"""One small module a log format; `detect` tells them apart by content."""
