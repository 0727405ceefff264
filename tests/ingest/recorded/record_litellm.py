"""Record the standard logging payloads that LiteLLM hands to a callback.

    python -m venv v && v/bin/pip install litellm
    v/bin/python record_litellm.py

Recorded with litellm 1.110.2: a whole call and a streamed one to a server of vLLM's kind, a call whose server is not
there, one that is answered by `mock_response`, and one with messages redacted.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from fake_openai import MESSAGES, TOOLS, serving

HERE = Path(__file__).parent


def main() -> None:
    """Record five calls."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

    kept: list[dict[str, Any]] = []

    class Keeper(CustomLogger):
        def log_success_event(self, kwargs: Any, **_: Any) -> None:
            kept.append(kwargs["standard_logging_object"])

        def log_failure_event(self, kwargs: Any, **_: Any) -> None:
            kept.append(kwargs["standard_logging_object"])

    litellm.callbacks = [Keeper()]
    litellm.suppress_debug_info = True
    shared = {"model": "hosted_vllm/toy@v7", "api_key": "none", "user": "u-1", "num_retries": 0, "timeout": 5}
    shared |= {"messages": MESSAGES, "temperature": 1.0, "top_p": 1.0, "logprobs": True}
    with serving() as address:
        shared["api_base"] = address
        extra = {"return_token_ids": True, "top_k": -1}
        litellm.completion(tools=TOOLS, extra_body=extra, metadata={"trace_id": "t-41"}, **shared)
        _wait(kept, 1)
        for _ in litellm.completion(stream=True, **shared):
            pass
        _wait(kept, 2)
    try:
        litellm.completion(**{**shared, "api_base": "http://127.0.0.1:9/v1"})
    except litellm.exceptions.InternalServerError:
        _wait(kept, 3)
    litellm.completion(mock_response="Refunded.", **shared)
    _wait(kept, 4)
    litellm.turn_off_message_logging = True
    litellm.completion(mock_response="Refunded.", **shared)
    _wait(kept, 5)
    lines = "".join(json.dumps(_public(payload), separators=(",", ":"), default=str) + "\n" for payload in kept)
    (HERE / "litellm_standard.jsonl").write_text(lines)


def _public(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload without what only fills the file or names the machine."""
    without = ("model_map_information", "hidden_params", "cost_breakdown", "response_cost_failure_debug_info")
    told = {name: value for name, value in payload.items() if name not in without}
    error = told.get("error_information")
    if error:
        told["error_information"] = {**error, "traceback": ""}
    return {**told, "api_base": "http://vllm:8000/v1"}


def _wait(kept: list[dict[str, Any]], num_payloads: int) -> None:
    """Until the callback, which runs in a thread, has been called so often."""
    for _ in range(100):
        if len(kept) >= num_payloads:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{len(kept)} payloads; expected {num_payloads}")


if __name__ == "__main__":
    main()
