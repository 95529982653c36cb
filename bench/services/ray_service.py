"""The same on Ray Serve, with its own batching. ray_service.py SPEC, see runtime.Spec."""

import sys
import time

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from runtime import Model, Spec

spec = Spec.read(sys.argv[1])


@serve.deployment(num_replicas=spec.instances, max_ongoing_requests=1024, ray_actor_options={"num_cpus": 1})
class Service:
    def __init__(self, text):
        self.model = Model(Spec.read(text))

    @serve.batch(max_batch_size=spec.max_batch, batch_wait_timeout_s=spec.wait_ms / 1000)
    async def infer(self, bodies):
        return self.model.infer(bodies)

    async def __call__(self, request: Request):
        return Response(await self.infer(await request.body()), media_type="application/octet-stream")


ray.init(num_cpus=spec.instances + 1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
serve.start(http_options={"host": "127.0.0.1", "port": spec.port})
serve.run(Service.bind(sys.argv[1]), route_prefix="/infer")
print("ready", flush=True)
while True:
    time.sleep(3600)
