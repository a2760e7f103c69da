#!/usr/bin/env python3
"""test_kernels.py [LIBRARY]: the kernels of the Python wheel against NumPy, and as operators where PyTorch is installed, on
its CPU and, where there is one, on a GPU. Without LIBRARY the installed wheel is tested. With TEGULA_DEVICE=sim calls on
host memory run in the simulator. Exits with 77 without NumPy."""
import ctypes
import importlib.util
import os
import pathlib
import sys
import unittest

try:
    import numpy
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
torch = None
if importlib.util.find_spec("torch"):
    import torch

if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import tegula
    kernels = library = tegula.load(sys.argv.pop(1), namespace="tegula" if torch else None)
else:
    from tegula import kernels
    library = kernels.library
RANDOM = numpy.random.default_rng(0)


def drawn(*shape, dtype=numpy.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def softmax(x):
    e = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def weights_of(q, k, is_causal):
    """Weights in double precision; q, k have the same heads."""
    scores = q @ k.swapaxes(-1, -2) / numpy.sqrt(q.shape[-1])
    if is_causal:
        rows, columns = numpy.indices(scores.shape[-2:])
        scores = numpy.where(rows >= columns, scores, -numpy.inf)
    return softmax(scores)


def with_heads_of(q, *others):
    """In double precision, and with the keys and values of each head of q."""
    return [numpy.repeat(t.astype(numpy.float64), q.shape[1] // t.shape[1], axis=1) for t in (q, *others)]


def attention(q, k, v, is_causal):
    q, k, v = with_heads_of(q, k, v)
    return weights_of(q, k, is_causal) @ v


def attention_gradients(q, k, v, grad_o, is_causal):
    """For one head of keys."""
    q, k, v, grad_o = with_heads_of(q, k, v, grad_o)
    p = weights_of(q, k, is_causal)
    dp = grad_o @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / numpy.sqrt(q.shape[-1])
    of_keys = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ grad_o
    return ds @ k, *(t.sum(axis=1, keepdims=True) for t in of_keys)


class Numpy(unittest.TestCase):
    def close(self, got, want, tolerance):
        numpy.testing.assert_allclose(got.astype(numpy.float64), want, rtol=tolerance, atol=tolerance)

    def test_matmul(self):
        for dtype, tolerance in ((numpy.float32, 1e-4), (numpy.float16, 2e-2)):
            a, b, c = drawn(70, 48, dtype=dtype), drawn(48, 56, dtype=dtype), numpy.zeros((70, 56), dtype)
            kernels.matmul(a, b, c)
            self.close(c, a.astype(numpy.float64) @ b.astype(numpy.float64), tolerance)

    def test_matmul_backward(self):
        a, b, grad_c = drawn(20, 48), drawn(48, 32), drawn(20, 32)
        grad_a, grad_b = numpy.zeros_like(a), numpy.zeros_like(b)
        kernels.matmul_backward(grad_c, a, b, grad_a, grad_b)
        self.close(grad_a, grad_c @ b.T, 1e-4)
        self.close(grad_b, a.T @ grad_c, 1e-4)

    def test_softmax(self):
        x, y = drawn(5, 200), numpy.zeros((5, 200), numpy.float32)
        kernels.softmax(x, y)
        self.close(y, softmax(x), 1e-5)
        grad_y, grad_x = drawn(5, 200), numpy.zeros_like(x)
        kernels.softmax_backward(grad_y, y, grad_x)
        self.close(grad_x, y * (grad_y - (y * grad_y).sum(axis=1, keepdims=True)), 1e-5)

    def test_rms_norm(self):
        x, weight, y, rstd = drawn(5, 96), drawn(96), numpy.zeros((5, 96), numpy.float32), numpy.zeros(5, numpy.float32)
        factor = 1 / numpy.sqrt((x.astype(numpy.float64) ** 2).mean(axis=1, keepdims=True) + 1e-5)
        kernels.rms_norm(x, weight, 1e-5, y)
        self.close(y, x * factor * weight, 1e-5)
        kernels.rms_norm(x=x, weight=weight, epsilon=1e-5, y=y, rstd=rstd)
        self.close(rstd, factor[:, 0], 1e-5)
        grad_y, grad_x, grad_weight = drawn(5, 96), numpy.zeros_like(x), numpy.zeros_like(weight)
        kernels.rms_norm_backward(grad_y, x, weight, rstd, grad_x, grad_weight)
        scaled = grad_y * weight
        self.close(grad_x, factor * (scaled - x * factor ** 2 * (scaled * x).mean(axis=1, keepdims=True)), 1e-4)
        self.close(grad_weight, (grad_y * x * factor).sum(axis=0), 1e-4)

    def test_attention(self):
        q, k, v = (drawn(1, heads, 40, 16, dtype=numpy.float16) for heads in (2, 1, 1))
        for kernel, is_causal in ((kernels.attention, False), (kernels.causal_attention, True)):
            o, lse = numpy.zeros_like(q), numpy.zeros(q.shape[:3], numpy.float32)
            kernel(q, k, v, o, lse)
            self.close(o, attention(q, k, v, is_causal), 1e-2)
            self.assertTrue(numpy.isfinite(lse).all())
            grads, grad_o = [numpy.zeros_like(t) for t in (q, k, v)], drawn(*o.shape, dtype=numpy.float16)
            backward = getattr(kernels, kernel.name + "_backward")
            backward(grad_o, None, q, k, v, o, lse, None, *grads)
            for got, want in zip(grads, attention_gradients(q, k, v, grad_o, is_causal)):
                self.close(got, want, 3e-2)

    def test_pages(self):
        """The keys of one request, appended to pages in another order, are those of a dense call."""
        q, k, v = (drawn(40, heads, 16, dtype=numpy.float16) for heads in (2, 1, 1))
        caches = [numpy.zeros((4, 16, 1, 16), numpy.float16) for _ in "kv"]
        batch = numpy.array([0, 40], numpy.int32), numpy.array([40], numpy.int32), 40
        table, o = numpy.array([[2, 0, 3]], numpy.int32), numpy.zeros_like(q)
        kernels.append(k, v, *caches, *batch, table)
        kernels.paged_attention(q, *caches, *batch, o, table)
        want = attention(*(t.swapaxes(0, 1)[None] for t in (q, k, v)), True)
        self.close(o, want[0].swapaxes(0, 1), 1e-2)

    def test_errors(self):
        with self.assertRaises(ValueError):
            kernels.softmax(drawn(5, 8), numpy.zeros((5, 9), numpy.float32))
        with self.assertRaisesRegex(AttributeError, "exports no conv; it exports append, attention"):
            kernels.conv

    @unittest.skipIf(os.environ.get("TEGULA_DEVICE") != "sim", "not in the simulator")
    def test_runs_in_the_simulator(self):
        x = drawn(3, 64)
        kernels.softmax(x, numpy.zeros_like(x))
        text = ctypes.create_string_buffer(1 << 16)
        library.api.tegula_report(text, ctypes.c_size_t(len(text)))
        self.assertRegex(text.value.decode(), r"\bsim\b")


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        cls.ops = torch.ops.tegula
        cls.devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()

    def test_values(self):
        close = torch.testing.assert_close
        for device in self.devices:
            a, b = torch.randn(70, 48, device=device), torch.randn(48, 56, device=device)
            close(self.ops.matmul(a, b), (a.double() @ b.double()).float(), atol=1e-3, rtol=1e-3)
            close(self.ops.softmax(a), torch.softmax(a, 1), atol=1e-5, rtol=1e-5)
            weight = torch.randn(48, device=device)
            close(self.ops.rms_norm(a, weight, 1e-5)[0], a * (a.square().mean(1, keepdim=True) + 1e-5).rsqrt() * weight,
                  atol=1e-5, rtol=1e-5)
            q, k, v = torch.randn(3, 1, 2, 128, 64, device=device).to(torch.bfloat16)
            reference = torch.nn.functional.scaled_dot_product_attention
            for op, is_causal in ((self.ops.attention, False), (self.ops.causal_attention, True)):
                close(op(q, k, v)[0].float(), reference(q.float(), k.float(), v.float(), is_causal=is_causal), atol=2e-2, rtol=2e-2)

    def test_gradients(self):
        def rms_norm(x, weight):
            return x * (x.square().mean(1, keepdim=True) + 1e-5).rsqrt() * weight

        cases = {"matmul": (lambda a, b: a @ b, lambda a, b: self.ops.matmul(a, b), ((20, 48), (48, 32))),
                 "softmax": (lambda x: torch.softmax(x, 1), lambda x: self.ops.softmax(x), ((20, 48),)),
                 "rms_norm": (rms_norm, lambda x, w: self.ops.rms_norm(x, w, 1e-5)[0], ((20, 48), (48,)))}
        for device in self.devices:
            for name, (reference, ours, shapes) in cases.items():
                inputs = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
                y = reference(*inputs)
                grad = torch.randn_like(y)
                want = torch.autograd.grad(y, inputs, grad)
                for g, w in zip(torch.autograd.grad(ours(*inputs), inputs, grad), want):
                    torch.testing.assert_close(g, w, atol=1e-3, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}")

    def test_gradients_of_attention(self):
        reference = torch.nn.functional.scaled_dot_product_attention
        for device in self.devices:
            for op, is_causal in ((self.ops.attention, False), (self.ops.causal_attention, True)):
                inputs = [torch.randn(2, heads, 48, 64, device=device).to(torch.bfloat16).requires_grad_() for heads in (4, 2, 2)]
                doubles = [t.detach().double().requires_grad_() for t in inputs]
                grad = torch.randn(2, 4, 48, 64, device=device).to(torch.bfloat16)
                want = torch.autograd.grad(reference(*doubles, is_causal=is_causal, enable_gqa=True), doubles, grad.double())
                for g, w in zip(torch.autograd.grad(op(*inputs)[0], inputs, grad), want):
                    self.assertLess(((g.double() - w).norm() / w.norm()).item(), 2e-2)

    def test_compiled(self):
        for device in self.devices:
            x = torch.randn(16, 64, device=device)
            self.assertEqual(set(torch.library.opcheck(self.ops.softmax, (x,)).values()), {"SUCCESS"})
            compiled = torch.compile(lambda t: self.ops.softmax(t * 2) + 1, fullgraph=True)
            torch.testing.assert_close(compiled(x), torch.softmax(x * 2, 1) + 1, atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    if torch is not None:
        print("torch", torch.__version__, torch.cuda.get_device_name() if torch.cuda.is_available() else "without a GPU")
    unittest.main()
