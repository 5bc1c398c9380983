# tracelab for reading: ingest, query, sql, report, plot. No GPU, no torch.
#
#   docker build --file docker/laptop.Dockerfile --tag tracelab .
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab ingest runs
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab query gpu_breakdown
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab report -o report.html
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" --interactive --tty tracelab sql
#
# /work is the working folder, where ./lab, the store, appears; --user makes what is written there yours.

ARG PYTHON=3.13-slim-trixie

FROM python:${PYTHON} AS build
WORKDIR /tracelab
COPY requirements/lock.txt requirements/
COPY pyproject.toml README.md LICENSE ./
COPY queries queries
COPY collectors collectors
COPY data data
COPY src src
RUN python -m venv /opt/tracelab \
    && PIP_BUILD_CONSTRAINT=requirements/lock.txt \
        /opt/tracelab/bin/pip install --no-cache-dir --constraint requirements/lock.txt '.[ncu]'

FROM python:${PYTHON}
COPY --from=build /opt/tracelab /opt/tracelab
RUN useradd --uid 10001 --create-home tracelab \
    && mkdir /work \
    && chown tracelab /work
# HOME is a folder that every --user may write to: the shell of `tracelab sql` keeps its history there, matplotlib its fonts.
ENV PATH=/opt/tracelab/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER tracelab
WORKDIR /work
ENTRYPOINT ["tracelab"]
CMD ["--help"]
