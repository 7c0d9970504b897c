"""Run in a process of its own: SGLang's real `configure_logger`, out of its wheel. Arguments: the wheel's folder."""

import ast
import json
import logging
import logging.config
import os
import sys
import types
from pathlib import Path

# The function alone: its module imports torch.
utils = Path(sys.argv[1], "sglang", "srt", "utils")
source = (utils / "common.py" if utils.is_dir() else utils.with_suffix(".py")).read_text(encoding="utf-8")
(function,) = (each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == "configure_logger")
anything = types.SimpleNamespace(get=lambda: False)
known = {
    "os": os, "logging": logging, "json": json, "orjson": json,
    "envs": types.SimpleNamespace(SGLANG_LOG_MS=anything), "parent_process": lambda: None,
    "configure_hf_hub_logger": lambda: None, "is_flashinfer_available": lambda: False,
}  # fmt: skip
exec(ast.unparse(function), known)
known["configure_logger"](types.SimpleNamespace(log_level="info"))

log = logging.getLogger("sglang.srt.managers.scheduler")
log.info("KV Cache is allocated. #tokens: 2493464, K size: 1.00 GB, V size: 1.00 GB")
log.info("max_total_num_tokens=2493464, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=256, context_len=32768")
log.info("The server is fired up and ready to roll!")
