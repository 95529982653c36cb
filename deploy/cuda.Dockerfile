# The same with NVIDIA's libraries: NVRTC compiles kernels, cuBLASLt and cuDNN take part in products, convolutions and
# attention. The driver is the host's (NVIDIA Container Toolkit). From the root of a clone:
#   docker build -f deploy/cuda.Dockerfile -t camshaft:cuda .
#   docker run --rm --gpus all -v "$PWD:/models" camshaft:cuda build model.onnx -o model.engine --device cuda --fp16
FROM debian:12-slim AS wheel
WORKDIR /camshaft
COPY . .
RUN scripts/wheel.sh

FROM python:3.12-slim
# pip is given a file, whose version hadolint does not see.
COPY --from=wheel /camshaft/dist /wheels
# hadolint ignore=DL3013
RUN wheel=$(echo /wheels/camshaft-*.whl) && pip install --no-cache-dir "${wheel}[jobs,cuda]"
# What the toolkit hands in: the driver and nvidia-smi. Kernels are compiled once and kept in a volume.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility XDG_CACHE_HOME=/kernels
RUN mkdir -m 1777 /kernels
USER 65534
WORKDIR /models
ENTRYPOINT ["camshaft"]
CMD ["--help"]
