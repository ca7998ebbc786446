# Two stages: the first checks and installs, the second holds what runs and nothing else.
#
# requirements.lock is one file for development, load tests and production. So every package of
# it is fetched and checked against its hashes, and then only the dependencies that pyproject.toml
# names for production, and those of its extra `postgres`, are installed, out of the checked files
# and without an index. Nothing that is not in the lock gets in, and no development tool does. The
# program itself is plain Python and is copied, so no build tool is needed either.
FROM python:3.11-slim AS builder

WORKDIR /build
COPY requirements.lock pyproject.toml ./
RUN python -m pip download --no-cache-dir --disable-pip-version-check --only-binary :all: \
        --require-hashes --dest /wheels --requirement requirements.lock
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*p['dependencies'], *p['optional-dependencies']['postgres'], sep='\n')" \
        > runtime.txt \
    && python -m venv /opt/fencegate \
    && /opt/fencegate/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        --no-index -f /wheels --requirement runtime.txt \
    && /opt/fencegate/bin/python -m pip check
COPY gateway /opt/fencegate/app/gateway
RUN printf '#!/bin/sh\nexec /opt/fencegate/bin/python -m gateway "$@"\n' \
        > /opt/fencegate/bin/fencegate \
    && chmod 755 /opt/fencegate/bin/fencegate \
    && /opt/fencegate/bin/python -m compileall -q /opt/fencegate/app


FROM python:3.11-slim

COPY --from=builder /opt/fencegate /opt/fencegate
RUN groupadd --gid 10001 fencegate \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin \
        fencegate \
    && install --directory --owner fencegate --group fencegate --mode 0700 /data

# Do not set PYTHONOPTIMIZE, PYTHONDEVMODE or PYTHONASYNCIODEBUG: the program is tested without.
ENV PATH=/opt/fencegate/bin:$PATH \
    PYTHONPATH=/opt/fencegate/app \
    PYTHONDONTWRITEBYTECODE=1 \
    FENCEGATE_LISTEN=0.0.0.0:8080 \
    FENCEGATE_LEDGER=sqlite:////data/fencegate.db \
    FENCEGATE_POLICIES=/etc/fencegate/policies \
    FENCEGATE_PRINCIPALS=/etc/fencegate/principals/principals.yaml

USER 10001:10001
WORKDIR /data
# A ledger in a file: one container at a time may use it, on a disk that keeps what it has
# confirmed. With FENCEGATE_LEDGER=postgresql://… it holds large request bodies only.
VOLUME /data
EXPOSE 8080
# The first signal drains; give the container longer than the drain before it is killed.
STOPSIGNAL SIGTERM
# Plain HTTP. With FENCEGATE_TLS_CERT set, give a check of your own that speaks https.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
ENTRYPOINT ["fencegate"]
CMD ["serve"]
