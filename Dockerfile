# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/inferlog
WORKDIR /src
COPY constraints.txt ./
# Wheels and nothing else: no compiler is here, and none is wanted.
RUN /opt/inferlog/bin/pip install --only-binary :all: --requirement constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY alerts alerts
COPY dashboards/inferlog-*.json dashboards/kustomization.yaml dashboards/
COPY deploy deploy
COPY parsers parsers
COPY exporter exporter
RUN /opt/inferlog/bin/pip install --no-deps . \
    && /opt/inferlog/bin/pip uninstall --yes pip \
    && find /opt/inferlog -name __pycache__ -prune -exec rm -rf {} + \
    && python -m compileall -q -j 0 /opt/inferlog

FROM python:3.13-slim
ARG VERSION=0.0.0 REVISION=unknown
LABEL org.opencontainers.image.title="inferlog" \
      org.opencontainers.image.description="Prometheus exporter and log analysis for LLM inference engines: vLLM, SGLang, NIXL" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 inferlog \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin inferlog \
    && install -d -o 10001 -g 10001 /var/lib/inferlog
COPY --from=build /opt/inferlog /opt/inferlog
ENV PATH=/opt/inferlog/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 19877
# Kubernetes has probes of its own; this is for docker and podman. With TLS or a password on /-/healthy give another, or --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:19877/-/healthy', timeout=4)"]
ENTRYPOINT ["inferlog"]
CMD ["run", "--log", "/logs/*.log", "--state-file", "/var/lib/inferlog/state/state.json"]
