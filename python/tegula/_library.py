"""Loads libraries that export callables."""
import ctypes
import inspect
import os
import struct

from . import _bundled, _c, _dlpack
from ._errors import Failure, raise_last

_ACCESS = {_c.IN: "read", _c.OUT: "written", _c.INOUT: "read and written"}


class Param:
    """A parameter: name, kind, access, rank, optional, dtype (a name, or None for any), dims (names, or none)."""

    def __init__(self, raw):
        self.name = raw.name.decode().replace(".", "_")
        self.kind, self.access, self.rank, self.optional = raw.kind, raw.access, raw.rank, bool(raw.optional)
        self.dtype = _c.DTYPES.get((raw.dtype.code, raw.dtype.bits))
        self.dims = tuple(raw.dims.decode().split())
        if len(self.dims) != self.rank:
            self.dims = ()

    @property
    def is_tensor(self):
        return self.kind == _c.TENSOR

    @property
    def is_output(self):
        return self.is_tensor and self.access == _c.OUT

    def __str__(self):
        dtype = self.dtype or "any type"
        if self.is_tensor:
            text = f"tensor of {dtype}, [{', '.join(self.dims or '?' * self.rank)}], {_ACCESS[self.access]}"
        else:
            text = f"pointer to {dtype}" if self.kind == _c.POINTER else dtype
        return f"{self.name}: {text}" + (", or None" if self.optional else "")


class _DocOfInstance:
    """A docstring to which each instance adds its parameters, read when they are needed."""

    def __init__(self, text):
        self.text = inspect.cleandoc(text)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.text
        try:
            params = [f"    {p}" for p in instance.params]
        except Failure as error:
            return f"{self.text}\n{error}"
        return "\n".join([f"{instance.name}({', '.join(p.name for p in instance.params)})", "", *params, "", self.text])


class Exported:
    __doc__ = _DocOfInstance("""A callable of a library: `f(x, 0.5, y)` in the order of `params`, or by their names.

    Tensors are objects with `__dlpack__`; outputs are passed, too, and written. None omits an optional argument.
    `stream` is the CUstream (an integer) that a GPU's work is queued on; for PyTorch's tensors the current one.
    """)

    def __init__(self, library, name):
        self.library, self.name, self._api = library, name, library.api
        function = getattr(library.api, "tegula_export_" + name)
        function.restype = ctypes.c_void_p
        self.handle = function()

    def _signature(self):
        signature = self._api.tegula_signature(self.handle)
        if not signature:
            raise_last(self._api)
        return signature.contents

    @property
    def params(self):
        params = self.__dict__.get("_params")
        if params is None:
            raw = self._signature()
            params = self._params = tuple(Param(raw.params[i]) for i in range(raw.count))
        return params

    @property
    def backward(self):
        """Returns (name of the exported backward, names of the arguments that it takes from this callable), or None."""
        raw = self._signature()
        return (raw.backward.decode(), tuple(raw.saved.decode().split())) if raw.backward else None

    def __repr__(self):
        return f"<tegula.Exported {self.name}({', '.join(p.name for p in self.params)})>"

    def _in_order(self, args, named):
        if len(args) > len(self.params):
            raise TypeError(f"{self.name} takes {len(self.params)} arguments, not {len(args)}")
        values = list(args)
        for p in self.params[len(args):]:
            if p.name not in named and not p.optional:
                raise TypeError(f"{self.name} lacks the argument {p.name}")
            values.append(named.pop(p.name, None))
        if named:
            raise TypeError(f"{self.name} has no parameter {', '.join(named)}")
        return values

    def __call__(self, *args, stream=None, **named):
        values = self._in_order(args, named)
        if stream is None:
            stream = _stream_of(values)
        packed, kept = [], []
        for p, value in zip(self.params, values):
            packed.append(_packed(self.name, p, value, stream, kept))
        if self._api.tegula_call(self.handle, b"".join(packed), len(packed), stream):
            raise_last(self._api)


def _stream_of(values):
    """Returns the stream of the first GPU tensor: PyTorch's current stream, the legacy stream for others."""
    for value in values:
        if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == _c.CUDA:
            if type(value).__module__.split(".")[0] == "torch":
                import torch
                return torch.cuda.current_stream(value.device).cuda_stream
            return 0
    return 0


def _packed(name, param, value, stream, kept):
    """Returns the bytes of a TegulaArg. Adds objects that must outlive the call to `kept`."""
    if value is None:
        return struct.pack("=IIQ", _c.NONE, 0, 0)
    if hasattr(value, "__dlpack__"):
        capsule = _dlpack.capsule_of(value, stream)
        address, is_read_only = _dlpack.of_capsule(capsule)
        if is_read_only and param.access != _c.IN:
            raise ValueError(f"argument {param.name} of {name} is written, but the tensor is read-only")
        kept.append(capsule)
        return struct.pack("=IIQ", _c.TENSOR, 0, address)
    if param.kind == _c.POINTER and isinstance(value, int):
        return struct.pack("=IIQ", _c.POINTER, 0, value)
    if isinstance(value, float):
        return struct.pack("=IId", _c.FLOAT, 0, value)
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's has no __index__
        value = bool(value)
    if isinstance(value, int) or hasattr(value, "__index__"):
        return struct.pack("=IIq", _c.INT, 0, int(value))
    if hasattr(value, "__float__"):
        return struct.pack("=IId", _c.FLOAT, 0, float(value))
    kind = type(value).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    raise TypeError(f"argument {param.name} of {name} is {article} {kind}: it is not a number and has no __dlpack__")


def _opened(path):
    _bundled.open_library()
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        if "is_built_with_another_version_of_tegula" not in str(error):
            raise
        raise ImportError(f"{path} was compiled with the headers of another version of Tegula than the libtegula.so "
                          "that is loaded with it: compile it again") from None


class Library:
    """The callables of one shared library, as attributes: `mine.scale`. `names` lists them."""

    def __init__(self, path):
        self.path = path
        self.api = _c.declare(_opened(path))
        if self.api.tegula_abi() != _c.ABI:
            raise ImportError(f"{path} has version {self.api.tegula_abi()} of the interface, this package {_c.ABI}")
        self._call_objects = None
        count = self.api.tegula_list(None, 0)
        every = (ctypes.c_char_p * count)()
        self.api.tegula_list(every, count)
        self._exported = {}
        for name in sorted(n.decode() for n in every):
            if hasattr(self.api, "tegula_export_" + name):
                self._exported[name] = Exported(self, name)

    def call_objects(self):
        """tegula_call_objects of the library."""
        if self._call_objects is None:
            self._call_objects = _c.declare_objects(self.path)
        return self._call_objects

    @property
    def names(self):
        return tuple(self._exported)

    def __dir__(self):
        return ["names", "path", *self._exported]

    def __getattr__(self, name):
        try:
            return self.__dict__["_exported"][name]
        except KeyError:
            raise AttributeError(f"{self.path} exports no {name}; it exports {', '.join(self.names)}") from None

    def __repr__(self):
        return f"<tegula.Library {self.path}: {', '.join(self.names)}>"


_libraries = {}
_registered = {}


def load(path, namespace=None):
    """Loads a shared library whose C++ uses TEGULA_EXPORT.

    With a namespace each callable becomes operators of PyTorch: `torch.ops.<namespace>.<name>_out` writes the outputs
    that it is given; `torch.ops.<namespace>.<name>` allocates and returns them, if the names of dimensions determine
    their shapes, and has a gradient, if one is exported.
    """
    path = os.fspath(path)
    if path not in _libraries:
        _libraries[path] = Library(path)
    library = _libraries[path]
    if namespace is not None and _registered.setdefault(namespace, {}).get(path) is None:
        try:
            from . import _torch
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError("namespace= makes operators of PyTorch, which is not installed: install torch, "
                              "or call load() without namespace=") from None
        _registered[namespace][path] = _torch.register(library, namespace)
    return library
