"""What TensorRT has and Camshaft lacks: names that programs import, which say so when they are used."""


def _missing_class(name, why):
    def refuse(self, *arguments, **named):
        raise NotImplementedError(f"{name}: {why}")

    return type(name, (), {"__doc__": f"Raises NotImplementedError: {why}", "__init__": refuse})


_NETWORKS = "convert the model to ONNX, and parse it with OnnxParser"
#: Names that TensorRT 8 to 10 have, and programs that ask for them get an AttributeError which says what to do.
_NOT_THERE = {
    **dict.fromkeys(("CaffeParser", "ICaffePluginFactoryV2", "UffParser", "UffInputOrder", "FieldMap"), _NETWORKS),
    **dict.fromkeys(
        ("IRNNv2Layer", "RNNOperation", "RNNDirection", "RNNInputMode", "RNNGateType"),
        "add_loop(), or ONNX's LSTM, GRU and RNN, are recurrent layers here",
    ),
    **dict.fromkeys(("ConsistencyChecker", "SafetyScope"), "there are no safety engines"),
    **dict.fromkeys(
        ("IPluginV3QuickAOTBuild", "ISymExpr", "ISymExprs"),
        "kernels that are compiled ahead of time are not run: write an @tensorrt.plugin.impl",
    ),
    **dict.fromkeys(("IMoELayer", "MoEActType"), "write experts as products of a gathered weight, or give a plugin"),
    **dict.fromkeys(("IKVCacheUpdateLayer", "KVCacheMode"), "give the cache back as an output"),
    **dict.fromkeys(("IDistCollectiveLayer", "CollectiveOperation"), "an engine runs on one device"),
    "EngineStat": "streamable_weights_size has the bytes of an engine's weights",
}


def _missing_name(name):
    """The error for a name that the module has not."""
    reason = _NOT_THERE.get(name)
    return AttributeError(
        f"camshaft.tensorrt has no {name}: {reason}" if reason else f"camshaft.tensorrt has no attribute '{name}'"
    )


class _Base:
    """A class to derive from, whose calls nobody makes here."""

    def __init__(self):
        pass


class IGpuAllocator(_Base):
    """Allocates a GPU's memory: it is not asked."""


class IGpuAsyncAllocator(IGpuAllocator):
    """Likewise."""
