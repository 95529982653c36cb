"""A folder of onnxruntime-genai's with the weights of a GGUF model, bit by bit: the graph that its model builder writes for
CPUs (packed queries, keys and values, GroupQueryAttention with rotary embeddings and a cache in place, MatMulNBits of blocks
of 32 with accuracy_level 4, the head for the last token alone). Q4_0 and Q8_0 are MatMulNBits' codes with scales in f32."""

import json

import numpy as np

BLOCK = 32


def codes_of(blocks, bits):
    """Codes [rows, blocks, bytes] as MatMulNBits has them and scales [rows, blocks] of Q4_0's or Q8_0's blocks."""
    width = 2 + BLOCK * bits // 8
    blocks = blocks.reshape(len(blocks), -1, width)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)[:, :, 0].astype(np.float32)
    codes = blocks[:, :, 2:]
    if bits == 8:
        return codes ^ 0x80, scales  # of i8, as codes around 128
    low, high = codes & 15, codes >> 4  # elements 0 to 15 and 16 to 31, where MatMulNBits has neighbours in a byte
    elements = np.concatenate([low, high], axis=2)
    return elements[:, :, 0::2] | elements[:, :, 1::2] << 4, scales


class Graph:
    """Nodes and initializers of a model whose weights lie in a file beside it."""

    def __init__(self, folder):
        import onnx

        self.onnx, self.nodes, self.initializers = onnx, [], []
        self.file = open(folder / "model.onnx.data", "wb")

    def node(self, kind, inputs, outputs, domain="", **attributes):
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, name, value):
        tensor = self.onnx.TensorProto()
        tensor.name, tensor.data_type = name, self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor.dims.extend(value.shape)
        if value.nbytes < 1024:
            tensor.raw_data = value.tobytes()
        else:
            self.file.write(b"\0" * (-self.file.tell() % 4096))
            tensor.data_location = self.onnx.TensorProto.EXTERNAL
            for key, entry in (("location", "model.onnx.data"), ("offset", self.file.tell()), ("length", value.nbytes)):
                tensor.external_data.add(key=key, value=str(entry))
            value.tofile(self.file)
        self.initializers.append(tensor)
        return name

    def product(self, name, x, blocks, bits, y=None):
        """x times the transposed matrix of these blocks."""
        codes, scales = codes_of(blocks, bits)
        operands = [x, self.constant(f"{name}.codes", codes), self.constant(f"{name}.scales", scales)]
        sizes = {
            "K": codes.shape[1] * BLOCK,
            "N": codes.shape[0],
            "bits": bits,
            "block_size": BLOCK,
            "accuracy_level": 4,
        }
        return self.node("MatMulNBits", operands, [y or f"{name}.y"], "com.microsoft", **sizes)

    def save(self, folder, inputs, outputs):
        helper = self.onnx.helper
        value = [
            [
                helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape)
                for name, kind, shape in x
            ]
            for x in (inputs, outputs)
        ]
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph(self.nodes, "decoder", *value, self.initializers)
        self.onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), str(folder / "model.onnx"))
        self.file.close()


def write(options, tensors, folder, longest):
    """`tensors`: (name, f32 values) as Hugging Face names them. Runs in an interpreter that has gguf and onnx."""
    import gguf

    folder.mkdir(parents=True, exist_ok=True)
    stored = {}
    kinds = gguf.GGMLQuantizationType
    for name, x in tensors:
        is_table = "embed" in name
        stored[name] = x if x.ndim == 1 else gguf.quants.quantize(x, kinds.Q8_0 if is_table else kinds.Q4_0)
    head_size = options.width // options.heads
    graph = Graph(folder)
    one = graph.constant("one", np.array([1], np.int64))
    count = graph.node("ReduceSum", ["attention_mask", one], ["count"], keepdims=0)
    last = graph.node("Sub", [count, one], ["last"])
    past = graph.node("Cast", [last], ["past"], to=graph.onnx.TensorProto.INT32)
    sizes = graph.node("Shape", ["attention_mask"], ["sizes"])
    total = graph.node("Gather", [sizes, graph.constant("second", np.array(1, np.int64))], ["total"])
    total = graph.node("Cast", [total], ["total_i32"], to=graph.onnx.TensorProto.INT32)

    angles = np.arange(longest)[:, None] / 500000.0 ** (np.arange(0, head_size, 2) / head_size)
    tables = [graph.constant(f.__name__, f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    codes, scales = codes_of(stored["model.embed_tokens.weight"], 8)
    table = ((codes.astype(np.int16) - 128) * scales[:, :, None]).astype(np.float32).reshape(options.vocabulary, -1)
    x = graph.node("Gather", [graph.constant("table", table), "input_ids"], ["x"])
    norm = {"epsilon": 1e-5}
    residual = None
    for i in range(options.layers):
        of = f"model.layers.{i}."
        weights = {name[len(of) : -len(".weight")]: value for name, value in stored.items() if name.startswith(of)}

        def scaled(name, value):
            return graph.constant(f"{i}.{name}", value)  # noqa: B023

        scale = scaled("input", weights["input_layernorm"])
        if residual is None:
            h, residual = graph.node("SimplifiedLayerNormalization", [x, scale], [f"{i}.h"], axis=-1, **norm), x
        else:
            h, residual = skip(graph, residual, x, scale, f"{i}.h")
        packed = np.concatenate([weights[f"self_attn.{name}_proj"] for name in ("q", "k", "v")])
        packed = graph.product(f"{i}.qkv", h, packed, 4)
        caches = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
        y = graph.node(
            "GroupQueryAttention",
            [packed, "", "", *caches, past, total, *tables],
            [f"{i}.attention", *(f"present.{i}.{kind}" for kind in ("key", "value"))],
            "com.microsoft",
            num_heads=options.heads,
            kv_num_heads=options.kv_heads,
            scale=head_size**-0.5,
            do_rotary=1,
            rotary_interleaved=0,
        )
        y = graph.product(f"{i}.o", y, weights["self_attn.o_proj"], 4)
        h, residual = skip(graph, residual, y, scaled("post", weights["post_attention_layernorm"]), f"{i}.h2")
        gate, up = (graph.product(f"{i}.{name}", h, weights[f"mlp.{name}_proj"], 4) for name in ("gate", "up"))
        gated = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], [f"{i}.sigmoid"])], [f"{i}.silu"])
        x = graph.product(f"{i}.down", graph.node("Mul", [gated, up], [f"{i}.inner"]), weights["mlp.down_proj"], 4)
    h, _ = skip(graph, residual, x, graph.constant("norm", stored["model.norm.weight"]), "h")
    h = graph.node("Gather", [h, graph.constant("end", np.array([-1], np.int64))], ["h_end"], axis=1)
    graph.product("head", h, stored["model.embed_tokens.weight"], 8, "logits")

    cache = ["batch", options.kv_heads, "past", head_size]
    inputs = [("input_ids", "INT64", ["batch", "tokens"]), ("attention_mask", "INT64", ["batch", "total"])]
    outputs = [("logits", "FLOAT", ["batch", 1, options.vocabulary])]
    for i in range(options.layers):
        inputs += [(f"past_key_values.{i}.{kind}", "FLOAT", cache) for kind in ("key", "value")]
        outputs += [(f"present.{i}.{kind}", "FLOAT", cache) for kind in ("key", "value")]
    graph.save(folder, inputs, outputs)
    (folder / "genai_config.json").write_text(json.dumps(configuration(options, longest), indent=2))


def skip(graph, residual, x, scale, name):
    """The norm of a sum, and the sum."""
    outputs = [name, "", "", f"{name}.sum"]
    graph.node("SkipSimplifiedLayerNormalization", [residual, x, scale], outputs, "com.microsoft", epsilon=1e-5)
    return name, f"{name}.sum"


def configuration(options, longest):
    caches = {f"past_{kind}_names": f"past_key_values.%d.{kind}" for kind in ("key", "value")}
    presents = {f"present_{kind}_names": f"present.%d.{kind}" for kind in ("key", "value")}
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": options.width // options.heads,
        "hidden_size": options.width,
        "num_attention_heads": options.heads,
        "num_hidden_layers": options.layers,
        "num_key_value_heads": options.kv_heads,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **caches},
        "outputs": {"logits": "logits", **presents},
    }
    model = {
        "type": "llama",
        "vocab_size": options.vocabulary,
        "context_length": longest,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "decoder": decoder,
    }
    return {"model": model, "search": {"max_length": longest, "past_present_share_buffer": True}}
