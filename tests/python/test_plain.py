#!/usr/bin/env python3
"""test_plain.py LIBRARY: python/tegula without PyTorch, on tensors of its own and, where it is installed, of NumPy."""
import ctypes
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import tegula  # noqa: E402
from tegula import _c  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

LIBRARY = sys.argv.pop(1)
PyCapsule_New = ctypes.pythonapi.PyCapsule_New
PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
PyCapsule_New.restype = ctypes.py_object


class Managed(ctypes.Structure):
    _fields_ = [("tensor", _c.DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Array:
    """Floats, or elements of another type, that any DLPack consumer can read; before DLPack 1.0 or as of it."""

    def __init__(self, values, shape=None, ctype=ctypes.c_float, code=(2, 32), versioned=False, read_only=False):
        self.values = (ctype * len(values))(*values)
        self.shape = (ctypes.c_int64 * len(shape or [0]))(*(shape or [len(values)]))
        tensor = _c.DLTensor(ctypes.addressof(self.values), _c.DLDevice(_c.CPU, 0), len(self.shape), _c.DLDataType(*code, 1),
                             self.shape, None, 0)
        self.is_versioned = versioned
        self.managed = (_c.DLManagedTensorVersioned(1, 1, None, None, int(read_only), tensor) if versioned
                        else Managed(tensor, None, None))

    def __dlpack_device__(self):
        return _c.CPU, 0

    def __dlpack__(self, **given):
        if given and not self.is_versioned:
            raise TypeError("an old producer")
        name = b"dltensor_versioned" if self.is_versioned else b"dltensor"
        return PyCapsule_New(ctypes.addressof(self.managed), name, None)

    def __iter__(self):
        return iter(self.values)


mine = tegula.load(LIBRARY)


class Calls(unittest.TestCase):
    def test_lists_what_the_library_exports(self):
        self.assertIn("add", mine.names)
        self.assertIn("add", dir(mine))
        self.assertEqual(repr(mine.add), "<tegula.Exported add(x, y, z)>")
        self.assertEqual([(p.name, p.dims, p.dtype) for p in mine.window_attention.params][3:],
                         [("o", ("B", "H", "Q", "E"), None), ("lse", ("B", "H", "Q"), "float32")])
        self.assertEqual(mine.square.backward, ("square_backward", ("x",)))
        self.assertIs(tegula.load(LIBRARY), mine)

    def test_calls_by_position_and_by_name(self):
        for versioned in (False, True):
            z = Array([0] * 3, versioned=versioned)
            mine.add(Array([1, 2, 3], versioned=versioned), Array([10, 20, 30], versioned=versioned), z)
            self.assertEqual(list(z), [11, 22, 33])
        mine.add(z=z, y=Array([1, 1, 1]), x=Array([2, 2, 2]))
        self.assertEqual(list(z), [3, 3, 3])

    def test_takes_numbers_of_every_kind(self):
        y = Array([0] * 4, [2, 2])
        mine.affine(Array([1, 2, 3, 4], [2, 2]), 0.5, -3, 2, True, 1, 4, y)
        self.assertEqual(list(y), [-2 * (0.5 * x - 3 + 8) for x in (1, 2, 3, 4)])

    def test_takes_pointers_and_leaves_out_what_is_optional(self):
        x, y, factor = Array([1, 2, 3]), Array([0] * 3), Array([2])
        mine.bias(x, factor, y)
        self.assertEqual(list(y), [2, 4, 6])
        mine.bias(x, factor, y, None)
        mine.bias(x, factor, y, Array([1, 1, 1]))
        self.assertEqual(list(y), [3, 5, 7])

    def test_threads_have_errors_of_their_own(self):
        seen = []

        def fail(count):
            try:
                mine.add(Array([0] * count), Array([0] * (count + 1)), Array([0] * count))
            except ValueError as error:
                seen.append(str(count) in str(error))

        threads = [threading.Thread(target=fail, args=(n,)) for n in range(100, 108)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(seen, [True] * 8)


class Errors(unittest.TestCase):
    def test_arguments_are_value_errors(self):
        with self.assertRaises(ValueError) as caught:
            mine.add(Array([1]), Array([1], ctype=ctypes.c_int32, code=(0, 32)), Array([1]))
        self.assertIsInstance(caught.exception, tegula.ArgumentError)
        self.assertEqual(caught.exception.code, _c.ARGUMENT)
        self.assertRegex(str(caught.exception), r"(?s)^T0702: argument y of add has elements of i32.*"
                                                r"\nhint: cast.*\nat .*exports.cpp:\d+$")

    def test_others_are_run_time_errors(self):
        with self.assertRaisesRegex(RuntimeError, "no configuration file") as caught:
            mine.thrown(Array([1]))
        self.assertIsInstance(caught.exception, tegula.Error)
        with self.assertRaisesRegex(RuntimeError, "T02"):
            mine.refused(Array([1]), Array([1]))

    def test_mistakes_that_need_no_library(self):
        x = Array([1])
        for call, text in ((lambda: mine.add(x, x, x, x), "takes 3 arguments, not 4"),
                           (lambda: mine.add(x, x), "lacks the argument z"),
                           (lambda: mine.add(x, x, x, w=x), "no further parameter w"),
                           (lambda: mine.add(x, "y", x), "argument y of add is a str")):
            with self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "argument z of add is written, and is read only"):
            mine.add(x, x, Array([1], versioned=True, read_only=True))
        with self.assertRaisesRegex(AttributeError, "exports no subtract; it exports add"):
            mine.subtract
        with self.assertRaises(OSError):
            tegula.load("/nowhere/libmine.so")


@unittest.skipIf(numpy is None, "NumPy is not installed")
class Numpy(unittest.TestCase):
    def test_arrays_and_scalars(self):
        x = numpy.arange(20, dtype=numpy.float32).reshape(4, 5)
        y = numpy.zeros((8, 5), dtype=numpy.float32)[::2]
        mine.affine(x, numpy.float32(0.5), numpy.int64(3), 1, numpy.bool_(False), 0, numpy.float64(1), y)
        numpy.testing.assert_array_equal(y, x * 0.5 + 4)

    def test_transposed(self):
        x = numpy.arange(20, dtype=numpy.float32).reshape(4, 5)
        y = numpy.zeros((5, 4), dtype=numpy.float32)
        mine.square(x.T, y)
        numpy.testing.assert_array_equal(y, x.T ** 2)


if __name__ == "__main__":
    unittest.main()
