"""Gateways in front of the engines, and the controllers that make both, one module each. Importing them fills the registry."""

from parsers.gateway import aibrix as aibrix
from parsers.gateway import controllers as controllers
from parsers.gateway import llm_d as llm_d
from parsers.gateway import sglang_router as sglang_router
from parsers.gateway import vllm_proxy as vllm_proxy
