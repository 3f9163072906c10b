"""torch.torch_version: FlashInfer compares its own torch with old ones when it is imported."""

from packaging.version import Version as TorchVersion

__all__ = ["TorchVersion"]
__version__ = "2.14.0"
