"""vLLM's own records, one module a subject. Importing them fills the registry."""

from parsers.vllm import capacity as capacity
from parsers.vllm import failed_starts as failed_starts
from parsers.vllm import failures as failures
from parsers.vllm import hazards as hazards
from parsers.vllm import jit as jit
from parsers.vllm import kv_failures as kv_failures
from parsers.vllm import kv_stores as kv_stores
from parsers.vllm import kv_transfer as kv_transfer
from parsers.vllm import mooncake as mooncake
from parsers.vllm import moriio as moriio
from parsers.vllm import phase_begins as phase_begins
from parsers.vllm import phases as phases
from parsers.vllm import quotes as quotes
from parsers.vllm import routine as routine
from parsers.vllm import settings as settings
from parsers.vllm import spec_decode as spec_decode
from parsers.vllm import startup as startup
from parsers.vllm import stats as stats
