"""The models that bench/compare_gpu measures, and PyTorch's modes beside it. Needs no PyTorch; gpu_networks.py makes them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """Of square images with so many pixels an edge, or of 128 tokens out of a vocabulary."""

    title: str
    edge: int = 0
    vocabulary: int = 0

    @property
    def unit(self):
        return "images" if self.edge else "sequences"


MODELS = {
    "resnet50": Model("ResNet-50", edge=224),
    "bert": Model("BERT-base, 128 tokens", vocabulary=30522),
    "yolov5s": Model("YOLOv5s, 640²", edge=640),
    "efficientnet_b4": Model("EfficientNet-B4", edge=380),
    "vit_b_16": Model("ViT-B/16", edge=224),
    "mobilenet_v2": Model("MobileNetV2", edge=224),
    "gpt2": Model("GPT-2, 128 tokens of prefill", vocabulary=50257),
}

RIVALS = {
    "eager": "eager",
    "graph": "CUDA graph",
    "reduce-overhead": "reduce-overhead",
    "max-autotune": "max-autotune",
}
LABELS = {"camshaft": "Camshaft", **RIVALS}
