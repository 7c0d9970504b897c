"""JIT compilers under the engines, which print with headers of their own or with none."""

from parsers.jit import flashinfer as flashinfer
from parsers.jit import tilelang as tilelang
from parsers.jit import triton as triton
