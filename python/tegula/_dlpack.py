"""Converts tensors of any library to DLTensors, for the duration of a call."""
import ctypes
import functools

from . import _c

capsules = ctypes.pythonapi
capsules.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsules.PyCapsule_IsValid.restype = ctypes.c_int
capsules.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsules.PyCapsule_GetPointer.restype = ctypes.c_void_p

_READ_ONLY = 1
_DTYPE_CODES = {name: key for key, name in _c.DTYPES.items()}


def of_capsule(capsule):
    """Returns (address of the DLTensor, whether it is read-only). The capsule keeps the tensor alive."""
    if capsules.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        managed = _c.DLManagedTensorVersioned.from_address(capsules.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
        return ctypes.addressof(managed.dl_tensor), bool(managed.flags & _READ_ONLY)
    return capsules.PyCapsule_GetPointer(capsule, b"dltensor"), False  # its first member is the DLTensor


def capsule_of(tensor, stream):
    """Returns a capsule; if the tensor is on a GPU, the producer orders its work before `stream`."""
    device, _ = tensor.__dlpack_device__()
    given = {"stream": stream if stream else 1} if device == _c.CUDA else {}
    try:
        return tensor.__dlpack__(max_version=(1, 1), **given)
    except TypeError:  # producers before DLPack 1.0
        return tensor.__dlpack__(**given)


@functools.lru_cache(maxsize=4096)
def described(pointer, dtype, device_type, device_id, shape, strides):
    """Returns (address, owner) of a DLTensor with torch's own description of a tensor."""
    rank = len(shape)
    sizes = (ctypes.c_int64 * rank)(*shape)
    steps = (ctypes.c_int64 * rank)(*strides)
    code, bits = _DTYPE_CODES[dtype]
    tensor = _c.DLTensor(pointer, _c.DLDevice(device_type, device_id), rank, _c.DLDataType(code, bits, 1), sizes, steps, 0)
    return ctypes.addressof(tensor), (tensor, sizes, steps)
