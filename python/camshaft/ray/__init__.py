"""Engines on Ray's clusters.

    import camshaft.ray

    engine = camshaft.ray.put("model.engine")          # once to each node that needs it
    predictions = dataset.map_batches(
        camshaft.ray.Predictor, fn_constructor_args=(engine,), batch_size=64, compute=ray.data.ActorPoolStrategy(size=4))

    ray.serve.run(camshaft.ray.app(engine, max_batch_size=16, num_replicas=2))

    config = camshaft.ray.LLMConfig(model_loading_config={"model_id": "tiny", "model_source": "build/served"})
    ray.serve.run(camshaft.ray.build_openai_app({"llm_configs": [config]}))

Needs ray (pip install 'ray[data,serve]')."""

from camshaft.ray._engines import StoredEngine, put
from camshaft.ray._llm import LLMConfig, build_llm_deployment, build_openai_app
from camshaft.ray._predictor import Predictor
from camshaft.ray._serve import Deployment, app

__all__ = [
    "Deployment",
    "LLMConfig",
    "Predictor",
    "StoredEngine",
    "app",
    "build_llm_deployment",
    "build_openai_app",
    "put",
]
