#!/usr/bin/env python3
"""test_plain.py LIBRARY: python/tegula without PyTorch, on tensors of its own and, where it is installed, of NumPy."""
import array
import ctypes
import importlib.util
import math
import pathlib
import pydoc
import struct
import sys
import threading
import unittest
from random import Random

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
        self.assertEqual(dir(mine), sorted(["names", "path", *mine.names]))
        self.assertEqual(repr(mine.add), "<tegula.Exported add(x, y, z)>")
        self.assertEqual([(p.name, p.dims, p.dtype) for p in mine.window_attention.params][3:],
                         [("o", ("B", "H", "Q", "E"), None), ("lse", ("B", "H", "Q"), "float32"), ("sinks", ("H",), "float32")])
        self.assertEqual(mine.square.backward, ("square_backward", ("x",)))
        self.assertIs(tegula.load(LIBRARY), mine)

    def test_help_has_the_types_of_the_parameters(self):
        text = pydoc.plain(pydoc.render_doc(mine.affine))
        for line in ("x: tensor of float32, [M, N], read", "factor: float", "twice: bool", "y: tensor of float32, [M, N], written"):
            self.assertIn(line, text)
        self.assertRegex(mine.bias.__doc__, r"(?s): pointer to float32\n.*: tensor of float32, \[\?\], read, or None")
        self.assertTrue(tegula.Exported.__doc__.startswith("A callable of a library"))

    @unittest.skipIf(importlib.util.find_spec("torch"), "PyTorch is installed")
    def test_a_namespace_needs_pytorch(self):
        for _ in range(2):
            with self.assertRaisesRegex(ImportError, "PyTorch, which is not installed: .* without namespace="):
                tegula.load(LIBRARY, namespace="mine")

    def test_refuses_a_library_of_another_version(self):
        stale = pathlib.Path(LIBRARY).with_name("libtegula_test_stale_exports.so")
        with self.assertRaisesRegex(ImportError, "another version of Tegula .*: compile it again"):
            tegula.load(stale)

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
                           (lambda: mine.add(x, x, x, w=x), "no parameter w"),
                           (lambda: mine.add(x, "y", x), "argument y of add is a str"),
                           (lambda: mine.add(x, array.array("f", [1]), x), "argument y of add is an array: it is not a number")):
            with self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "argument z of add is written, but the tensor is read-only"):
            mine.add(x, x, Array([1], versioned=True, read_only=True))
        with self.assertRaisesRegex(AttributeError, "exports no subtract; it exports add"):
            mine.subtract
        with self.assertRaises(OSError):
            tegula.load("/nowhere/libmine.so")


def halves(values, shape):
    """bf16 of floats that it holds."""
    return Array([struct.unpack("<I", struct.pack("<f", v))[0] >> 16 for v in values], shape, ctypes.c_uint16, (4, 16))


def floats(array):
    return [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in array]


def drawn(count, seed, unit=1 / 4):
    """A few multiples of `unit`, which bf16 holds."""
    random = Random(seed)
    return [random.randint(-6, 6) * unit for _ in range(count)]


class Gradients(unittest.TestCase):
    def assert_close(self, got, want):
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)))
        self.assertLess(error, 0.01 * math.sqrt(sum(b * b for b in want)))


class Experts(Gradients):
    """The layer that bench/train_moe.py trains, in small: outputs that only its backward takes, and gradients."""

    TOKENS, HIDDEN, INNER, EXPERTS, ALL, CHOICES = 3, 16, 8, 4, 5, 3

    def setUp(self):
        t, h, i, g = self.TOKENS, self.HIDDEN, self.INNER, self.ALL
        random = Random(2)  # no two logits of a token are equal: a difference would change its choice
        logits = [v / 4 for _ in range(t) for v in random.sample(range(-6, 7), self.EXPERTS)]
        self.values = {"x": drawn(t * h, 1), "logits": logits, "up": drawn(g * 2 * i * h, 3, 1 / 16),
                       "down": drawn(g * h * i, 4, 1 / 16)}
        shapes = {"x": [t, h], "logits": [t, self.EXPERTS], "up": [g, 2 * i, h], "down": [g, h, i]}
        self.inputs = {n: (Array if n == "logits" else halves)(v, shapes[n]) for n, v in self.values.items()}

    def outputs(self):
        t, rows = self.TOKENS, self.TOKENS * self.CHOICES

        def whole(*shape):
            return Array([-1] * math.prod(shape), list(shape), ctypes.c_int32, (0, 32))

        by_choice = [t, self.CHOICES]
        return {"y": halves([0] * t * self.HIDDEN, [t, self.HIDDEN]), "ids": whole(*by_choice), "weights": Array([0] * rows, by_choice),
                "row_of": whole(*by_choice), "slot_of": whole(rows), "offsets": whole(self.ALL + 1), "first_tiles": whole(4, self.ALL + 1),
                "hidden": halves([0] * rows * 2 * self.INNER, [rows, 2 * self.INNER])}

    def layer(self, values):
        """y in double precision: softmax, the best two, weights as they are, and the last expert for all."""
        h, i = self.HIDDEN, self.INNER
        y = []
        for t in range(self.TOKENS):
            z = values["logits"][t * self.EXPERTS:(t + 1) * self.EXPERTS]
            e = [math.exp(v) for v in z]
            best = sorted(range(self.EXPERTS), key=lambda n: (-z[n], n))[:2]
            chosen = [(n, e[n] / sum(e)) for n in best] + [(self.EXPERTS, 1.0)]
            x, row = values["x"][t * h:(t + 1) * h], [0.0] * h
            for n, weight in chosen:
                pre = [sum(a * b for a, b in zip(x, values["up"][(n * 2 * i + j) * h:])) for j in range(2 * i)]
                act = [g / (1 + math.exp(-g)) * u for g, u in zip(pre[:i], pre[i:])]
                for c in range(h):
                    row[c] += weight * sum(a * b for a, b in zip(act, values["down"][(n * h + c) * i:]))
            y += row
        return y

    def test_values_and_gradients(self):
        out = self.outputs()
        mine.experts_training(**self.inputs, **out)
        self.assert_close(floats(out["y"]), self.layer(self.values))
        self.assertEqual(list(out["offsets"])[-1], self.TOKENS * self.CHOICES)
        dy = drawn(self.TOKENS * self.HIDDEN, 5)
        saved = {n: v for n, v in out.items() if n != "y"}
        grads = {"grad_x": halves([0] * len(dy), [self.TOKENS, self.HIDDEN]), "grad_logits": Array([0] * 12, [self.TOKENS, self.EXPERTS]),
                 "grad_up": halves([0] * len(self.values["up"]), [self.ALL, 2 * self.INNER, self.HIDDEN]),
                 "grad_down": halves([0] * len(self.values["down"]), [self.ALL, self.HIDDEN, self.INNER])}
        mine.experts_backward(grad_y=halves(dy, [self.TOKENS, self.HIDDEN]), **self.inputs, **saved, **grads)
        for name, got in (("x", floats(grads["grad_x"])), ("logits", list(grads["grad_logits"]))):
            self.assert_close(got, self.differences(name, dy))

    def differences(self, name, dy, step=1e-5):
        """Central differences of <y, dy>."""
        found = []
        for n in range(len(self.values[name])):
            around = []
            for by in (step, -step):
                moved = {**self.values, name: [v + by * (m == n) for m, v in enumerate(self.values[name])]}
                around.append(sum(a * b for a, b in zip(self.layer(moved), dy)))
            found.append((around[0] - around[1]) / (2 * step))
        return found


class Attention(Gradients):
    """window_attention and its backward: groups of heads, sinks, and gradients of both results."""

    HEADS, KV_HEADS, LENGTH, DIM, WINDOW = 2, 1, 20, 8, 16

    def setUp(self):
        h, g, n, d = self.HEADS, self.KV_HEADS, self.LENGTH, self.DIM
        self.values = {"q": drawn(h * n * d, 1), "k": drawn(g * n * d, 2), "v": drawn(g * n * d, 3), "sinks": drawn(h, 4)}
        self.shapes = {"q": [1, h, n, d], "k": [1, g, n, d], "v": [1, g, n, d], "sinks": [h], "o": [1, h, n, d], "lse": [1, h, n]}
        self.inputs = {n: (Array if n == "sinks" else halves)(v, self.shapes[n]) for n, v in self.values.items()}
        self.outputs = {"o": self.empty("o"), "lse": self.empty("lse")}
        mine.window_attention(**self.inputs, **self.outputs)

    def empty(self, name):
        make = Array if name in ("sinks", "lse") else halves
        return make([0] * math.prod(self.shapes[name]), self.shapes[name])

    def results(self, values):
        """o and lse in double precision."""
        n, d = self.LENGTH, self.DIM
        o, lse = [], []
        for h in range(self.HEADS):
            for i in range(n):
                q, keys = values["q"][(h * n + i) * d:], range(max(0, i - self.WINDOW + 1), i + 1)
                weights = [math.exp(sum(a * b for a, b in zip(q[:d], values["k"][j * d:])) / math.sqrt(d)) for j in keys]
                total = sum(weights) + math.exp(values["sinks"][h])
                lse.append(math.log(total))
                o += [sum(w * values["v"][j * d + c] for w, j in zip(weights, keys)) / total for c in range(d)]
        return o, lse

    def backward(self, grads, wanted):
        results = {"grad_" + n: self.empty(n) for n in wanted}
        mine.window_attention_backward(**grads, **self.inputs, **self.outputs, **results)
        return {n: list(results["grad_" + n]) if n == "sinks" else floats(results["grad_" + n]) for n in wanted}

    def test_values_and_gradients(self):
        o, lse = self.results(self.values)
        self.assert_close(floats(self.outputs["o"]), o)
        self.assert_close(list(self.outputs["lse"]), lse)
        grads = {"grad_o": drawn(len(o), 5), "grad_lse": drawn(len(lse), 6)}
        given = {"grad_o": halves(grads["grad_o"], self.shapes["o"]), "grad_lse": Array(grads["grad_lse"], self.shapes["lse"])}
        for left_out in ((), ("grad_lse",)):
            of = [v for n in grads for v in (grads[n] if n not in left_out else [0] * len(grads[n]))]
            got = self.backward({n: g for n, g in given.items() if n not in left_out}, self.inputs)
            for name in self.inputs:
                some = range(0, len(self.values[name]), 7)
                self.assert_close([got[name][n] for n in some], [self.difference(name, n, of) for n in some])

    def difference(self, name, n, of, step=1e-5):
        """The central difference of <o, grad_o> + <lse, grad_lse>."""
        around = []
        for by in (step, -step):
            moved = list(self.values[name])
            moved[n] += by
            o, lse = self.results({**self.values, name: moved})
            around.append(sum(a * b for a, b in zip(o + lse, of)))
        return (around[0] - around[1]) / (2 * step)

    def test_only_wanted_gradients(self):
        grads = {"grad_o": halves(drawn(self.HEADS * self.LENGTH * self.DIM, 5), self.shapes["o"])}
        every = self.backward(grads, self.inputs)
        for name in ("k", "sinks"):
            self.assertEqual(self.backward(grads, [name])[name], every[name])

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, r"T1662: attention backward: lse cannot be .*\n(.|\n)*exports.cpp"):
            self.outputs["lse"] = None
            self.backward({"grad_o": halves(drawn(self.HEADS * self.LENGTH * self.DIM, 5), self.shapes["o"])}, ["q"])
        with self.assertRaisesRegex(TypeError, "window_attention_backward lacks the argument grad_o"):
            self.backward({}, ["q"])


class Pages(Gradients):
    """A step of two requests: append to pages of four rows, and attention to them."""

    LENGTHS, HEADS, DIM, ROWS, PAGES = (6, 3), 2, 8, 4, 5
    TABLE = ((3, 0), (4, 9))  # the second request needs one page

    def setUp(self):
        tokens, row = sum(self.LENGTHS), self.DIM
        self.values = {n: drawn(tokens * heads * row, i) for i, (n, heads) in enumerate((("q", 2), ("k", 1), ("v", 1)))}
        self.tensors = {n: halves(v, [tokens, len(v) // tokens // row, row]) for n, v in self.values.items()}
        self.batch = [Array(v, None, ctypes.c_int32, (0, 32)) for v in ((0, 6, 9), self.LENGTHS)] + [max(self.LENGTHS)]
        self.table = Array([p for row in self.TABLE for p in row], [2, 2], ctypes.c_int32, (0, 32))

    def caches(self):
        return [halves([0] * self.PAGES * self.ROWS * self.DIM, [self.PAGES, self.ROWS, 1, self.DIM]) for _ in "kv"]

    def want(self):
        """o in double precision; a query sees the keys of its request up to its own."""
        o, d, first = [], self.DIM, 0
        for length in self.LENGTHS:
            for i in range(first, first + length):
                for h in range(self.HEADS):
                    q, keys = self.values["q"][(i * self.HEADS + h) * d:][:d], range(first, i + 1)
                    weights = [math.exp(sum(a * b for a, b in zip(q, self.values["k"][j * d:])) / math.sqrt(d)) for j in keys]
                    o += [sum(w * self.values["v"][j * d + c] for w, j in zip(weights, keys)) / sum(weights) for c in range(d)]
            first += length
        return o

    def test_values(self):
        t, caches = self.tensors, self.caches()
        mine.append(t["k"], t["v"], *caches, *self.batch, table=self.table)
        o = halves([0] * len(self.values["q"]), list(t["q"].shape))
        lse = Array([0] * sum(self.LENGTHS) * self.HEADS, [sum(self.LENGTHS), self.HEADS])
        mine.paged_attention(t["q"], *caches, *self.batch, o, table=self.table, lse=lse)
        self.assert_close(floats(o), self.want())
        self.assertTrue(all(map(math.isfinite, lse)))

    def test_slots(self):
        by_table, by_slot = self.caches(), self.caches()
        slots = [self.TABLE[b][i // self.ROWS] * self.ROWS + i % self.ROWS for b, n in enumerate(self.LENGTHS) for i in range(n)]
        mine.append(self.tensors["k"], self.tensors["v"], *by_table, *self.batch, table=self.table)
        mine.append(self.tensors["k"], self.tensors["v"], *by_slot, *self.batch,
                    slots=Array(slots, None, ctypes.c_int64, (0, 64)))
        for a, b in zip(by_table, by_slot):
            self.assertEqual(list(a), list(b))

    def test_rotates_queries_in_place(self):
        half, length = self.DIM // 2, max(self.LENGTHS)
        angles = [Array([f(p * 0.3 + i) for p in range(length) for i in range(half)], [length, half]) for f in (math.cos, math.sin)]
        mine.append(self.tensors["k"], self.tensors["v"], *self.caches(), *self.batch, table=self.table, cos=angles[0],
                    sin=angles[1], q=self.tensors["q"])
        want = list(self.values["q"])
        for row in range(0, len(want), self.DIM):
            token = row // self.DIM // self.HEADS
            position = token - (self.LENGTHS[0] if token >= self.LENGTHS[0] else 0)
            for i in range(half):
                a, b, angle = want[row + i], want[row + half + i], position * 0.3 + i
                want[row + i], want[row + half + i] = (a * math.cos(angle) - b * math.sin(angle),
                                                       b * math.cos(angle) + a * math.sin(angle))
        self.assert_close(floats(self.tensors["q"]), want)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, r"T1682: append: (.|\n)*exports.cpp"):
            mine.append(self.tensors["k"], self.tensors["v"], *self.caches(), *self.batch,
                        table=Array([0], [1, 1], ctypes.c_int32, (0, 32)))
        with self.assertRaisesRegex(ValueError, "T1662: append: V cannot be"):
            mine.append(self.tensors["k"], self.tensors["q"], *self.caches(), *self.batch, table=self.table)


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
