#!/usr/bin/env bash
# What a training step costs on the GPU of this machine: tokens/s, MFU and peak memory, against TRL where it is installed.
# No network; ends within eight minutes. Without a GPU it runs at a small size on CPU, and says so.
#   bash bench/gpu.sh [--minutes 7] [--steps 2] [--device cuda|cpu]     PYTHON=/path/to/python chooses the environment
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
  if [ -x .venv/bin/python ]; then PYTHON=.venv/bin/python; else PYTHON=python3; fi
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 DO_NOT_TRACK=1 TOKENIZERS_PARALLELISM=false
nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv,noheader 2>/dev/null || true
exec timeout 480 "$PYTHON" bench/trainer_gpu.py "$@"
