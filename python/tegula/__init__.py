"""Calls callables that C++ libraries export with TEGULA_EXPORT, using ctypes only.

    mine = tegula.load("libmine.so")                      # NumPy, CuPy, PyTorch: anything with DLPack
    mine.scale(x, 0.5, y)                                 # y is written

    tegula.load("libmine.so", namespace="mine")           # PyTorch operators, too
    y = torch.ops.mine.scale(x, 0.5)                      # allocates its outputs; torch.ops.mine.scale_out writes into y

docs/c-interface.md documents both.
"""
from ._errors import ArgumentError, Error
from ._library import Exported, Library, load

__all__ = ["ArgumentError", "Error", "Exported", "Library", "load"]
