"""A rank that kills itself: TRACEMILL_TEST_DIES holds its number and the update before which it does."""

import os
import signal
import sys
from pathlib import Path

from train import worker
from train.learner import Learner

if __name__ == "__main__":
    rank, update = os.environ["TRACEMILL_TEST_DIES"].split()
    original = Learner.learn

    def learn(self, number, *arguments):
        """As it is, but for the one that dies."""
        if os.environ["RANK"] == rank and number == int(update):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, number, *arguments)

    Learner.learn = learn
    sys.exit(worker.main(Path(sys.argv[1])))
