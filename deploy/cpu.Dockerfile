# The command and the Python module, for CPUs. From the root of a clone:
#   docker build -f deploy/cpu.Dockerfile -t camshaft .
#   docker run --rm -v "$PWD:/models" camshaft build model.onnx -o model.engine
FROM debian:12-slim AS wheel
WORKDIR /camshaft
COPY . .
RUN scripts/wheel.sh

FROM python:3.12-slim
# pip is given a file, whose version hadolint does not see.
COPY --from=wheel /camshaft/dist /wheels
# hadolint ignore=DL3013
RUN wheel=$(echo /wheels/camshaft-*.whl) && pip install --no-cache-dir "${wheel}[jobs]"
# Whose files engines become, docker run says: --user "$(id -u):$(id -g)".
USER 65534
WORKDIR /models
ENTRYPOINT ["camshaft"]
CMD ["--help"]
