"""SGLang's own records, one module a subject. Importing them fills the registry."""

from parsers.sglang import batches as batches
from parsers.sglang import capacity as capacity
from parsers.sglang import failures as failures
from parsers.sglang import hazards as hazards
from parsers.sglang import jit as jit
from parsers.sglang import kv_transfer as kv_transfer
from parsers.sglang import phase_begins as phase_begins
from parsers.sglang import quotes as quotes
from parsers.sglang import routine as routine
from parsers.sglang import startup as startup
