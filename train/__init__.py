"""From admitted traces to a new policy: batches, methods, the packed forward pass, rescoring and replay."""

import os

# Read by OpenMP when torch is loaded, which only happens below this package. Its default lets threads spin while they
# wait for each other; on two cores that other programs use too, that took 28 to 32 CPU seconds and 50 to 74 seconds of
# wall time where sleeping threads take 12 and 8 to 28 (one forward pass, measured 2026-11-30).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
