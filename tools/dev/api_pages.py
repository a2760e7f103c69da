#!/usr/bin/env python3
"""Writes docs/api/: a page for each public header (*/include/tegula/**/*.h), and the list of pages in docs/api/README.md.

api_pages.py [ROOT] [--check]: --check compares only, and reports public declarations without a docstring.

A docstring belongs to the declaration after it, and to those that follow without an empty line or a docstring; `///<`
belongs to the declaration before it. Namespaces `detail` and `dsl`, private members, friends, copies and moves, and the
parameter `at` (the caller's line) are left out."""
import collections
import itertools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(next((a for a in sys.argv[1:] if a != "--check"), pathlib.Path(__file__).resolve().parents[2]))
PAGES = ROOT / "docs/api"
FOLDERS = {"kernels": "Library calls", "dsl": "The language and the C interface", "runtime": "Tensors, streams and devices",
           "autotune": "Configurations and tuning", "ir": "Plans", "support": "Types and errors"}
BEGIN, END = "<!-- pages:begin -->\n", "<!-- pages:end -->\n"
TOKEN = re.compile(r"""(?P<trail>///<[^\n]*|/\*\*<.*?\*/) | (?P<doc>///[^\n]*|/\*\*.*?\*/)
                       | (?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
                       | (?P<str>"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
                       | (?P<blank>\n[ \t]*(?=\n)) | (?P<space>\s+) | (?P<char>.)""", re.S | re.M | re.X)
HIDDEN = re.compile(r"^(friend|using namespace|static_assert|class|struct)\b|\b(each_field|enumerator_names)\b|(?<!operator)~|= delete|operator.* = default$|"
                    r"^(\w+)\((const )?\3&&? ?\w*\)|\boperator=\((?!const Arg&)(const )?\w+&|^template <.*> (class|struct) \w+$|^using (\w+)::\6$")
AT = r"(?:Loc|std::source_location) at(?: = std::source_location::current\(\))?"
Item = collections.namedtuple("Item", "kind name text doc children joins")  # joins: shares the docstring of the preceding item


def without(text, pair="<>"):
    """Returns the text without bracketed parts."""
    text = re.sub(r"->|<=>?|>=|<<|>>=", "", text)
    inner = re.compile(rf"\{pair[0]}[^{re.escape(pair)}]*\{pair[1]}")
    while (shorter := inner.sub("", text)) != text:
        text = shorter
    return text


def cut(text, separator):
    """Divides the text at separators outside brackets."""
    parts, depth = [""], 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}" or c == ">" and text[i - 1] not in "-=")
        if c == separator and depth == 0 and ":" not in (text[i - 1:i], text[i + 1:i + 2]):
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def lines_of(comment):
    """Returns the lines of a docstring without markers."""
    return [re.sub(r"^ *\*(?!/) ?", "", line).rstrip() for line in re.sub(r"^(///|/\*\*)<? ?|\s*\*/$", "", comment).split("\n")]


class Parser:
    def __init__(self, text):
        if "#pragma once" not in text:  # the header in C, whose comments are /* .. */
            text = re.sub(r"(?m)^(.*?)/\*(?= )", lambda m: m[1] + ("/**<" if m[1].strip() else "/**"), text)
        self.tokens = [(m.lastgroup, m[0]) for m in TOKEN.finditer(text)] + [("char", "}")]
        self.at = 0

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def rest(self, count):
        return "".join(text for _, text in self.tokens[self.at:self.at + count])

    def items(self, is_class=False, is_visible=True):
        """Returns the declarations up to the closing brace."""
        found, doc, blank = [], [], True
        while (token := self.next()) != ("char", "}"):
            kind, text = token
            if kind == "doc":
                doc = doc + lines_of(text)
            elif kind == "trail" and is_visible:
                found[-1].doc.extend(lines_of(text))
            elif doc and text.startswith("#define"):
                found.append(Item("macro", re.match(r"#define (\w+)", text)[1], re.match(r"#define \w+(\(.*?\))?", text)[0], doc, [], False))
                doc = []
            elif kind == "blank":
                found += [Item("text", "", "", doc, [], False)] if doc else []
                doc, blank = [], True
            elif kind in ("char", "str"):
                self.at -= 1
                label = re.match(r"(public|private|protected):", self.rest(11))
                if label and is_class:
                    is_visible = label[1] == "public"
                    self.at += label.end()
                    continue
                item = self.declaration(doc, not blank and not doc)
                if item.text and is_visible and (item.kind in ("type", "enum") or not HIDDEN.search(item.text)):
                    found.append(item)
                doc, blank = [], False
        return found

    def declaration(self, doc, joins):
        text, depth = "", 0
        while True:
            kind, token = self.next()
            depth += kind == "char" and (token in "([") - (token in ")]")
            if (kind, token) != ("char", "{") or depth:
                if (kind, token) == ("char", ";") and depth == 0:
                    return plain(text, doc, joins)
                text += token if kind in ("char", "str") else " " * (kind in ("space", "blank"))
                continue
            head = re.sub(r"^template +(?:requires ?\([^()]*\) )?(?=class|struct)", "", without(re.sub(r"\s+", " ", text)).strip())
            if re.match(r"(inline )?namespace\b|extern\b", head):
                return Item("namespace", "" if head.startswith("extern") else head.split()[-1], head, doc, self.items(), joins)
            if re.match(r"(typedef )?(class|struct|union|enum)\b", head) and "(" not in head:
                return self.type(text, head, doc, joins)
            start, level = self.at, 1
            while level:
                token = self.next()
                level += token[0] == "char" and (token[1] == "{") - (token[1] == "}")
            if "(" in head and ("operator" in head or "=" not in without(head, "()")):  # the body of a function
                if not re.match(r"\s*[,{]", self.rest(3)):
                    return plain(text, doc, joins)
            else:
                text += "{" + "".join(t for k, t in self.tokens[start:self.at] if k in ("char", "str", "space"))

    def type(self, text, head, doc, joins):
        words = head.removeprefix("typedef ").replace("enum class", "enum").replace(" final", "").split(":")[0].split()
        children = self.enumerators() if words[0] == "enum" else self.items(True, words[0] != "class")
        rest = "".join(text for _, text in iter(self.next, ("char", ";"))).strip()  # the name of a typedef or member
        return Item("enum" if words[0] == "enum" else "type", rest or words[-1], re.sub(r"\s+", " ", text).strip(), doc, children, joins)

    def enumerators(self):
        found, doc, text = [], [], ""
        while True:
            kind, token = self.next()
            if text.strip() and (token in ",}" or kind == "trail"):
                found.append(Item("value", "", text.strip(), doc, [], False))
                doc, text = [], ""
            if (kind, token) == ("char", "}"):
                return found
            if kind in ("doc", "trail"):
                (found[-1].doc if kind == "trail" else doc).extend(lines_of(token))
            elif kind in ("char", "space") and token != ",":
                text += token


def plain(text, doc, joins):
    """Returns a function, variable, alias or concept."""
    text = re.sub(r"\[\[\w+\]\] |\binline ", "", re.sub(r"\s+", " ", text)).strip()
    bare = re.sub(r"^template ", "", without(text).strip())
    if alias := re.match(r"(?:using|concept) (\w+)|typedef .* (\w+)", bare):
        return Item("alias", alias[1] or alias[2], text, doc, [], joins)
    if pointer := re.search(r"\(\*(\w+)\)", text):
        return Item("variable", pointer[1], text, doc, [], joins)
    if "(" not in bare.split("=")[0] and "operator" not in text:
        name = re.sub(r"[={\[].*", "", bare).split()
        return Item("variable", name[-1] if name else "", text, doc, [], joins)
    name = re.search(r"\boperator ?(?:\(\)|[^\s\w(]+|[^(]+)", text) or re.search(r"[\w:~]+(?= ?\()", re.sub(r"(requires|decltype) ?\(([^()]|\([^()]*\))*\)", "", bare))
    return Item("function", name[0], cut(text, ":")[0], doc, [], joins)


def escaped(text):
    """Escapes what Markdown takes for HTML, outside code."""
    return re.sub(r"(`[^`]*`)|<(?=[A-Za-z/])", lambda m: m[1] or r"\<", text)


def prose(lines):
    """Returns a docstring as Markdown: paragraphs are wrapped, and no line begins with an operator."""
    out, previous = [""], ""
    for line in textwrap.dedent("\n".join(lines)).split("\n"):
        form = "code" if line.startswith("    ") else "table" if line.startswith("|") else "text" if line else ""
        if form != previous or line.startswith("- "):
            out += ["", ""] if form != previous else [""]
        out[-1] += line if form == "text" and not out[-1] else f" {line.strip()}" if form == "text" else f"{line}\n"
        previous = form
    paragraphs = [part if part.startswith(("    ", "|")) else textwrap.fill(
        re.sub(r" (?=(?:[-+*>=]|#+|\d+[.)])(?: |$))", "\0", escaped(part)), 120, break_long_words=False,
        break_on_hyphens=False, subsequent_indent="  " if part.startswith("- ") else "").replace("\0", " ") for part in out]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(paragraphs)).strip("\n")


def row(*cells):
    return "| " + " | ".join(cell.strip().replace("|", "\\|") or "-" for cell in cells) + " |"


def code(items):
    """Returns the signatures, broken after commas."""
    out = ["```cpp"]
    for item in items:
        template = re.match(r"template <(?:[^<>]|<[^<>]*>)*> |", item.text)
        rest = re.sub(rf",? {AT}(?=\))|(?<=\(){AT}(?=\))", "", item.text[template.end():])
        rest = re.sub(r"(\{).{300,}", r"\1..}", rest) if item.kind == "variable" else rest
        out += [template[0].strip()] if template[0] else []
        out.append(textwrap.fill(re.sub(r"(?<!,) ", "\0", rest) + ";" * (item.kind != "macro"), 100, subsequent_indent="    ", break_long_words=False,
                                 break_on_hyphens=False).replace("\0", " "))
    return [*out, "```", ""]


def fields(items):
    """Returns a table row for each variable; those of one declaration share its meaning."""
    for item in items:
        first, *more = cut(item.text, ",") if "(*" not in item.text else [f"{item.text.replace(item.name, '')} {item.name}"]
        type_of = re.match(r"(.*[ *&])\w+(?:\[\w+\])?$", cut(re.sub(r"\{.*", "", first), "=")[0])[1].strip()
        for text in [first.removeprefix(type_of).strip(), *more]:
            name, default = re.match(r"([\w\[\]]+)(?: = )?(.*)", text).groups()
            yield row(f"`{name}`", f"`{type_of}`", f"`{default}`" if default else "", escaped(" ".join(item.doc)))


def written(items, prefix, level, report):
    """Returns the Markdown of declarations in their order; those that share a docstring form one section."""
    out, i = [], 0
    while i < len(items):
        item, group = items[i], [items[i]]
        i += 1
        is_field = item.kind == "variable" and level == 3 and not item.text.startswith("static")
        while i < len(items) and (items[i].kind == "variable" if is_field else items[i].joins and not items[i].doc and
                                  items[i].kind not in ("type", "enum")):
            group.append(items[i])
            i += 1
        if item.kind == "text" or is_field:
            out += [row("member", "type", "default", "meaning"), "|---|---|---|---|", *fields(group)] if is_field else [prose(item.doc)]
            out.append("")
            continue
        is_type = item.kind in ("type", "enum")
        word = re.match(r"(?:template <.*> )?(?:typedef )?([#\w]+)", item.text)[1]
        names = dict.fromkeys(f"`{prefix}{g.name}`" for g in group)
        out += [f"{'#' * level} {', '.join(names)}" + (f" ({word})" if is_type else ""), ""]
        if item.kind == "type" and (item.text.startswith("template") or ": " in item.text):
            out += code([item])
        out += code(group[is_type:]) if group[is_type:] else []
        if not item.doc and not item.children and (level == 2 or "(" in cut(item.text, "=")[0] and "()" not in item.text and word != "explicit"):
            report(f"{', '.join(names)} has no docstring")
        out += [prose(item.doc), ""] if item.doc else []
        if item.kind == "enum":
            out += [row("value", "meaning"), "|---|---|", *(row(f"`{v.text}`", escaped(" ".join(v.doc))) for v in item.children), ""]
        else:
            out += written(item.children, "", 3, report)
    return out


def flattened(items, path=()):
    """Yields the namespaces and declarations of a header; the comment of its outermost namespace comes without any."""
    for item in items:
        if item.kind != "namespace":
            yield path, item
        elif not {"detail", "dsl"} & set(item.name.split("::")):
            if item.doc and not path:
                yield None, item
            yield from flattened(item.children, path + tuple(filter(None, item.name.split("::"))))


def page_of(text, stem, report):
    """Returns a header's page, from its namespace on, and its first sentence, or None if it declares nothing public."""
    found, intro, seen = [], [], set()
    for path, item in flattened(Parser(text).items()):
        key = (path, re.sub(r" = [^,()<>]*(\(\))?", "", item.text))
        if path is None or not intro and not found and item.kind == "text":
            intro += [""] * bool(intro) + item.doc
        elif item.kind != "function" or key not in seen and "::" not in item.name:  # a definition repeats its declaration
            found.append((path, item))
        seen.add(key)
    paths = [path for path, item in found if item.kind != "text"]
    if not paths:
        return None
    common = paths[0]
    while any(path[:len(common)] != common for path in paths):
        common = common[:-1]
    out = [f" Namespace `{'::'.join(common)}`." if common else "", "", prose(intro), ""]
    for path, run in itertools.groupby(found, lambda pair: pair[0]):
        out += written([item for _, item in run], "".join(f"{name}::" for name in path[len(common):]), 2, report)
    brief = intro or max((item for _, item in found), key=lambda i: (i.name.lower().replace("_", "") == stem, i.doc > [])).doc
    sentence = re.match(r"(?:[^.:]|(?<=et al)\.|\.(?! |$)|::|:(?! |$))*", " ".join(brief))[0]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n", escaped(sentence)


def main():
    faults, lists, pages = [], [], {}
    for folder, title in FOLDERS.items():
        lists += ["", f"## {title}", "", row("header", "contents"), "|---|---|"]
        for header in sorted((ROOT / folder / "include").rglob("*.h"), key=lambda h: (h.parent, h.name)):
            include, text = header.relative_to(ROOT / folder / "include").as_posix(), header.read_text()
            if page := page_of(text, header.stem.replace("_", ""), lambda fault: faults.append(f"{include}: {fault}")):
                name = include.removeprefix("tegula/").removesuffix(".h")
                pages[name] = (include, page[0], re.findall(r'#include "tegula/([\w/]+)\.h"', text))
                lists.append(row(f"[`{include}`]({name}.md)", page[1]))
    before, rest = (PAGES / "README.md").read_text().split(BEGIN)
    wanted = {PAGES / "README.md": before + BEGIN + "\n".join(lists[1:]) + "\n" + END + rest.split(END)[1]}
    for name, (include, page, uses) in pages.items():
        links = ", ".join(f"[{use}]({'../' * name.count('/')}{use}.md)" for use in uses if use in pages)
        namespace, body = page.split("\n", 1)
        head = f"`#include <{include}>`.{namespace}" + (f" Uses {links}." if links else "")
        wanted[PAGES / f"{name}.md"] = f"<!-- written by tools/dev/api_pages.py -->\n# {include}\n\n{prose([head])}\n{body}"
    stale = [path for path in {*wanted, *PAGES.rglob("*.md")} if path not in wanted or not path.exists() or path.read_text() != wanted[path]]
    if "--check" in sys.argv:
        sys.exit("\n".join([*faults, *sorted(f"{path.relative_to(ROOT)} differs from the headers: run make docs" for path in stale)]) or 0)
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path]) if path in wanted else path.unlink()


if __name__ == "__main__":
    main()
