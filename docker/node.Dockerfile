# tracelab for recording on a GPU node: `tracelab collect`, with the torch, nsys and ncu of NVIDIA's image.
#
#   docker build --file docker/node.Dockerfile --tag tracelab-node .
#   docker run --rm --gpus all --ipc host --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab-node \
#       train image_classification --model resnet50 --batch-size 64 --profiler kineto
#   docker run --rm --gpus all --ipc host --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab-node \
#       run -- torchrun --nproc-per-node 8 train.py
#   docker run --rm --gpus all --ipc host --volume "$PWD:/work" --user "$(id -u):$(id -g)" tracelab-node ceilings
#   docker run --rm --gpus all --ipc host --cap-add SYS_ADMIN --volume "$PWD:/work" --user root tracelab-node \
#       train image_classification --model resnet50 --profiler ncu
#
# --ipc host: ranks and data loaders share memory, and a container's own 64 MB are too few.
# --cap-add SYS_ADMIN with root: only where the driver keeps the GPU's counters from other users. Kineto and nsys need neither.
# What was recorded lies in ./runs; read it on a laptop, with docker/laptop.Dockerfile or `pip install tracelab`.

ARG BASE=nvcr.io/nvidia/pytorch:26.06-py3

FROM ${BASE}
WORKDIR /opt/tracelab
COPY pyproject.toml README.md LICENSE ./
COPY queries queries
COPY collectors collectors
COPY data data
COPY src src
# Collecting needs click beside torch, and uses NVML and psutil where they are there. --no-deps keeps the image's torch, and
# leaves out what only reading needs. The image's own constraints would pin click below what tracelab takes.
RUN export PIP_CONSTRAINT= \
    && pip install --no-cache-dir 'click>=8.5,<9' 'nvidia-ml-py>=12,<14' 'psutil>=5.9,<8' \
    && pip install --no-cache-dir --no-deps .
RUN useradd --uid 10001 --create-home tracelab \
    && mkdir --parents /work \
    && chown tracelab /work
# HOME is a folder that every --user may write to: torch compiles kernels into a cache below it.
ENV HOME=/tmp
USER tracelab
WORKDIR /work
ENTRYPOINT ["tracelab", "collect"]
CMD ["--help"]
