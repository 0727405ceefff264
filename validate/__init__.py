"""Whether last night's traces may be trained on: checks judge a trace, scans judge the night, the gate decides."""
