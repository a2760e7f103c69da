#!/usr/bin/env python3
"""test_tvm_ffi.py LIBRARY: the symbols of TVM-FFI, called by its own Python package on NumPy's arrays. Exits with 77
where either is not installed."""
import sys
import unittest

try:
    import numpy
    import tvm_ffi
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIBRARY = sys.argv.pop(1)
module = tvm_ffi.load_module(LIBRARY)


def array(*shape):
    return numpy.arange(numpy.prod(shape), dtype=numpy.float32).reshape(shape)


class TvmFfi(unittest.TestCase):
    def test_values(self):
        x, y = array(4, 6), numpy.zeros((4, 6), numpy.float32)
        module.affine(tvm_ffi.from_dlpack(x), 0.5, -3, 2, True, 1, 4.0, tvm_ffi.from_dlpack(y))
        numpy.testing.assert_array_equal(y, -2 * (0.5 * x + 5))
        out, factor = numpy.zeros(5, numpy.float32), numpy.full(1, 2, numpy.float32)
        module.bias(*(tvm_ffi.from_dlpack(t) for t in (array(5), factor, out)), None)
        numpy.testing.assert_array_equal(out, 2 * array(5))

    def test_errors(self):
        x = tvm_ffi.from_dlpack(array(4))
        with self.assertRaisesRegex(ValueError, "T1803: add takes 3 arguments, not 2"):
            module.add(x, x)
        with self.assertRaisesRegex(TypeError, "T1811: argument y of add"):
            module.add(x, "text", x)
        with self.assertRaisesRegex(RuntimeError, "no configuration file"):
            module.thrown(x)


if __name__ == "__main__":
    unittest.main()
