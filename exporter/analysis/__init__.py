"""A saved log becomes an answer: what happened, what it means, and what to do. It rests on the same pipeline as the daemon."""
