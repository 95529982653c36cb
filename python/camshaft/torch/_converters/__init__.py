"""What adds the nodes of PyTorch's operators to networks, by family. Each file registers its own (see _registry.py)."""
