# A node of the cluster: a checkout with its environment, made as everyone makes it. Wheels in build/wheels come first.
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS base
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libnuma1 procps python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*

FROM base AS built
COPY . /turnwise
RUN export PIP_NO_CACHE_DIR=1 PIP_FIND_LINKS=/turnwise/build/wheels \
 && if ls "$PIP_FIND_LINKS"/*.whl >/dev/null 2>&1; then export PIP_NO_INDEX=1; fi \
 && bash /turnwise/tools/install.sh && rm -rf /turnwise/build

FROM base
COPY --from=built /turnwise /turnwise
WORKDIR /turnwise
ENV PATH=/turnwise/.venv/bin:$PATH OMP_NUM_THREADS=1
RUN install -m 755 tools/compose/node.sh /usr/local/bin/node
ENTRYPOINT []
CMD ["node"]
