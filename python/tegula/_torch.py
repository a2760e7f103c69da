"""Registers exported callables as PyTorch operators by torch.library's define and impl, which have less overhead per call than custom_op."""
import ctypes
import itertools
import keyword
import struct
import warnings

import torch

from . import _c, _dlpack
from ._errors import Failure, raise_last

_SCHEMA_TYPES = {_c.INT: "int", _c.FLOAT: "float"}
_FORMS = {_c.INT: "q", _c.FLOAT: "d"}


def _exchange_table():
    """Returns the address of torch's DLPackExchangeAPI, through which C reads tensors and the current stream, or None."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    address = _dlpack.capsules.PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
    major = ctypes.c_uint32.from_address(address).value
    return address if major == 1 else None


def _dimension(text):
    """Returns (name or None, factor, term) of a dimension: "M", "8", "M*8", "M+1"."""
    if text.isdigit():
        return None, 0, int(text)
    name, times, factor = text.partition("*")
    if times:
        return name, int(factor), 0
    name, _, term = text.partition("+")
    return name, 1, int(term or 0)


def _extent(text, extents):
    name, factor, term = _dimension(text)
    return term if name is None else extents[name] * factor + term


def _identifier(name):
    return name + "_" if keyword.iskeyword(name) else name


def _has_aligned_rows(t):
    """Returns true if rows are contiguous and begin at multiples of 16 bytes. False for an expanded tensor, such as the gradient of a sum."""
    *strides, last = t.stride() or (0,)
    return last == 1 and all(s and s * t.itemsize % 16 == 0 for s in strides) and t.storage_offset() * t.itemsize % 16 == 0


class _Call:
    """Calls one callable with tensors and numbers in the order of its parameters."""

    def __init__(self, exported):
        self.exported, self.api = exported, exported.library.api
        self.table = _exchange_table()
        if self.table is not None:
            self.call_objects = exported.library.call_objects()
        # One TegulaArg per parameter. The kind is packed in each call, because optional arguments may be omitted.
        self.packer = struct.Struct("=" + "".join("II" + _FORMS.get(p.kind, "Q") for p in exported.params))
        self.kinds = [p.kind for p in exported.params]

    def __call__(self, *values):
        values += (None,) * (len(self.kinds) - len(values))  # torch omits trailing arguments that equal their defaults
        if self.table is not None:
            status = self.call_objects(self.exported.handle, self._packed(values, _c.OBJECT, id), len(values), self.table)
        else:
            kept = []
            status = self.api.tegula_call(self.exported.handle, self._packed(values, _c.TENSOR, self._describer(kept)),
                                          len(values), self._stream(values))
        if status:
            raise_last(self.api)

    def _packed(self, values, tensor_kind, address_of):
        flat = []
        for kind, value in zip(self.kinds, values):
            if kind in _FORMS:
                flat += (kind, 0, value)
            elif value is None:
                flat += (_c.NONE, 0, 0)
            else:
                flat += (tensor_kind, 0, address_of(value))
        return self.packer.pack(*flat)

    @staticmethod
    def _describer(kept):
        def address_of(t):
            is_cuda = t.device.type == "cuda"
            address, keeper = _dlpack.described(t.data_ptr(), str(t.dtype).rpartition(".")[2],
                                                _c.CUDA if is_cuda else _c.CPU, t.device.index if is_cuda else 0,
                                                tuple(t.shape), t.stride())
            kept.append(keeper)
            return address
        return address_of

    @staticmethod
    def _stream(values):
        for v in values:
            if isinstance(v, torch.Tensor):
                return torch.cuda.current_stream(v.device).cuda_stream if v.device.type == "cuda" else None
        return None


class Operator:
    """The operators of one callable."""

    def __init__(self, library, namespace, exported, torch_library):
        self.exported, self.namespace, self.torch_library = exported, namespace, torch_library
        self.params = exported.params
        self.call = _Call(exported)
        backward = exported.backward
        self.backward = library._exported.get(backward[0]) if backward else None
        self.saved = backward[1] if backward else ()
        self.inputs = [p for p in self.params if not p.is_output]
        # An optional output is computed if the backward needs it, an optional gradient if the caller wants it.
        self.choices = [p for p in self.params if p.is_output and p.optional and p.name.startswith("grad_")]
        self.outputs = [p for p in self.params if p.is_output and (not p.optional or p.name in self.saved or p in self.choices)]
        self._define(exported.name + "_out", self._out_schema(), self.call, lambda *args: None)
        self.has_functional = self._shapes_follow()
        if self.has_functional:
            self._define(exported.name, self._functional_schema(), self._run, self._allocated)
            for key in ("AutocastCPU", "AutocastCUDA"):
                torch_library.impl(exported.name, self._autocast, key)

    def _define(self, name, schema, run, fake):
        lib = self.torch_library
        lib.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            lib.impl(name, run, key)
        torch.library.register_fake(f"{self.namespace}::{name}", fake, lib=lib)

    def _type(self, param, written):
        if param.kind == _c.INT:
            return "bool" if param.dtype == "bool" else "int"
        if param.kind == _c.FLOAT:
            return "float"
        mark = f"({chr(ord('a') + written)}!)" if written is not None else ""
        return f"Tensor{mark}" + ("?" if param.optional else "")

    def _schema(self, params, marks_writes, *more):
        parts, written = [], 0
        last_required = len(params) if more else max((i for i, p in enumerate(params) if not p.optional), default=-1)
        for i, p in enumerate(params):
            is_written = marks_writes and (p.kind == _c.POINTER or (p.is_tensor and p.access != _c.IN))
            text = f"{self._type(p, written if is_written else None)} {_identifier(p.name)}"
            written += is_written
            parts.append(text + ("=None" if p.optional and i > last_required else ""))
        return "(" + ", ".join([*parts, *more]) + ")"

    def _out_schema(self):
        return self._schema(self.params, True) + " -> ()"

    def _functional_schema(self):
        results = ", ".join(["Tensor"] * len(self.outputs))
        mask = (f"bool[{len(self.choices)}] output_mask",) if self.choices else ()  # as in torch's backward operators
        return self._schema(self.inputs, False, *mask) + (f" -> {results}" if len(self.outputs) == 1 else f" -> ({results})")

    def _shapes_follow(self):
        """Returns true if the inputs name all dimensions of the outputs, and only outputs are written."""
        if not self.outputs or any(p.kind == _c.POINTER or p.access == _c.INOUT for p in self.params):
            return False
        known = {None} | {d for p in self.inputs if not p.optional for d in p.dims}
        has_type = any(p.is_tensor and p.dtype is None for p in self.inputs)
        return all(len(p.dims) == p.rank and known.issuperset(_dimension(d)[0] for d in p.dims) and (p.dtype or has_type) for p in self.outputs)

    def _maker(self, inputs):
        """Returns a function that makes a tensor for a parameter whose shape follows from `inputs`, which may be symbolic."""
        extents, dtype, first = {}, None, None
        for p, t in zip(self.inputs, inputs):
            if not p.is_tensor or t is None:
                continue
            first = t if first is None else first
            if p.dtype is None and dtype is None:
                dtype = t.dtype
            for name, extent in zip(p.dims, t.shape):
                extents.setdefault(name, extent)
        return lambda p, make: make([_extent(d, extents) for d in p.dims], dtype=getattr(torch, p.dtype) if p.dtype else dtype,
                                    device=first.device)

    def _allocated(self, *inputs):
        """Returns outputs for these inputs; None for gradients that the mask, the last argument, excludes."""
        made, mask = self._maker(inputs), inputs[len(self.inputs)] if self.choices else ()
        unwanted = [p for p, is_wanted in zip(self.choices, mask) if not is_wanted]
        outputs = [None if p in unwanted else made(p, torch.empty) for p in self.outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run(self, *inputs):
        outputs = self._allocated(*inputs)
        given = dict(zip((p.name for p in self.inputs), inputs))
        given.update(zip((p.name for p in self.outputs), outputs if isinstance(outputs, tuple) else (outputs,)))
        self.call(*(given.get(p.name) for p in self.params))
        return outputs

    def _autocast(self, *inputs):
        """Casts tensors whose types must be equal to autocast's type if they are not."""
        of_any_type = [p.is_tensor and p.dtype is None and t is not None for p, t in zip(self.inputs, inputs)]
        device = next(t for t in inputs if isinstance(t, torch.Tensor)).device.type
        if len({t.dtype for t, is_any in zip(inputs, of_any_type) if is_any}) > 1:
            dtype = torch.get_autocast_dtype(device)
            inputs = [t.to(dtype) if is_any and t.is_floating_point() else t for t, is_any in itertools.zip_longest(inputs, of_any_type)]
        with torch.autocast(device, enabled=False):
            return getattr(getattr(torch.ops, self.namespace), self.exported.name)(*inputs)

    def add_gradient(self, operators):
        """Registers the functional operator of the backward as the gradient, so that compilers can trace it. Returns that operator."""
        if not self.has_functional or self.backward is None:
            return None
        other, described = operators.get(self.backward.name), f"the backward {self.backward.name} of {self.exported.name}"
        if other is None or not other.has_functional:
            raise ValueError(f"{described} has outputs whose shapes do not follow from its inputs: name their dimensions")
        of_outputs = ["grad_" + p.name for p in self.outputs]
        for p in other.inputs:
            if p.name not in self.saved and p.name not in of_outputs and not p.optional:
                raise ValueError(f"{described} takes {p.name}, which is neither saved nor the gradient of an output")
        self._register_autograd(self._backward_by(other, of_outputs), self._setup(other))
        return other

    def _setup(self, other):
        names, taken = [p.name for p in self.inputs + self.outputs], {p.name for p in other.inputs}

        def setup_context(ctx, inputs, output):
            output = output if isinstance(output, tuple) else (output,)
            values = dict(zip(names, (*inputs, *output)))
            saved = {n: values[n] for n in self.saved}
            ctx.tensors = [n for n, v in saved.items() if isinstance(v, torch.Tensor)]
            ctx.others = {n: v for n, v in saved.items() if not isinstance(v, torch.Tensor)}
            ctx.save_for_backward(*(saved[n] for n in ctx.tensors))
            ctx.set_materialize_grads(False)  # outputs that are only saved for the backward have no gradient
            ctx.mark_non_differentiable(*(t for p, t in zip(self.outputs, output) if "grad_" + p.name not in taken))

        return setup_context

    def _backward_by(self, other, of_outputs):
        run = getattr(getattr(torch.ops, self.namespace), other.exported.name)
        required = {p.name for p in other.inputs if not p.optional}
        of_inputs = ["grad_" + p.name for p in self.inputs]

        def backward(ctx, *grads):
            given = {n: g if _has_aligned_rows(g) else g.contiguous() for n, g in zip(of_outputs, grads) if g is not None}
            if not given:
                return (None,) * len(self.inputs)
            given.update(ctx.others)
            given.update(zip(ctx.tensors, ctx.saved_tensors))
            values = [given.get(p.name) for p in other.inputs]
            made = other._maker(values)
            values = [made(p, torch.zeros) if v is None and p.name in required else v for p, v in zip(other.inputs, values)]
            needed = {n for n, is_needed in zip(of_inputs, ctx.needs_input_grad) if is_needed}
            mask = ([p.name in needed for p in other.choices],) if other.choices else ()
            results = run(*values, *mask)
            by_name = dict(zip((p.name for p in other.outputs), results if isinstance(results, tuple) else (results,)))
            return tuple(by_name.get(n) for n in of_inputs)

        return backward

    def _register_autograd(self, backward, setup_context=None):
        torch.library.register_autograd(f"{self.namespace}::{self.exported.name}", backward, setup_context=setup_context,
                                        lib=self.torch_library)

    def refuse_gradient(self):
        """Makes double backward an error; by default torch warns and omits the gradient."""
        def refuse(ctx, *grads):
            raise NotImplementedError(f"{self.exported.name} has no derivative: double backward is not supported")

        self._register_autograd(refuse)


def register(library, namespace):
    """Registers operators for the callables of the library; warns about each callable that cannot be one."""
    torch_library = torch.library.Library(namespace, "FRAGMENT")
    operators = {}
    for name in library.names:
        try:
            operators[name] = Operator(library, namespace, library._exported[name], torch_library)
        except Failure as error:
            warnings.warn(f"{name} of {library.path} cannot be a PyTorch operator: {error}", stacklevel=3)
    for backward in {operator.add_gradient(operators) for operator in operators.values()} - {None}:
        if backward.backward is None:
            backward.refuse_gradient()
    return torch_library, operators
