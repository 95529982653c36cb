# The server, for CPUs, with the Python that models in Python run on. From the root of a clone:
#   docker build -f deploy/server.Dockerfile -t camshaft-server .
#   docker run --rm -p 8000-8002:8000-8002 -v "$PWD/models:/models" camshaft-server
FROM debian:12-slim AS build
WORKDIR /camshaft
COPY . .
RUN scripts/setup.sh && scripts/build.sh release camshaft_server camshaft_command

FROM python:3.12-slim
# hadolint ignore=DL3013
RUN pip install --no-cache-dir numpy
COPY --from=build /camshaft/build/release/server/camshaft-server /camshaft/build/release/tools/camshaft /usr/local/bin/
# Whom KServe runs it as. Engines that are built of ONNX models are kept where HOME is.
RUN useradd --uid 1000 --create-home camshaft
USER 1000
EXPOSE 8000 8001 8002
STOPSIGNAL SIGTERM
ENTRYPOINT ["camshaft-server"]
CMD ["--model-repository=/models", "--http-address=0.0.0.0", "--grpc-address=0.0.0.0", "--metrics-address=0.0.0.0"]
