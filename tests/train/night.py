"""A small night to train on, and a program that trains it and may kill itself.

python -m tests.train.night ROOT BASE DIE_AT     DIE_AT: number of the update after which the process is killed
"""

import os
import signal
import sys
from pathlib import Path

from peft import PeftModel

from tests.train.logged import NOW, admit, forked_traces, land, model_settings, plain_model, served_by
from train.registry import register
from train.replay import TrainSettings, train
from warehouse.lake import Lake

NUM_UPDATES = 3

SETTINGS = TrainSettings(
    batch_size=4, learning_rate=1e-3, options={"trust": 10.0}, token_budget=200, checkpoint_every=1
)


def settings_of(root, base):
    """The base and one adapter, which is current; one thread, so that sums have one order."""
    return model_settings(base, [root / "v1"]).model_copy(update={"threads": 1})


def fill(lake, root, base):
    """Fourteen traces that v1 wrote, all admitted: three batches of four, and two that are left."""
    register(lake, settings_of(root, base), now=NOW)
    wrote = PeftModel.from_pretrained(plain_model(base), str(root / "v1"))
    traces = served_by(wrote, forked_traces(num=14), version="v1")
    land(lake, traces)
    admit(lake, {trace[0].trace_id: number % 5 / 4 for number, trace in enumerate(traces)})


def replay(lake, root, base, *, settings=SETTINGS, **arguments):
    """Train the night."""
    model = settings_of(root, base)
    return train(lake, model=model, settings=settings, run_id="r", run_folder=root / "run", now=NOW, **arguments)


def _killer(die_at):
    def tell(stage, done, total, unit, note=""):
        if stage == "train" and done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return tell


if __name__ == "__main__":
    folder, base_folder, update = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    with Lake.open(folder / "lake") as opened:
        replay(opened, folder, base_folder, progress=_killer(update))
