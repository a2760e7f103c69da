#!/usr/bin/env python3
"""tegula report: the page has its tables and plots, and asks for nothing from outside. Argument: the program."""
import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile

program = sys.argv[1]
VOID = {"meta", "input", "line", "circle", "rect", "path"}


class Page(html.parser.HTMLParser):
    """Elements by name, with attributes; checks that tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    def count(self, tag, of_class=None):
        return sum(1 for t, a in self.elements if t == tag and (of_class is None or a.get("class") == of_class))


def candidate(config, ratio, seconds, **more):
    return {"event": "candidate", "shape": "mm M=64 <x>", "config": config, "us": 20 * ratio, "ratio": ratio, "seconds": seconds, **more}


code = {"registers": 64, "threads": 256, "shared_bytes": 100_000}
events = [{"event": "device", "name": "GPU", "registers_per_sm": 65536, "shared_per_sm": 233472, "bytes_per_s": 3.35e12},
          {"event": "progress", "phase": "race", "shape": "mm M=64 <x>"},
          candidate("BM=64 BN=64", 1.4, 0.1, **code), candidate("BM=64 BN=64", 1.3, 0.4, estimate_us=19, **code),
          candidate("BM=128 BN=64", 0.8, 0.2, estimate_us=18, registers=168, threads=384, shared_bytes=10_000),
          candidate("BM=128 BN=256", 0.9, 0.3, estimate_us=10, registers=32, threads=1024, shared_bytes=0),
          {"event": "shape", "shape": "mm M=64 <x>", "verdict": "won", "config": "BM=128 BN=64", "us": 16, "ratio": 0.8, "ratio_high": 0.82,
           "bytes": 1e7, "flops": 1e9, "rejected": ["BM=1: wrong: <nan>"]},
          {"event": "shape", "shape": "other", "verdict": "failed", "why": "no GPU"}]

with tempfile.TemporaryDirectory() as name:
    run, page = pathlib.Path(name, "run.jsonl"), pathlib.Path(name, "page.html")
    run.write_text("\n".join(map(json.dumps, events)) + "\n")
    done = subprocess.run([program, "report", str(run), "-o", str(page)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("2 shapes: "), done
    text = page.read_text()
    assert "http" not in text and "src=" not in text and "url(" not in text and "@import" not in text
    p = Page(text)
    assert p.count("section") == 3 and p.count("tr") == 3 and p.count("svg") == 10
    for kind in ("convergence", "parallel", "model", "occupancy", "roofline"):
        assert p.count("svg", kind) == 2, kind
    assert p.count("path", "setting") == 3, "one line a setting"
    assert p.count("path", "best") == 1 and p.count("path", "ceiling") == 1
    ratios = sorted(a["data-ratio"] for t, a in p.elements if a.get("class") == "setting")
    assert ratios == ["0.8000", "0.9000", "1.3000"], ratios
    assert p.count("rect", "registers") == 1 and p.count("rect", "shared") == 1 and p.count("rect", "threads") == 1
    words = " ".join(p.words)
    assert "mm M=64 <x>" in words and "BM=1: wrong: <nan>" in words and "no GPU" in words
    # 1e9 operations in 16 us are 62.5 T a second; 100 operations a byte at 3.35 TB/s allow 335 T.
    assert "19 % of the ceiling" in words, words
    assert "rank correlation 0.50" in words and "there is no model" in words, words  # 18, 10, 19 against 16, 18, 26
    run.write_text('{"event": "device"}\nnonsense\n')
    done = subprocess.run([program, "report", str(run), "-o", str(page)], capture_output=True, text=True)
    assert done.returncode == 2 and "run.jsonl:2: not an event" in done.stderr, done
print("tegula report: ok")
