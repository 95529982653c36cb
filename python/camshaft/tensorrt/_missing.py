"""What TensorRT has and Camshaft lacks: names that programs import, which say so when they are used."""


def _missing_class(name, why):
    def refuse(self, *arguments, **named):
        raise NotImplementedError(f"{name}: {why}")

    return type(name, (), {"__doc__": f"Raises NotImplementedError: {why}", "__init__": refuse})


class _Base:
    """A class to derive from, whose calls nobody makes here."""

    def __init__(self):
        pass


class IAlgorithmSelector(_Base):
    """Chooses tactics: it is not asked. A lock file fixes them (camshaft.build(…, lock=…))."""


class IGpuAllocator(_Base):
    """Allocates a GPU's memory: it is not asked."""


class IGpuAsyncAllocator(IGpuAllocator):
    """Likewise."""


class IAlgorithm(_Base):
    """What IAlgorithmSelector would be given."""


class IAlgorithmContext(_Base):
    """Likewise."""


class IAlgorithmIOInfo(_Base):
    """Likewise."""


class IAlgorithmVariant(_Base):
    """Likewise."""
