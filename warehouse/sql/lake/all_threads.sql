reset threads
