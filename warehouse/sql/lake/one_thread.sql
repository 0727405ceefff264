set threads = 1
