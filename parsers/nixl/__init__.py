"""NIXL and the transports under it, outside the engine's own records."""

from parsers.nixl import errors as errors
from parsers.nixl import hazards as hazards
from parsers.nixl import native as native
from parsers.nixl import startup as startup
from parsers.nixl import transport as transport
