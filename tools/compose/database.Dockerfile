# PostgreSQL as Debian has it.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -q \
 && mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql util-linux \
 && rm -rf /var/lib/apt/lists/* \
 && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ 2>/dev/null || true
COPY database.sh /usr/local/bin/database
CMD ["database"]
