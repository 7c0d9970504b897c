"""The configuration: a YAML file, command-line flags, or both."""

import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from exporter.config_errors import (
    ConfigError,
    Fault,
    Location,
    as_written,
    fault_of,
    faults_across,
)
from exporter.durations import seconds_of, zone_seconds
from exporter.families import FAMILIES
from exporter.patterns import compiled
from exporter.source_names import STDIN, name_of
from exporter.verdict import LEAST_FAILED_REQUESTS, LEAST_FAILED_SHARE

__all__ = (
    "RESERVED_LABELS",
    "Config",
    "ConfigError",
    "LogConfig",
    "Section",
    "SourceConfig",
    "WebConfig",
    "from_flags",
    "load",
    "parse_listen_address",
)

# A static label must not take the place of one that a family has, that Prometheus adds, or that has a meaning in PromQL.
RESERVED_LABELS = frozenset(label for family in FAMILIES.values() for label in family.labels) | frozenset(
    ("source", "runtime", "le", "quantile", "job", "instance")
)

RESERVED_PATHS = frozenset(
    (
        "", "/status.js", "/-/healthy", "/-/ready", "/-/reload", "/api/docs", "/api/openapi.json", "/api/v1/status", "/api/v1/events",
        "/engine/startup", "/engine/ready",
    )
)  # fmt: skip

NAME = re.compile(r"[a-zA-Z0-9][\w.-]{0,62}", re.ASCII)
HOST = re.compile(r"[a-zA-Z0-9][\w.-]{0,252}", re.ASCII)
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


_LAST_PORT = 65_535
_LONGEST_PATTERN = 1000


def parse_listen_address(text: str) -> tuple[str, int]:
    """Split `HOST:PORT`; the host "" means all interfaces. Raise ValueError, without the text, when it is not one."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _LAST_PORT:
        raise ValueError('expected HOST:PORT, ":PORT" or "[IPV6]:PORT", with a port from 0 to 65535')
    if not host:
        return "", int(port)
    try:
        if host.startswith("[") and host.endswith("]"):
            return str(ipaddress.IPv6Address(host[1:-1])), int(port)
        if re.fullmatch(r"[0-9.]+", host):
            return str(ipaddress.IPv4Address(host)), int(port)
    except ValueError:
        raise ValueError("the host is not a valid IP address") from None
    if ":" in host:
        raise ValueError('an IPv6 address needs brackets, as in "[::1]:9000"')
    if not HOST.fullmatch(host):
        raise ValueError("the host is not a valid host name")
    return host, int(port)


def _listen_address(text: str) -> str:
    parse_listen_address(text)
    return text


def _telemetry_path(text: str) -> str:
    if not re.fullmatch(r"/[\w./~-]*", text, re.ASCII):
        raise ValueError("must begin with '/' and hold only letters, digits and ._~-/")
    if text.rstrip("/") in RESERVED_PATHS or text.startswith("/runbooks/"):
        raise ValueError("this path belongs to another page of inferlog")
    return text


def _source_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("must be 1 to 63 letters, digits and _.- and begin with a letter or a digit")
    return text


def _path(text: str, info: ValidationInfo) -> str:
    if not text or CONTROL.search(text):
        raise ValueError("a path must not be empty or hold control characters")
    return os.path.join(info.context or "", text)


def _log_path(text: str, info: ValidationInfo) -> str:
    return text if text == STDIN else _path(text, info)


def _metrics_url(text: str) -> str:
    """An address without a user's name: a secret belongs into the token file, and what is wrong must not be quoted."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        valid = False
    if not valid or CONTROL.search(text) or not text.isascii() or " " in text:
        raise ValueError('expected an address such as "http://127.0.0.1:8000/metrics"')
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("must have no user name, password or fragment; a token goes into engine_metrics_token_file")
    return text


def _timezone(text: str) -> str:
    zone_seconds(text)
    return text


def _label_name(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", text):
        raise ValueError("not a valid label name (letters, digits and '_', no digit first)")
    if text.startswith("__"):
        raise ValueError("label names that begin with '__' belong to Prometheus")
    if text in RESERVED_LABELS:
        raise ValueError("this label name belongs to inferlog or Prometheus")
    return text


def _pattern_name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", text):
        raise ValueError("a pattern's name is 1 to 63 small letters, digits and '_', a letter first")
    return text


def _pattern(text: str) -> str:
    if not 0 < len(text) <= _LONGEST_PATTERN:
        raise ValueError(f"a pattern has 1 to {_LONGEST_PATTERN} characters")
    compiled(text)
    return text


def _some(values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
    if not values:
        needed = "at least one source is needed" if info.field_name == "sources" else "a source needs 'path' or 'paths'"
        raise ValueError(needed)
    return values


LogPath = Annotated[str, AfterValidator(_log_path)]
LabelName = Annotated[str, AfterValidator(_label_name)]
PatternName = Annotated[str, AfterValidator(_pattern_name)]


class Section(BaseModel):
    """A mapping of which all keys are known; a key without a value keeps its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


class WebConfig(Section):
    """Where /metrics is served."""

    listen_address: Annotated[str, AfterValidator(_listen_address)] = ":19877"
    telemetry_path: Annotated[str, AfterValidator(_telemetry_path)] = "/metrics"
    config_file: Annotated[str, AfterValidator(_path)] | None = None
    enable_lifecycle: bool = False


class LogConfig(Section):
    """The exporter's own log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["logfmt", "json"] = "logfmt"


class SourceConfig(Section):
    """One source: the log files of one engine, or of many under kubelet's directories."""

    name: Annotated[str, AfterValidator(_source_name)] = ""
    paths: Annotated[tuple[LogPath, ...], AfterValidator(_some)] = Field(default=(), validate_default=True)
    start_at: Literal["beginning", "end"] = "beginning"
    pd_role: Literal["prefill", "decode", "both", "none"] | None = None
    pd_expect: Literal["all", "mixed"] | None = None
    pd_failed_requests: Annotated[int, Field(ge=1)] = LEAST_FAILED_REQUESTS
    pd_failed_share: Annotated[float, Field(gt=0, le=1)] = LEAST_FAILED_SHARE
    timezone: Annotated[str, AfterValidator(_timezone)] | None = None
    warmup_grace: Annotated[float, BeforeValidator(seconds_of)] = 600.0
    labels: Mapping[LabelName, str] = Field(default_factory=dict)
    engine_metrics_url: Annotated[str, AfterValidator(_metrics_url)] | None = None
    engine_metrics_token_file: Annotated[str, AfterValidator(_path)] | None = None
    patterns: Annotated[Mapping[PatternName, Annotated[str, AfterValidator(_pattern)]], Field(max_length=32)] = Field(default_factory=dict)
    jit_cache_home: Annotated[str, AfterValidator(_path)] | None = None
    jit_cache_dirs: tuple[Annotated[str, AfterValidator(_path)], ...] = ()
    jit_proc_root: Annotated[str, AfterValidator(_path)] | None = None

    @property
    def given_name(self) -> str:
        """The name that the user gave, empty when it comes from the path."""
        return self.name if "name" in self.model_fields_set else ""

    def named(self, name: str) -> Self:
        """A copy with a name that was not given."""
        copy = self.model_copy(update={"name": name})
        copy.model_fields_set.discard("name")
        return copy


class Config(Section):
    """The whole configuration."""

    web: WebConfig = WebConfig()
    log: LogConfig = LogConfig()
    state_file: Annotated[str, AfterValidator(_path)] | None = None
    log_roots: tuple[Annotated[str, AfterValidator(_path)], ...] = ()
    rdma_sysfs_root: Annotated[str, AfterValidator(_path)] | None = None
    sources: Annotated[tuple[SourceConfig, ...], AfterValidator(_some)] = Field(default=(), validate_default=True)


# The valid keys of each section, "" being the top level.
KEYS: dict[str | int, Sequence[str]] = {
    "": tuple(Config.model_fields),
    "web": tuple(WebConfig.model_fields),
    "log": tuple(LogConfig.model_fields),
    "sources": (*SourceConfig.model_fields, "path"),
}


def load(path: Path) -> Config:
    """Read a configuration file; relative paths in it are relative to its directory."""
    from exporter.document import Document

    document = Document(path)
    config, faults = _check(document.data, os.path.dirname(path))
    if config is None or faults or document.faults:
        raise document.first_error([*document.faults, *faults])
    return config


def from_flags(
    base: Config | None,
    *,
    logs: Sequence[str],
    listen_address: str | None = None,
    telemetry_path: str | None = None,
    web_config_file: str | os.PathLike[str] | None = None,
    enable_lifecycle: bool | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
    state_file: str | os.PathLike[str] | None = None,
    source_defaults: Mapping[str, str | float | Mapping[str, str] | None] | None = None,
) -> Config:
    """Apply command-line flags to a configuration, if there is one.

    Each of `logs` is a path or a glob and adds one source. `source_defaults` are settings of these
    sources by the name of the key (pd_role, pd_expect, start_at, timezone, warmup_grace, labels, and with one log name and engine_metrics_url).
    None is not given.
    """
    settings = {key: value for key, value in (source_defaults or {}).items() if value is not None}
    if settings and not logs:
        raise ConfigError(f"{_flag((next(iter(settings)),))}: needs --log")
    for key in ("name", "engine_metrics_url"):
        if key in settings and len(logs) > 1:
            raise ConfigError(f"{_flag((key,))}: needs exactly one --log")
    # Without what is not set: a name that was not given stays one that was not given.
    raw: dict[str, Any] = base.model_dump(exclude_unset=True) if base else {}
    known = len(raw.get("sources", ()))
    web = {
        "listen_address": listen_address,
        "telemetry_path": telemetry_path,
        "config_file": None if web_config_file is None else os.fspath(web_config_file),
        "enable_lifecycle": enable_lifecycle,
    }
    log = {"level": log_level, "format": log_format}
    raw["web"] = raw.get("web", {}) | {key: value for key, value in web.items() if value is not None}
    raw["log"] = raw.get("log", {}) | {key: value for key, value in log.items() if value is not None}
    raw["sources"] = [*raw.get("sources", ()), *({**settings, "paths": [text]} for text in logs)]
    if state_file is not None:
        raw["state_file"] = os.fspath(state_file)
    config, faults = _check(raw)
    if config is None or faults:
        fault = faults[0]
        raise ConfigError(f"{_flag(fault.location, known)}: {fault.message}")
    return config


def _flag(location: Location, known: int = 0) -> str:
    match location:
        case ("web", "config_file"):
            return "--web.config.file"
        case ("web" | "log", *_):
            return f"--{'.'.join(map(str, location)).replace('_', '-')}"
        case ("sources", _, "labels", str(name), *_):
            return f"--label {name}"
        case ("labels",):
            return "--label"
        case ("sources", int(index), "path" | "paths", *_):
            return f"--log[{index - known}]"
        case ("sources",):
            return "--log"
    return f"--{str(location[-1]).replace('_', '-')}"


def _check(raw: Mapping[str, object], directory: str = "") -> tuple[Config | None, list[Fault]]:
    sources = raw.get("sources")
    faults: list[Fault] = []
    if isinstance(sources, list):
        faults += faults_across(sources)
        raw = {**raw, "sources": [_with_paths(source) for source in sources]}
    try:
        return _with_names(Config.model_validate(raw, context=directory)), faults
    except ValidationError as error:
        for item in error.errors(include_url=False):
            location = item["loc"] = as_written(item["loc"], sources)
            faults.append(fault_of(item, KEYS[location[0] if len(location) > 1 else ""]))
        return None, faults


def _with_paths(source: object) -> object:
    """Write `path` as the one of `paths`."""
    if not isinstance(source, dict) or "path" not in source:
        return source
    rest = {key: value for key, value in source.items() if key != "path"}
    return rest if source["path"] is None else {**rest, "paths": [source["path"]]}


def _with_names(config: Config) -> Config:
    """Name the sources that have no name after the stem of their first path: `engine`, `engine-2`."""
    taken = {source.given_name for source in config.sources}
    return config.model_copy(
        update={
            "sources": tuple(source if source.given_name else source.named(name_of(source.paths[0], taken)) for source in config.sources)
        }
    )
