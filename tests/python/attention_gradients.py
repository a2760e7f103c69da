"""Tests of window_attention's gradients through torch.ops.mine on any device; test_torch.py and gpu_torch.py run them."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

ops = torch.ops.mine


def attention(q, k, v, sinks=None, window=16):
    """(o, lse) of window_attention in double precision."""
    q, k, v = q.double(), *(t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    rows = torch.arange(q.shape[-2], device=q.device)[:, None] - torch.arange(k.shape[-2], device=q.device)[None, :]
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill((rows < 0) | (rows >= window), -torch.inf)
    sums = scores if sinks is None else torch.cat([scores, sinks.double()[:, None, None].expand(*scores.shape[:3], 1)], -1)
    lse = torch.logsumexp(sums, -1)
    return torch.exp(scores - lse[..., None]) @ v, lse


class Recorded(TorchDispatchMode):
    """Keeps the masks that backward operators are called with."""

    def __init__(self):
        super().__init__()
        self.masks = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.name().endswith("_backward"):
            self.masks.append(args[-1])
        return function(*args, **(kwargs or {}))


class AttentionGradients:
    """Compares gradients of window_attention with those of the same function in double precision."""

    device = "cpu"
    length, dim = 24, 16
    compilers = ({"backend": "aot_eager"}, {"backend": "inductor"}, {"backend": "aot_eager", "dynamic": True})

    def setUp(self):
        torch.set_default_device(self.device)
        self.addCleanup(torch.set_default_device, None)

    def inputs(self, needed=(True, True, True), more=0, dtype=torch.bfloat16):
        torch.manual_seed(1)
        shapes = [(2, heads, self.length + more, self.dim) for heads in (4, 2, 2)]
        return [torch.randn(s).to(dtype).requires_grad_(n) for s, n in zip(shapes, needed)]

    def gradients(self, layer, inputs, loss):
        return torch.autograd.grad(loss(*layer(*inputs)), [t for t in inputs if t.requires_grad], materialize_grads=True)

    def check(self, inputs, loss, layer=lambda *t: ops.window_attention(*t), want=attention):
        doubles = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
        got, want = self.gradients(layer, inputs, loss), self.gradients(want, doubles, loss)
        for t, g, w in zip([t for t in inputs if t.requires_grad], got, want):
            self.assertEqual((g.shape, g.dtype), (t.shape, t.dtype))
            self.close(g, w)
        return got

    def close(self, got, want):
        self.assertLessEqual((got.double() - want.double()).norm().item(), 2e-2 * want.norm().item())

    @staticmethod
    def weighted(o, lse):
        torch.manual_seed(2)
        return (o.double() * torch.randn(o.shape).double()).sum()

    @staticmethod
    def weighted_both(o, lse):
        torch.manual_seed(3)
        return AttentionGradients.weighted(o, lse) + (lse.double() * torch.randn(lse.shape).double()).sum()

    def test_schema(self):
        self.assertEqual(str(ops.window_attention.default._schema),
                         "mine::window_attention(Tensor q, Tensor k, Tensor v, Tensor? sinks=None) -> (Tensor, Tensor)")
        self.assertEqual(str(ops.window_attention_backward.default._schema),
                         "mine::window_attention_backward(Tensor grad_o, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor o, "
                         "Tensor? lse, Tensor? sinks, bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor)")

    def test_values(self):
        for dtype in (torch.bfloat16, torch.float16):
            self.check(self.inputs(dtype=dtype), self.weighted)
        self.check(self.inputs(), self.weighted_both)
        self.check(self.inputs(), lambda o, lse: lse.double().square().sum())  # o has no gradient

    def test_sinks(self):
        sinks = torch.randn(4, requires_grad=True)
        self.check([*self.inputs(), sinks], self.weighted_both)
        self.check([*self.inputs((False,) * 3), sinks], self.weighted)
        self.check([*self.inputs(), sinks.detach()], self.weighted)

    def test_only_what_is_needed(self):
        whole = self.check(self.inputs(), self.weighted)
        for needed in ((True, False, False), (False, True, False), (False, False, True), (False, True, True)):
            with self.subTest(needed=needed), Recorded() as recorded:
                some = self.gradients(ops.window_attention, self.inputs(needed), self.weighted)
                self.assertEqual(recorded.masks, [[*needed, False]])
                for got, want in zip(some, [g for g, n in zip(whole, needed) if n]):
                    self.close(got, want)

    def test_strides_of_the_gradient(self):
        self.check(self.inputs(), lambda o, lse: o.double().sum())  # expanded
        self.check(self.inputs(), lambda o, lse: o.transpose(1, 2).reshape(2, -1, 4 * self.dim).double().square().sum())
        self.check(self.inputs(), lambda o, lse: o.double()[:, :, ::2].square().sum() + lse.double().mean())

    def test_strides_of_the_inputs(self):
        torch.manual_seed(4)
        qkv = torch.randn(2, self.length, 3, 4, self.dim).to(torch.bfloat16).requires_grad_()

        def layer(of):
            return lambda t: of(*t.permute(2, 0, 3, 1, 4))

        self.check([qkv], self.weighted, layer(ops.window_attention), layer(attention))

    def test_without_softmax(self):
        def relu_attention(q, k, v):
            k, v = (t.repeat_interleave(2, 1) for t in (k, v))
            return (torch.relu(q @ k.mT * self.dim ** -0.5) @ v,)

        self.check(self.inputs(), lambda o: self.weighted(o, None), lambda *t: (ops.relu_attention(*t),), relu_attention)

    def test_captured_parameters(self):
        def want(q, k, v, bias, factors):
            k, v = (t.repeat_interleave(2, 1) for t in (k, v))
            scores = q @ k.mT * self.dim ** -0.5 * factors[:, None, None] + bias
            return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)

        def layer(q, k, v, bias, factors):
            return ops.biased_attention(q, k, v, None, bias, factors)

        for more in (0, 8):  # calls with other extents bind other tensors
            q, k, v = self.inputs(more=more)
            bias = torch.randn(2, 4, q.shape[2], k.shape[2]).to(torch.bfloat16).requires_grad_()
            factors = torch.rand(4, requires_grad=True)
            self.check([q, k, v, bias, factors], self.weighted_both, layer, want)
            self.check([q.detach(), k.detach(), v.detach(), bias, factors.detach()], self.weighted, layer, want)
            self.check([q, k, v, bias.detach(), factors], self.weighted, torch.compile(layer, fullgraph=True, backend="aot_eager"), want)

    def test_double_backward_is_refused(self):
        q, k, v = self.inputs()
        for loss in (lambda o: o.float().square().sum(), lambda o: o.float().sum()):
            o, _ = ops.window_attention(q, k, v)
            (grad,) = torch.autograd.grad(loss(o), q, create_graph=True)
            with self.assertRaisesRegex(NotImplementedError, "window_attention_backward has no derivative: double backward"):
                (grad.float().sum() + o.float().sum()).backward()

    def test_autocast(self):
        torch.manual_seed(5)
        weight, x = torch.randn(12 * self.dim, 64, requires_grad=True), torch.randn(2, self.length, 64)

        def layer(of, norms):
            def run(w):
                qkv = torch.nn.functional.linear(x.to(w.dtype), w).reshape(2, self.length, 3, 4, self.dim) / 8
                q, k, v = qkv.permute(2, 0, 3, 1, 4)
                if norms:  # q and k become f32
                    q, k = (t.to(w.dtype) * t.to(w.dtype).square().mean(-1, keepdim=True).rsqrt() for t in (q, k))
                return of(q, k, v)
            return run

        torch._dynamo.reset()
        for norms, compiled in ((False, False), (True, False), (True, True)):
            with self.subTest(norms=norms, compiled=compiled):
                ours = layer(ops.window_attention, norms)
                with torch.autocast(self.device, torch.bfloat16):
                    got = self.gradients(torch.compile(ours, fullgraph=True, **self.compilers[0]) if compiled else ours, [weight], self.weighted)
                want = self.gradients(layer(attention, norms), [weight.detach().double().requires_grad_()], self.weighted)
                self.assertEqual(got[0].dtype, torch.float32)
                self.close(got[0], want[0])

    def test_compiled(self):
        for needed, options in zip(((True, True, True), (False, True, False), (True, False, True)), self.compilers):
            torch._dynamo.reset()
            layer = torch.compile(lambda *t: [t * 1.0 for t in ops.window_attention(*t)], fullgraph=True, **options)
            with self.subTest(needed=needed, **options):
                for more in (0, 0, 0, 6):  # a CUDA graph is recorded after its shapes have repeated
                    self.check(self.inputs(needed, more=more), self.weighted_both, layer)

    def test_opcheck(self):
        def succeeds(op, args):
            self.assertEqual(set(torch.library.opcheck(op, args).values()), {"SUCCESS"})

        q, k, v = self.inputs()
        succeeds(ops.window_attention, (q, k, v))
        succeeds(ops.window_attention, (q, k, v, torch.randn(4, requires_grad=True)))
        with torch.no_grad():
            q, k, v = (t.detach() for t in (q, k, v))
            o, lse = ops.window_attention(q, k, v)
            for mask in ([True, True, True, False], [False, True, False, False]):
                succeeds(ops.window_attention_backward, (o, None, q, k, v, o, lse, None, mask))
