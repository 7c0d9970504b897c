"""Run in a process of its own: vLLM's real logging, out of its wheel, prints what an engine does. Arguments: the wheel's folder."""

import json
import logging
import os
import sys
import types
from pathlib import Path

# Without its __init__, which imports torch.
package = types.ModuleType("vllm")
package.__path__ = [f"{sys.argv[1]}/vllm"]
sys.modules["vllm"] = package

from vllm import logger as vllm_logger  # noqa: E402

if hasattr(vllm_logger, "configure_logging"):  # from 0.31 on it is not done by the import
    vllm_logger._configure_vllm_root_logger()
engine = vllm_logger.init_logger("vllm.v1.core.kv_cache_utils")
engine.info("GPU KV cache size: %s tokens", "2,493,464")
engine.warning("NIXL transfer failure: %s | Context: %s", "handshake_setup_failed", {"failure_type": "handshake_setup_failed"})
engine.error("a traceback\nover two lines")

# As vLLM's API server hands its configuration to uvicorn.
import uvicorn  # noqa: E402

path = os.environ.get("VLLM_LOGGING_CONFIG_PATH")
more = {"log_config": json.loads(Path(path).read_text())} if path else {}
uvicorn.Config("no:app", **more)
logging.getLogger("uvicorn.error").info("Application startup complete.")
logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "10.0.0.1:1", "POST", "/v1/completions", "1.1", 200)
