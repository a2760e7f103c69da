"""Kernels of the library in the wheel: matmul, softmax, rms_norm, attention, causal_attention, paged_attention, append.

    from tegula import kernels
    kernels.softmax(x, y)                         # NumPy, CuPy, PyTorch; y is written

If PyTorch can be imported, they are also PyTorch operators with gradients:

    y = torch.ops.tegula.softmax(x)               # allocates y
    torch.ops.tegula.softmax_out(x, y)            # writes y

docs/packages.md lists their arguments.
"""
from ._bundled import FOLDER
from ._library import load

_PATH = FOLDER / "libtegula_python_kernels.so"
if not _PATH.exists():
    raise ImportError(f"{_PATH} does not exist: tegula.kernels is a part of the wheel that `make package` builds")
try:
    import torch  # noqa: F401
except ImportError:
    library = load(_PATH)
else:
    library = load(_PATH, namespace="tegula")


def __getattr__(name):
    return getattr(library, name)


def __dir__():
    return list(library.names)
