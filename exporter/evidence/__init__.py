"""Other witnesses than the log, all optional: the engine's own /metrics, JIT caches, compiler processes, RDMA counters.

Each looks in a thread of its own and leaves what it found in a source's mailbox; the thread that reads the log takes it
from there, so that an engine's state has one writer.
"""
