"""The models of gpu_models.py as PyTorch modules with seeded weights, their inputs, and how they become ONNX."""

import contextlib
import io

import torch
from gpu_models import MODELS
from torch import nn


class Conv(nn.Sequential):
    """Convolution, batch norm and SiLU."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, padding=None):
        padding = kernel // 2 if padding is None else padding
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
        )


class Bottleneck(nn.Module):
    def __init__(self, channels, adds):
        super().__init__()
        self.narrow, self.wide, self.adds = Conv(channels, channels), Conv(channels, channels, 3), adds

    def forward(self, x):
        y = self.wide(self.narrow(x))
        return x + y if self.adds else y


class C3(nn.Module):
    def __init__(self, inputs, outputs, count, adds=True):
        super().__init__()
        half = outputs // 2
        self.first, self.second, self.last = Conv(inputs, half), Conv(inputs, half), Conv(2 * half, outputs)
        self.inner = nn.Sequential(*[Bottleneck(half, adds) for _ in range(count)])

    def forward(self, x):
        return self.last(torch.cat((self.inner(self.first(x)), self.second(x)), 1))


class PyramidPooling(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.last = Conv(channels, channels // 2), Conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = self.first(x)
        y = self.pool(x)
        z = self.pool(y)
        return self.last(torch.cat((x, y, z, self.pool(z)), 1))


class Yolov5s(nn.Module):
    """The network of YOLOv5s (Ultralytics, 2020) up to the sigmoid of its three heads."""

    def __init__(self):
        super().__init__()
        self.to_8 = nn.Sequential(
            Conv(3, 32, 6, 2, 2), Conv(32, 64, 3, 2), C3(64, 64, 1), Conv(64, 128, 3, 2), C3(128, 128, 2)
        )
        self.to_16 = nn.Sequential(Conv(128, 256, 3, 2), C3(256, 256, 3))
        self.to_32 = nn.Sequential(Conv(256, 512, 3, 2), C3(512, 512, 1), PyramidPooling(512))
        self.up_32, self.merge_16 = Conv(512, 256), C3(512, 256, 1, False)
        self.up_16, self.merge_8 = Conv(256, 128), C3(256, 128, 1, False)
        self.down_8, self.out_16 = Conv(128, 128, 3, 2), C3(256, 256, 1, False)
        self.down_16, self.out_32 = Conv(256, 256, 3, 2), C3(512, 512, 1, False)
        self.heads = nn.ModuleList([nn.Conv2d(channels, 255, 1) for channels in (128, 256, 512)])
        self.enlarge = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x):
        eighth = self.to_8(x)
        sixteenth = self.to_16(eighth)
        a = self.up_32(self.to_32(sixteenth))
        b = self.up_16(self.merge_16(torch.cat((self.enlarge(a), sixteenth), 1)))
        c = self.merge_8(torch.cat((self.enlarge(b), eighth), 1))
        d = self.out_16(torch.cat((self.down_8(c), b), 1))
        e = self.out_32(torch.cat((self.down_16(d), a), 1))
        return tuple(head(x).sigmoid() for head, x in zip(self.heads, (c, d, e)))


class LastHiddenState(nn.Module):
    """A model of Transformers from token numbers to its last hidden state."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, return_dict=False)[0]


def bert():
    from transformers import BertConfig, BertModel

    return LastHiddenState(BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False))


def gpt2():
    from transformers import GPT2Config, GPT2Model

    return LastHiddenState(GPT2Model(GPT2Config(use_cache=False, attn_implementation="sdpa")))


OWN = {"bert": bert, "yolov5s": Yolov5s, "gpt2": gpt2}


def network(name):
    """The module in fp32: of those above, or of torchvision's."""
    if name in OWN:
        return OWN[name]()
    import torchvision

    return getattr(torchvision.models, name)()


def random_inputs(name, batch):
    """{name: tensor on the CPU}, images in fp32."""
    model = MODELS[name]
    if model.edge:
        return {"x": torch.randn(batch, 3, model.edge, model.edge)}
    return {"ids": torch.randint(0, model.vocabulary, (batch, 128))}


def make(name):
    """The module with seeded weights, ready to infer. Heads that start at zero get random weights, and batch norms divide
    by the root mean square that random images have there: outputs are then neither 0 nor beyond fp16. They do not
    subtract the mean, for the rest, small with random weights, would be mostly rounding."""
    torch.manual_seed(0)
    module = network(name)
    for parameter in module.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    if any(isinstance(part, nn.BatchNorm2d) for part in module.modules()):
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.momentum = None  # the mean of what it sees
        with torch.inference_mode():
            module.train()(*random_inputs(name, 2).values())
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_var += part.running_mean**2
                part.running_mean.zero_()
    return module.eval()


def inputs(name, batch):
    """random_inputs(), the same ones each time."""
    torch.manual_seed(batch)
    return random_inputs(name, batch)


def export(name, module, path):
    """Writes the module as ONNX, in fp32 and with a symbolic batch: once, through TorchScript, or else through Dynamo."""
    example = random_inputs(name, 2)
    axes = {key: {0: "batch"} for key in example}
    options = {"input_names": list(example), "opset_version": 18}
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # an operator of PyTorch's own, which ONNX does not have
    with torch.inference_mode():
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints the whole graph when it fails
                torch.onnx.export(module, tuple(example.values()), path, dynamic_axes=axes, dynamo=False, **options)
        except Exception as refusal:
            print(
                f"{name}: TorchScript does not export it ({str(refusal).splitlines()[0]}); Dynamo instead", flush=True
            )
            shapes = tuple({0: torch.export.Dim("batch", min=1, max=1024)} for _ in example)
            torch.onnx.export(
                module,
                tuple(example.values()),
                path,
                dynamic_shapes=shapes,
                dynamo=True,
                external_data=False,
                verbose=False,
                **options,
            )
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
