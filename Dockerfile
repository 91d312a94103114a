# `surprise-rerank serve` for CPUs:   docker build --tag surprise-rerank .
# For GPUs, with torch's CUDA:        docker build --build-arg TORCH_INDEX=https://pypi.org/simple .
FROM python:3.12-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# Readers of files, tools for agents, and three models, so that no model hub is asked.
ARG EXTRAS=files,mcp,offline,server
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY surprise_rerank surprise_rerank
COPY connectors connectors
COPY eval eval
RUN /venv/bin/pip install --no-cache-dir ".[$EXTRAS]"

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home app && install --directory --owner app /cache /index
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH HOME=/cache SURPRISE_RERANK_CACHE=/cache
USER 10001
# The only places that are written to, with /tmp: the root may be read-only.
VOLUME ["/cache", "/index"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["surprise-rerank", "serve"]
CMD ["--host", "0.0.0.0"]
