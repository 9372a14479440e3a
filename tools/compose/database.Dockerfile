# PostgreSQL as Debian has it, run as its own user.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -q \
 && mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql \
 && rm -rf /var/lib/apt/lists/* \
 && for program in initdb pg_isready postgres; do ln -sf /usr/lib/postgresql/*/bin/$program /usr/local/bin/$program; done
COPY database.sh /usr/local/bin/database
RUN chmod 755 /usr/local/bin/database
USER postgres
CMD ["database"]
