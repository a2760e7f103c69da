#!/usr/bin/env python3
"""`tegula mask --svg --png`: both files hold the blocks that the program prints, and names that say another format
are refused.

mask_pictures.py PROGRAM"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

SIDE = 12
COLORS = {".": "f2f2f2", "/": "f2b880", "#": "c8553d"}


def run(program, *arguments):
    return subprocess.run([program, "mask", *map(str, arguments)], capture_output=True, text=True)


def printed_blocks(text):
    return [line.split("  ")[0] for line in text.splitlines() if line[:1] in COLORS]


def png_chunks(content):
    assert content[:8] == b"\x89PNG\r\n\x1a\n", content[:8]
    at = 8
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        (crc,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(name + body), name
        yield name, body
        at += 12 + length
    assert at == len(content)


def check_png(content, blocks):
    chunks = list(png_chunks(content))
    names = [name for name, _ in chunks]
    assert sorted(set(names), key=names.index) == [b"IHDR", b"PLTE", b"tEXt", b"IDAT", b"IEND"], names
    of = dict(chunks)
    width, height, *rest = struct.unpack(">IIBBBBB", of[b"IHDR"])
    assert (width, height) == (SIDE * len(blocks[0]), SIDE * len(blocks)), (width, height)
    assert rest == [2, 3, 0, 0, 0], rest
    palette = [of[b"PLTE"][i : i + 3].hex() for i in range(0, 12, 3)]
    pixels = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    stride = 1 + (width + 3) // 4
    assert len(pixels) == stride * height
    for y in range(height):
        assert pixels[y * stride] == 0
        for x in range(width):
            bits = pixels[y * stride + 1 + x // 4] >> (6 - 2 * (x % 4)) & 3
            is_between = SIDE - 1 in (x % SIDE, y % SIDE)
            wanted = "ffffff" if is_between else COLORS[blocks[y // SIDE][x // SIDE]]
            assert palette[bits] == wanted, (x, y)
    assert len(content) < len(pixels) or len(pixels) < 4096, "it is compressed"
    assert of[b"tEXt"].startswith(b"Description\0")
    return of[b"tEXt"]


def check_svg(content, blocks):
    root = xml.etree.ElementTree.fromstring(content)
    assert root.tag.endswith("}svg")
    groups = [g for g in root if g.tag.endswith("}g")]
    drawn = [[r.get("fill").lstrip("#") for r in g if r.tag.endswith("}rect")] for g in groups]
    assert drawn == [[COLORS[b] for b in row] for row in blocks]
    assert int(root.get("width")) >= SIDE * len(blocks[0]) and int(root.get("height")) > SIDE * len(blocks)


def check_pictures(program, folder, *arguments):
    svg, png = folder / "x.svg", folder / "x.png"
    shown = run(program, *arguments, "--svg", svg, "--png", png)
    assert shown.returncode == 0, shown.stderr
    blocks = printed_blocks(shown.stdout)
    check_svg(svg.read_text(), blocks)
    said = check_png(png.read_bytes(), blocks)
    assert f"{arguments[0]}: ".encode() in said, said


def check_refusals(program, folder):
    for option, name in (("--svg", "y.png"), ("--png", "y.svg"), ("--svg", "y.txt")):
        refused = run(program, "causal", option, folder / name)
        assert refused.returncode != 0
        assert f"ends in {pathlib.Path(name).suffix}" in refused.stderr, refused.stderr
        assert not (folder / name).exists()
    # 1,200,000 pixels wide, libpng's limit being a million.
    refused = run(program, "causal", "--q", 1, "--kv", 100000, "--bn", 1, "--png", folder / "z.png")
    assert refused.returncode != 0 and "cannot be a PNG file" in refused.stderr, refused.stderr


def main():
    program = sys.argv[-1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_pictures(program, folder, "causal")
        check_pictures(program, folder, "sliding_tiles", "--q", 1000, "--kv", 900, "--bm", 64)
        # As large as pictures of the documentation are.
        check_pictures(program, folder, "document", "--q", 4096, "--kv", 4096, "--bm", 64, "--bn", 64)
        check_refusals(program, folder)


if __name__ == "__main__":
    main()
