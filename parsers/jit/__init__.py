"""JIT compilers under the engines, which print with headers of their own or with none."""

from parsers.jit import deepgemm as deepgemm
from parsers.jit import flashinfer as flashinfer
from parsers.jit import inductor as inductor
from parsers.jit import nvcc as nvcc
from parsers.jit import rocm as rocm
from parsers.jit import tilelang as tilelang
from parsers.jit import triton as triton
