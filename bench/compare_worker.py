"""The worker of bench/compare.py: a process that loads one build of the benchmark library and executes requests from stdin.

A request is a line with a JSON object, whose "do" is one of the following; the answer is one line with a JSON object:

    list                        -> {"cases": [[group, suite, case], ..], "facts": {..}}
    make    suite, case         -> {"bits": [..]}, or {"absent": true} if the case does not call the library
    warm    seconds             -> {"ms": mean of a call}
    time    samples             -> {"ms": [..]}
    clock                       -> {"mhz": .., "watts": ..} while the case runs
    figures suite               -> {"lines": [{..}]}: `tegula bench`, each figure of one sample; the only request that a worker with --host supports

The answer to a failed request is {"error": text}, with "fatal": true if the process cannot continue; the caller then starts a new one.
"""
import argparse
import ctypes
import json
import os
import sys


def serve(bench, source, sink):
    """Answers each line of `source` with the result of the method of that name."""
    for line in source:
        command = json.loads(line)
        try:
            answer = getattr(bench, command.pop("do"))(**command)
        except Exception as problem:  # one broken case must not lose the rows of others
            answer = {"error": str(problem)[:2000], "fatal": bench.is_lost()}
        sink.write(json.dumps(answer) + "\n")
        sink.flush()
        if answer.get("fatal"):
            return


class Found(BaseException):
    """Returns the library's call from a case before peers.py creates the case's peers and references."""

    def __init__(self, run, tensors):
        super().__init__()
        self.run, self.tensors = run, tensors


class Bench:
    """The suites of peers.py, without peers: of each case, only its first call of the library is created."""

    def __init__(self, library):
        import peers
        import torch

        self.peers, self.torch = peers, torch

        class OursOnly(peers.Tegula):
            def caller(self, case, tensors, number=0.0):
                raise Found(super().caller(case, tensors, number), tensors)

        self.tegula = OursOnly(library)
        self.cases = {(suite, case): (group, make) for group, suite, case, make in self.every_case()}
        self.run, self.lead_us = None, 0

    def every_case(self):
        import matmul_suites
        import variants

        for suite in [*self.peers.SUITES, matmul_suites.rungs]:
            for name, case, make in suite(self.tegula):
                yield suite.__name__, name, case, make
        for case, make in variants.cases(self.tegula):
            yield "variants", "variants", case, make

    def is_lost(self):
        """Returns true if the context is lost: an error of a kernel persists in it."""
        try:
            self.torch.cuda.synchronize()
            return False
        except RuntimeError:
            return True

    def list(self):
        facts = {"device": self.torch.cuda.get_device_name(), "torch": self.torch.__version__, "backend": self.tegula.lib.tegula_bench_backend().decode()}
        return {"cases": [[group, *key] for key, (group, _) in self.cases.items()], "facts": facts}

    def make(self, suite, case):
        """Creates a case. Both workers draw the same inputs, so equal results have equal bits: the answer contains the sum of each tensor's words."""
        self.run = None  # free its tensors before others are created
        self.torch.cuda.empty_cache()
        self.torch.manual_seed(0)
        try:
            self.cases[suite, case][1]()
            return {"absent": True}
        except Found as found:
            self.run, tensors = found.run, found.tensors
        self.run()
        self.torch.cuda.synchronize()
        us = min(self.peers.host_us(self.run) for _ in range(3))
        self.lead_us = self.peers.lead_of(us)
        return {"bits": [self.bits_of(tensor) for tensor in tensors]}

    def bits_of(self, tensor):
        words = {1: self.torch.uint8, 2: self.torch.int16, 4: self.torch.int32, 8: self.torch.int64}[tensor.element_size()]
        return tensor.view(words).sum(dtype=self.torch.int64).item()

    def warm(self, seconds):
        """Runs the case for that time and returns the mean time of a call. A batch of calls takes about a tenth of the time."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first = self.peers.time_once(self.run)
        calls = max(1, int(100 * seconds / max(first, 1e-3)))
        taken = done = 0
        while taken < 1000 * seconds:
            begin.record()
            for _ in range(calls):
                self.run()
            end.record()
            end.synchronize()
            taken += begin.elapsed_time(end)
            done += calls
        return {"ms": taken / done}

    def time(self, samples):
        """Returns the times of `samples` calls, after two calls of warm-up, because the other process has used the device since."""
        for _ in range(2):
            self.run()
        return {"ms": [self.peers.time_once(self.run, self.lead_us) for _ in range(samples)]}

    def clock(self):
        for _ in range(max(3, int(60 / max(self.warm(0.02)["ms"], 0.02)))):
            self.run()
        mhz, watts = self.peers.Power().read()
        self.torch.cuda.synchronize()
        return {"mhz": mhz, "watts": watts}


class Host:
    """The suites of `tegula bench`, which need neither PyTorch nor, to compile, a GPU."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        for name in ("compile", "launch"):
            getattr(self.lib, f"tegula_bench_{name}").restype = ctypes.c_char_p

    def is_lost(self):
        return False

    def figures(self, suite):
        text = getattr(self.lib, f"tegula_bench_{suite}")(1).decode()
        if not text.startswith("{"):
            raise RuntimeError(text)
        return {"lines": [json.loads(line) for line in text.splitlines()]}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("library", help="libtegula_bench.so of a pack")
    args.add_argument("--host", action="store_true")
    options = args.parse_args()
    # Libraries may print: that goes to stderr, as stdout carries the protocol.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve((Host if options.host else Bench)(options.library), sys.stdin, answers)


if __name__ == "__main__":
    main()
