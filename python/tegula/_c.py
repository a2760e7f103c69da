"""tegula.h for ctypes."""
import ctypes

ABI = 1
ARGUMENT = 6
NONE, TENSOR, INT, FLOAT, POINTER, OBJECT = range(6)
IN, OUT, INOUT = range(3)
CPU, CUDA = 1, 2

# (code, bits) of DLDataType -> name, the same as in torch and NumPy if they have the type.
DTYPES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
          (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
          (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
          (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int32), ("dtype", DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("dl_tensor", DLTensor)]


class TegulaError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("driver_code", ctypes.c_int32), ("text", ctypes.c_char_p),
                ("hint", ctypes.c_char_p), ("where", ctypes.c_char_p)]


class TegulaParam(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("access", ctypes.c_uint8), ("kind", ctypes.c_uint8),
                ("rank", ctypes.c_uint8), ("optional", ctypes.c_uint8), ("dtype", DLDataType),
                ("dims", ctypes.c_char_p)]


class TegulaSignature(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("count", ctypes.c_int32),
                ("params", ctypes.POINTER(TegulaParam)), ("backward", ctypes.c_char_p), ("saved", ctypes.c_char_p)]


def declare(lib):
    """Declares the types of the functions of a loaded library (ctypes.CDLL)."""
    handle, code = ctypes.c_void_p, ctypes.c_int
    lib.tegula_abi.restype = ctypes.c_int32
    lib.tegula_last_error.restype = ctypes.POINTER(TegulaError)
    lib.tegula_list.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int32]
    lib.tegula_list.restype = ctypes.c_int32
    lib.tegula_signature.argtypes = [handle]
    lib.tegula_signature.restype = ctypes.POINTER(TegulaSignature)
    # Arguments are packed bytes: an array of TegulaArg.
    lib.tegula_call.argtypes = [handle, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p]
    lib.tegula_call.restype = code
    return lib


def declare_objects(path):
    """Returns the function that takes Python objects. It needs the interpreter lock, which ctypes.CDLL releases."""
    lib = ctypes.PyDLL(path)
    lib.tegula_call_objects.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p]
    lib.tegula_call_objects.restype = ctypes.c_int
    return lib.tegula_call_objects
