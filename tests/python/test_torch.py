#!/usr/bin/env python3
"""test_torch.py LIBRARY: operators of PyTorch on CPU tensors: values, fake tensors, gradients, torch.compile. Exits with
77 where PyTorch is not installed."""
import pathlib
import sys
import unittest
import unittest.mock
import warnings

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import attention_gradients  # noqa: E402
import tegula  # noqa: E402
from attention_gradients import Recorded, attention  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from tegula import _torch  # noqa: E402

LIBRARY = sys.argv.pop(1)
with warnings.catch_warnings(record=True) as SAID:
    warnings.simplefilter("always")
    mine = tegula.load(LIBRARY, namespace="mine")
ops = torch.ops.mine
HAS_TABLE = _torch._exchange_table() is not None


class Operators(unittest.TestCase):
    def test_schemas(self):
        self.assertEqual(str(ops.affine_out.default._schema),
                         "mine::affine_out(Tensor x, float factor, int offset, int repeat, bool twice, int sign, "
                         "float step, Tensor(a!) y) -> ()")
        self.assertEqual(str(ops.square.default._schema), "mine::square(Tensor x) -> Tensor")
        self.assertEqual(str(ops.bias_out.default._schema),
                         "mine::bias_out(Tensor arg0, Tensor(a!) arg1, Tensor(b!) arg2, Tensor? arg3=None) -> ()")
        self.assertEqual(str(ops.add_into_out.default._schema), "mine::add_into_out(Tensor x, Tensor(a!) sum) -> ()")
        for name in ("bias", "columns", "add_into"):  # shapes do not follow, twice; an input is written
            self.assertFalse(hasattr(ops, name), name)

    def test_says_what_is_no_operator(self):
        text = "\n".join(str(w.message) for w in SAID)
        self.assertRegex(text, "thrown of .* cannot be a PyTorch operator: the callable threw an exception: no configuration file")
        self.assertFalse(hasattr(ops, "thrown_out"))

    def test_values(self):
        x, y = torch.randn(20, 30), torch.empty(30, 20)
        ops.square_out(x.T, y)
        torch.testing.assert_close(y, x.T ** 2)
        torch.testing.assert_close(ops.square(x[::2, 1:]), x[::2, 1:] ** 2)
        torch.testing.assert_close(ops.affine(x, 0.5, -3, 2, True, 1, 4.0), -2 * (0.5 * x + 5))
        total = torch.ones(5)
        ops.add_into_out(torch.arange(5.0), total)
        torch.testing.assert_close(total, torch.arange(5.0) + 1)
        y = torch.empty(5, 3)
        ops.columns_out(torch.arange(5.0), y)
        torch.testing.assert_close(y, torch.arange(5.0)[:, None].expand(5, 3))
        ops.bias_out(torch.ones(3), torch.tensor([2.0]), total[:3], None)
        torch.testing.assert_close(total[:3], torch.full((3,), 2.0))

    def test_attention(self):
        q, k, v = torch.randn(3, 1, 2, 40, 16).to(torch.bfloat16)
        sinks = torch.randn(2)
        for given in ((), (sinks,)):
            o, lse = ops.window_attention(q, k, v, *given)
            self.assertEqual(o.dtype, torch.bfloat16)
            want_o, want_lse = attention(q, k, v, *given)
            torch.testing.assert_close(o.double(), want_o, atol=2e-2, rtol=2e-2)
            torch.testing.assert_close(lse.double(), want_lse, atol=2e-2, rtol=2e-2)

    def test_without_the_exchange_table(self):
        with unittest.mock.patch.object(_torch, "_exchange_table", lambda: None):
            call = _torch._Call(mine.affine)
        x, y = torch.randn(4, 6), torch.empty(6, 4).T
        for _ in range(2):
            call(x, 0.5, -3, 2, True, 1, 4.0, y)
            torch.testing.assert_close(y, -2 * (0.5 * x + 5))

    def test_plain_calls(self):
        x, y = torch.randn(4, 6), torch.empty(4, 6)
        mine.square(x, y)
        torch.testing.assert_close(y, x * x)

    def test_errors(self):
        x = torch.ones(3, 3)
        with self.assertRaisesRegex(ValueError, "T0702: argument x of square has elements of f64"):
            ops.square(x.double())
        with self.assertRaisesRegex(ValueError, "T0709: N is 3"):
            ops.square_out(x, torch.empty(3, 4))
        with self.assertRaisesRegex(RuntimeError, "T02"):
            ops.refused_out(torch.ones(3), torch.ones(3))
        with self.assertRaisesRegex(ValueError, "T1805"):
            ops.affine(x, 0.5, 2 ** 40, 2, True, 1, 4.0)


def experts(x, logits, up, down, k=2):
    """The exported layer by PyTorch: 4 experts of which a token has the 2 with the most softmax, and a shared one."""
    p, ids = torch.topk(torch.softmax(logits, -1), k, -1)
    each = []
    for e in range(up.shape[0]):
        gate, value = (x.float() @ up[e].float().T).chunk(2, -1)
        each.append((torch.nn.functional.silu(gate) * value) @ down[e].float().T)
    y = each[-1]
    for e, out in enumerate(each[:-1]):
        y = y + (p * (ids == e)).sum(-1, keepdim=True) * out
    return y


class Experts(unittest.TestCase):
    """A layer of experts, whose forward has outputs for its backward alone."""

    def inputs(self, tokens=9, hidden=32, inner=16, gradients=False):
        torch.manual_seed(1)
        tensors = [torch.randn(tokens, hidden).to(torch.bfloat16), torch.randn(tokens, 4),
                   (torch.randn(5, 2 * inner, hidden) * hidden ** -0.5).to(torch.bfloat16),
                   (torch.randn(5, hidden, inner) * inner ** -0.5).to(torch.bfloat16)]
        return [t.requires_grad_(gradients) for t in tensors]

    def test_schema(self):
        self.assertEqual(str(ops.experts.default._schema),
                         "mine::experts(Tensor x, Tensor logits, Tensor up, Tensor down) -> Tensor")
        with FakeTensorMode():
            x, z, up, down = (torch.empty(*shape, dtype=torch.bfloat16) for shape in ((9, 32), (9, 4), (5, 32, 32), (5, 32, 16)))
            outputs = ops.experts_training(x, z.float(), up, down)
        self.assertEqual([tuple(o.shape) for o in outputs],
                         [(9, 32), (9, 3), (9, 3), (9, 3), (27,), (6,), (4, 6), (27, 32)])

    def test_values(self):
        tensors = self.inputs()
        want = experts(*tensors)
        for got in (ops.experts(*tensors), ops.experts_training(*tensors)[0]):
            torch.testing.assert_close(got.float(), want, atol=3e-2, rtol=3e-2)

    def gradients_of(self, layer):
        tensors = self.inputs(gradients=True)
        torch.manual_seed(2)
        (layer(*tensors).float() * torch.randn(9, 32)).sum().backward()
        return [t.grad.float() for t in tensors]

    def test_gradients(self):
        for got, want in zip(self.gradients_of(lambda *t: ops.experts_training(*t)[0]), self.gradients_of(experts)):
            torch.testing.assert_close(got, want, atol=5e-2, rtol=5e-2)

    def test_only_gradients_that_are_needed(self):
        x, logits, up, down = self.inputs()
        y, *saved = ops.experts_training(x, logits, up.requires_grad_(), down.requires_grad_())
        self.assertTrue(y.requires_grad and not any(t.requires_grad for t in saved))
        with Recorded() as recorded:
            y.float().sum().backward()
        self.assertEqual(recorded.masks, [[False, True, True]])  # that of x is always computed
        self.assertTrue(logits.grad is None and x.grad is None and up.grad is not None)

    def test_opcheck(self):
        self.assertEqual(set(torch.library.opcheck(ops.experts, self.inputs()).values()), {"SUCCESS"})

    def test_compiled_gradients(self):
        torch._dynamo.reset()
        compiled = torch.compile(lambda *t: ops.experts_training(*t)[0] * 1.0, fullgraph=True, backend="aot_eager")
        for got, want in zip(self.gradients_of(compiled), self.gradients_of(experts)):
            torch.testing.assert_close(got, want, atol=5e-2, rtol=5e-2)


class Pages(unittest.TestCase):
    """Steps of three requests with caches in pages of 16 rows, of which the last one has no query."""

    LENGTHS, QUERIES = (33, 5, 20), (1, 3, 0)

    def setUp(self):
        torch.manual_seed(0)
        self.caches = [torch.randn(9, 16, 2, 16).to(torch.bfloat16) for _ in "kv"]
        self.table = torch.tensor([[4, 0, 7], [8, -1, -1], [2, 3, -1]], dtype=torch.int32)
        offsets = torch.tensor([0, 1, 4, 4], dtype=torch.int32)
        self.batch = offsets, torch.tensor(self.LENGTHS, dtype=torch.int32), 3
        self.q = torch.randn(4, 4, 16).to(torch.bfloat16)
        self.k, self.v = torch.randn(2, 4, 2, 16).to(torch.bfloat16)

    def want(self, caches):
        """The attention of each request, in double precision."""
        o, first = [], 0
        for pages, length, queries in zip(self.table, self.LENGTHS, self.QUERIES):
            k, v = (c[pages.clamp(min=0).long()].flatten(0, 1)[:length].double().repeat_interleave(2, 1) for c in caches)
            q = self.q[first:first + queries].double()
            scores = torch.einsum("qhd,khd->hqk", q, k) / 4
            hidden = torch.arange(length)[None] > torch.arange(length - queries, length)[:, None]
            o.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v))
            first += queries
        return torch.cat(o)

    def step(self, q, k, v, *caches):
        ops.append_out(k, v, *caches, *self.batch, self.table)
        return ops.paged_attention(q, *caches, *self.batch, self.table)

    def test_schemas(self):
        self.assertEqual(str(ops.paged_attention.default._schema),
                         "mine::paged_attention(Tensor q, Tensor k_cache, Tensor v_cache, Tensor q_offsets, Tensor kv_lengths, "
                         "int max_seqlen_q, Tensor? table=None, Tensor? sinks=None) -> Tensor")
        self.assertEqual(str(ops.append_out.default._schema),
                         "mine::append_out(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor q_offsets, "
                         "Tensor kv_lengths, int max_seqlen_q, Tensor? table=None, Tensor? slots=None, Tensor? cos=None, "
                         "Tensor? sin=None, Tensor? positions=None, Tensor(c!)? q=None) -> ()")

    def test_values(self):
        before = [c.clone() for c in self.caches]
        o = self.step(self.q, self.k, self.v, *self.caches)
        for cache, old, rows in zip(self.caches, before, (self.k, self.v)):
            old[7, 0], old[8, 2:5] = rows[0], rows[1:]  # positions 32, and 2 to 4
            torch.testing.assert_close(cache, old, rtol=0, atol=0)
        torch.testing.assert_close(o.double(), self.want(self.caches), atol=2e-2, rtol=2e-2)
        written, lse = torch.empty_like(o), torch.empty(4, 4)
        ops.paged_attention_out(self.q, *self.caches, *self.batch, written, self.table, lse)
        torch.testing.assert_close(written, o, rtol=0, atol=0)
        self.assertTrue(torch.isfinite(lse).all())

    def test_rotation(self):
        angles = torch.arange(40)[:, None] * torch.arange(1, 9) / 10
        positions = torch.tensor([32, 2, 3, 4])
        cos, sin = angles.cos()[positions, None], angles.sin()[positions, None]

        def rotated(x):
            a, b = x.float().chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

        q, slots = self.q.clone(), torch.tensor([7 * 16, -1, 8 * 16 + 3, 8 * 16 + 4])
        ops.append_out(self.k, self.v, *self.caches, *self.batch, None, slots, angles.cos(), angles.sin(), None, q)
        torch.testing.assert_close(q.float(), rotated(self.q), atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(self.caches[0][8, 3:5].float(), rotated(self.k)[2:], atol=1e-2, rtol=1e-2)

    def test_opcheck(self):
        self.assertEqual(set(torch.library.opcheck(ops.paged_attention, (self.q, *self.caches, *self.batch, self.table)).values()),
                         {"SUCCESS"})
        self.assertEqual(set(torch.library.opcheck(ops.append_out, (self.k, self.v, *self.caches, *self.batch, self.table)).values()),
                         {"SUCCESS"})

    def test_compiled(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.step, fullgraph=True, backend="aot_eager")
        caches = [c.clone() for c in self.caches]
        torch.testing.assert_close(compiled(self.q, self.k, self.v, *caches), self.step(self.q, self.k, self.v, *self.caches))
        for a, b in zip(caches, self.caches):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


class AttentionGradients(attention_gradients.AttentionGradients, unittest.TestCase):
    """On the CPU."""


class Checks(unittest.TestCase):
    def test_opcheck(self):
        x = torch.randn(8, 12, requires_grad=True)
        self.assertEqual(set(torch.library.opcheck(ops.square, (x,)).values()), {"SUCCESS"})
        plain = torch.randn(8, 12)
        self.assertEqual(set(torch.library.opcheck(ops.square_out, (plain, torch.empty(8, 12))).values()), {"SUCCESS"})
        self.assertEqual(set(torch.library.opcheck(ops.affine, (plain, 0.5, -3, 2, True, 1, 4.0)).values()), {"SUCCESS"})
        q = torch.randn(1, 2, 24, 16, dtype=torch.bfloat16)
        self.assertEqual(set(torch.library.opcheck(ops.window_attention, (q, q, q)).values()), {"SUCCESS"})

    def test_gradients(self):
        x = torch.randn(8, 12, requires_grad=True)
        (ops.square(x) * 3).sum().backward()
        torch.testing.assert_close(x.grad, 6 * x.detach())
        x.grad = None
        ops.square(x).sum().backward()  # its gradient is expanded from one number
        torch.testing.assert_close(x.grad, 2 * x.detach())

    def test_fake_tensors(self):
        with FakeTensorMode():
            q, k, v = (torch.empty(2, h, n, d, dtype=torch.float16) for h, n, d in ((8, 5, 64), (4, 7, 64), (4, 7, 32)))
            o, lse = ops.window_attention(q, k, v)
        self.assertEqual((tuple(o.shape), o.dtype), ((2, 8, 5, 32), torch.float16))
        self.assertEqual((tuple(lse.shape), lse.dtype), ((2, 8, 5), torch.float32))


class Compiled(unittest.TestCase):
    """The graph is whole, and its results and gradients are eager's."""

    def compiled(self, f, **options):
        torch._dynamo.reset()
        return torch.compile(f, fullgraph=True, backend="aot_eager", **options)

    def test_gradients(self):
        def f(x):
            return (ops.square(x) * 2 + 1).sum()

        x = torch.randn(8, 12, requires_grad=True)
        y = self.compiled(f)(x)
        y.backward()
        torch.testing.assert_close(y, f(x))
        torch.testing.assert_close(x.grad, 4 * x.detach())

    def test_writes(self):
        def f(x):
            y = torch.empty_like(x)
            ops.square_out(x, y)
            total = torch.zeros(x.shape[0])
            ops.add_into_out(y[:, 0], total)
            return y + 1, total

        x = torch.randn(8, 12)
        for got, wanted in zip(self.compiled(f)(x), f(x)):
            torch.testing.assert_close(got, wanted)

    def test_lengths_that_vary(self):
        def f(q, k, v):
            return ops.window_attention(q, k, v)[0] * 2

        g = self.compiled(f, dynamic=True)
        for length in (24, 37, 64):
            q, k, v = torch.randn(3, 1, 2, length, 16).to(torch.bfloat16)
            torch.testing.assert_close(g(q, k, v), f(q, k, v))


if __name__ == "__main__":
    unittest.main()
