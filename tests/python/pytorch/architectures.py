"""Real architectures with random weights, small: {name: function that gives (module, arguments)}. A name's first part is the
package that it comes from."""

import torch


def _vision(name, size=64, **options):
    def make():
        from torchvision_models import imported

        module = getattr(imported().models, name)(weights=None, **options)
        return module, (torch.randn(2, 3, size, size),)

    return make


def _segmentation(name, size=64):
    def make():
        from torchvision_models import imported

        module = getattr(imported().models.segmentation, name)(weights=None, weights_backbone=None)
        return module, (torch.randn(1, 3, size, size),)

    return make


def _timm(name, size=None, **options):
    def make():
        from torchvision_models import imported

        imported()
        import timm

        module = timm.create_model(name, pretrained=False, **options)
        size_of = size or module.default_cfg["input_size"][-1]
        return module, (torch.randn(2, 3, size_of, size_of),)

    return make


_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def _words(config, model, **options):
    def make():
        from torchvision_models import imported

        imported()
        import transformers

        settings = {**_SMALL, "vocab_size": 100, **options}
        module = getattr(transformers, model)(getattr(transformers, config)(**settings))
        return _Plain(module), (torch.arange(1, 25).reshape(2, 12) % 99 + 1,)

    return make


class _Plain(torch.nn.Module):
    """The first result alone, without caches."""

    def __init__(self, module, **fixed):
        super().__init__()
        self.module, self.fixed = module, fixed

    def forward(self, *given):
        return self.module(*given, **self.fixed, return_dict=False)[0]


class _NoCache(_Plain):
    def forward(self, *given):
        return self.module(*given, use_cache=False, return_dict=False)[0]


def _decoder(config, model, **options):
    def make():
        module, given = _words(config, model, **options)()
        return _NoCache(module.module), given

    return make


def _t5():
    import transformers

    config = transformers.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    words = torch.arange(1, 17).reshape(2, 8)
    return _T5(transformers.T5ForConditionalGeneration(config)), (words, words[:, :5])


class _T5(_Plain):
    def forward(self, words, written):
        return self.module(input_ids=words, decoder_input_ids=written, use_cache=False, return_dict=False)[0]


def _whisper():
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=100, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=16, max_source_positions=50,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    module = transformers.WhisperForConditionalGeneration(config)
    return _Whisper(module), (torch.randn(2, 16, 100), torch.arange(1, 9).reshape(2, 4))


class _Whisper(_Plain):
    def forward(self, sound, written):
        return self.module(sound, decoder_input_ids=written, use_cache=False, return_dict=False)[0]


def _clip():
    from torchvision_models import imported

    imported()
    import transformers

    config = transformers.CLIPConfig(
        text_config={**_SMALL, "vocab_size": 100, "max_position_embeddings": 16, "eos_token_id": 2},
        vision_config={**_SMALL, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )
    words = torch.tensor([[5, 6, 7, 2], [9, 3, 2, 2]])
    return _Plain(transformers.CLIPModel(config)), (words, torch.randn(2, 3, 32, 32))


def _vit():
    from torchvision_models import imported

    imported()
    import transformers

    config = transformers.ViTConfig(**_SMALL, image_size=32, patch_size=8)
    return _Plain(transformers.ViTModel(config)), (torch.randn(2, 3, 32, 32),)


def _detr():
    from torchvision_models import imported

    imported()
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, num_queries=10,
    )  # fmt: skip
    return _Detr(transformers.DetrForObjectDetection(config)), (torch.randn(1, 3, 64, 64),)


class _Detr(_Plain):
    def forward(self, pixels):
        found = self.module(pixels)
        return found.logits, found.pred_boxes


def _unet():
    from torchvision_models import imported

    imported()
    import diffusers

    module = diffusers.UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, norm_num_groups=8,
        attention_head_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return _Plain(module), (torch.randn(2, 4, 16, 16), torch.tensor(7), torch.randn(2, 5, 32))


def _vae():
    from torchvision_models import imported

    imported()
    import diffusers

    module = diffusers.AutoencoderKL(
        block_out_channels=(16, 32), norm_num_groups=8, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return _Decoded(module), (torch.randn(1, 4, 8, 8),)


class _Decoded(_Plain):
    def forward(self, latents):
        return self.module.decode(latents, return_dict=False)[0]


class _Yolo(torch.nn.Module):
    """A detector's kind of graph: strided convolutions, SiLU, parts joined, a pyramid, and boxes decoded."""

    def __init__(self, width=16):
        super().__init__()

        def conv(a, b, size=3, stride=1):
            return torch.nn.Sequential(
                torch.nn.Conv2d(a, b, size, stride, size // 2, bias=False), torch.nn.BatchNorm2d(b), torch.nn.SiLU()
            )

        self.stem = conv(3, width, 3, 2)
        self.down = torch.nn.ModuleList(conv(width * 2**i, width * 2 ** (i + 1), 3, 2) for i in range(3))
        self.split = torch.nn.ModuleList(conv(width * 2**i, width * 2**i) for i in range(1, 4))
        self.merge = torch.nn.ModuleList([conv(width * 12, width * 4, 1), conv(width * 6, width * 2, 1)])
        self.head = torch.nn.ModuleList(torch.nn.Conv2d(width * 2**i, 64 + 5, 1) for i in (1, 2, 3))

    def forward(self, x):
        x = self.stem(x)
        levels = []
        for down, split in zip(self.down, self.split):
            x = down(x)
            first, second = x.chunk(2, 1)
            x = torch.cat([first, second], 1) + split(x)
            levels.append(x)
        small, middle, large = levels
        up = torch.nn.functional.interpolate(large, scale_factor=2.0, mode="nearest")
        middle = self.merge[0](torch.cat([up, middle], 1))
        up = torch.nn.functional.interpolate(middle, scale_factor=2.0, mode="nearest")
        small = self.merge[1](torch.cat([up, small], 1))
        boxes = []
        for head, level in zip(self.head, (small, middle, large)):
            found = head(level)
            sides, scores = found.split((64, 5), 1)
            batch, _, height, width = sides.shape
            sides = sides.view(batch, 4, 16, height * width).softmax(2)
            sides = (sides * torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
            ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            centres = torch.stack([xs, ys]).reshape(1, 2, -1) + 0.5
            low, high = centres - sides[:, :2], centres + sides[:, 2:]
            boxes.append(torch.cat([(low + high) / 2, high - low, scores.reshape(batch, 5, -1).sigmoid()], 1))
        return torch.cat(boxes, 2)


class _Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.cell = torch.nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.last = torch.nn.Linear(48, 5)

    def forward(self, words):
        return self.last(self.cell(self.embedding(words))[0]).log_softmax(-1)


class _Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x)


ARCHITECTURES = {
    "own yolo": lambda: (_Yolo(), (torch.randn(1, 3, 64, 64),)),
    "own gru": lambda: (_Recurrent(), (torch.arange(12).reshape(2, 6),)),
    "own encoder": lambda: (_Encoder(), (torch.randn(2, 7, 32),)),
    **{
        f"torchvision {name}": _vision(name)
        for name in (
            "resnet18 mobilenet_v2 mobilenet_v3_small efficientnet_b0 densenet121 squeezenet1_1 shufflenet_v2_x0_5 "
            "mnasnet0_5 regnet_y_400mf regnet_x_400mf convnext_tiny swin_t resnext50_32x4d vgg11 swin_v2_t"
        ).split()
    },
    "torchvision alexnet": _vision("alexnet"),
    "torchvision googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "torchvision vit_b_16": _vision("vit_b_16", image_size=64),
    "torchvision fcn_resnet50": _segmentation("fcn_resnet50"),
    "torchvision deeplabv3_mobilenet_v3_large": _segmentation("deeplabv3_mobilenet_v3_large"),
    "torchvision lraspp_mobilenet_v3_large": _segmentation("lraspp_mobilenet_v3_large"),
    **{
        f"timm {name}": _timm(name, size)
        for name, size in {
            "resnet10t": 64,
            "mixer_s32_224": None,
            "convmixer_768_32": 32,
            "mobilenetv4_conv_small": 64,
            "hrnet_w18_small": 64,
            "vit_tiny_patch16_224": None,
            "deit_tiny_patch16_224": None,
            "efficientvit_b0": 64,
            "edgenext_xx_small": 64,
            "poolformer_s12": 64,
            "ghostnet_050": 64,
            "repvgg_a0": 64,
            "levit_128s": None,
            "mobilevit_xxs": 64,
            "xcit_nano_12_p16_224": None,
            "coat_tiny": None,
            "dla34": 64,
            "res2net50_26w_4s": 64,
            "nfnet_l0": 64,
            "pit_ti_224": None,
            "cait_xxs24_224": None,
            "fastvit_t8": 64,
            "visformer_tiny": None,
            "pvt_v2_b0": 64,
            "tinynet_e": 64,
            "rexnet_100": 64,
            "gernet_s": 64,
            "selecsls42b": 64,
            "cspresnet50": 64,
            "botnet26t_256": None,
            "lambda_resnet26t": 64,
            "eca_resnet33ts": 64,
            "skresnet18": 64,
            "vovnet39a": 64,
            "inception_next_tiny": 64,
            "focalnet_tiny_srf": 64,
            "davit_tiny": 64,
            "gmlp_s16_224": None,
            "resmlp_12_224": None,
            "twins_svt_small": 64,
            "beit_base_patch16_224": None,
            "caformer_s18": 64,
            "convnext_atto": 64,
            "convnextv2_atto": 64,
            "cs3darknet_focus_s": 64,
            "cspnext_s": 64,
            "densenetblur121d": 64,
            "dla46_c": 64,
            "dpn48b": 64,
            "efficientnet_b0": 64,
            "fasternet_t0": 64,
            "hardcorenas_a": 64,
            "hgnetv2_b0": 64,
            "lcnet_050": 64,
            "mambaout_femto": 64,
            "mobilenetv3_small_050": 64,
            "mobilevitv2_050": 64,
            "nextvit_small": 64,
            "regnety_002": 64,
            "regnetz_005": 64,
            "repghostnet_050": 64,
            "repvit_m0_9": 64,
            "resnest14d": 64,
            "resnetv2_50": 64,
            "resnext50_32x4d": 64,
            "rexnetr_200": 64,
            "legacy_seresnet18": 64,
            "shvit_s1": 64,
            "skresnext50_32x4d": 64,
            "starnet_s1": 64,
            "swiftformer_xs": 64,
            "tresnet_m": 64,
            "vgg11_bn": 64,
            "mnasnet_small": 64,
            "spnasnet_100": 64,
            "fbnetc_100": 64,
            "semnasnet_075": 64,
            "mixnet_s": 64,
            "nf_regnet_b0": 64,
            "ese_vovnet19b_dw": 64,
            "iformer_t": 64,
            "lowformer_b0": 64,
            "rdnet_tiny": 64,
            "mobileone_s0": 64,
            "inception_v3": 128,
            "inception_v4": 128,
            "xception41": 128,
            "legacy_xception": 128,
            "convit_tiny": None,
            "crossvit_9_240": None,
            "efficientformerv2_s0": None,
            "efficientvit_m0": None,
            "eva02_tiny_patch14_224": None,
            "gcvit_xxtiny": None,
            "hiera_tiny_224": None,
            "maxvit_rmlp_pico_rw_256": None,
            "mvitv2_tiny": None,
            "nest_tiny": None,
            "swin_tiny_patch4_window7_224": None,
            "swinv2_tiny_window8_256": None,
            "swinv2_cr_tiny_224": None,
            "tiny_vit_5m_224": None,
            "tnt_s_patch16_224": None,
            "vit_relpos_small_patch16_224": None,
            "vit_small_r26_s32_224": None,
            "volo_d1_224": None,
            "gmixer_24_224": None,
            "halonet26t": None,
        }.items()
    },
    "transformers bert": _words("BertConfig", "BertModel"),
    "transformers roberta": _words("RobertaConfig", "RobertaModel"),
    "transformers distilbert": _words(
        "DistilBertConfig", "DistilBertModel", dim=64, n_layers=2, n_heads=4, hidden_dim=128
    ),
    "transformers albert": _words("AlbertConfig", "AlbertModel", embedding_size=32),
    "transformers electra": _words("ElectraConfig", "ElectraModel", embedding_size=32),
    "transformers gpt2": _decoder("GPT2Config", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "transformers llama": _decoder("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2),
    "transformers qwen2": _decoder("Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2),
    "transformers mistral": _decoder("MistralConfig", "MistralForCausalLM", num_key_value_heads=2),
    "transformers t5": _t5,
    "transformers whisper": _whisper,
    "transformers clip": _clip,
    "transformers vit": _vit,
    "transformers detr": _detr,
    "diffusers unet": _unet,
    "diffusers vae": _vae,
}


def compared(name, dynamic=False, level=0, **options):
    """(largest difference as a part of the result's scale, operators left, graphs) of a compiled architecture."""
    import logging

    import camshaft.torch

    torch.manual_seed(0)
    module, given = ARCHITECTURES[name]()
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():  # what starts as zeros would hide what comes before
            if not parameter.any():
                parameter.normal_(std=0.02)
    left, parts = [], []

    class Heard(logging.Handler):
        def emit(self, record):
            (left if record.levelno >= logging.WARNING else parts).append(record.getMessage())

    handler = Heard()
    camshaft.torch.log.addHandler(handler)
    camshaft.torch.log.setLevel(logging.INFO)
    torch.compiler.reset()
    try:
        with torch.no_grad():
            expected = module(*given)
            settings = {"optimization_level": level, "cache": False, **options}
            actual = torch.compile(module, backend="camshaft", dynamic=dynamic, options=settings)(*given)
    finally:
        camshaft.torch.log.removeHandler(handler)
    pairs = [(actual, expected)] if isinstance(expected, torch.Tensor) else None
    if pairs is None:
        theirs = expected.values() if isinstance(expected, dict) else expected
        ours = actual.values() if isinstance(expected, dict) else actual
        pairs = list(zip(ours, theirs))
    worst = max(float((a - e).abs().max() / e.abs().max().clamp(min=1e-6)) for a, e in pairs)
    return worst, left, [line for line in parts if " in " in line and "operators" in line]


def main():
    import sys
    import time
    import warnings

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(ARCHITECTURES)
    for name in ARCHITECTURES:
        if not any(word in name for word in wanted):
            continue
        begun = time.monotonic()
        try:
            worst, left, graphs = compared(name)
            print(f"{name}: {worst:.1e}, {len(graphs)} graphs, {time.monotonic() - begun:.0f} s", *left, flush=True)
        except Exception as error:
            lines = str(error).strip().splitlines()
            print(f"{name}: {type(error).__name__}: {' / '.join(lines[:2])[:400]}", flush=True)


if __name__ == "__main__":
    main()
