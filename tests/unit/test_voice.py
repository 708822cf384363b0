"""How latlab speaks: turns of phrase that a reader in a hurry stumbles over stay out of what users see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import latlab

REPOSITORY = Path(__file__).parents[2]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

# Each with what stands for it; "there is no …" and "no longer" are plain.
BANNED = {
    r"(?<!there )(?<!There )\b(is|are) no (?!longer\b|more\b|faster\b|slower\b)\w": "is not a …",
    r"\bso (many|long|much)\b(?! (as|that|longer|more))": "this many, for this time, this much",
    r"\ball (\{\}|\d+) of them\b": "all N instances",
    r"\bslow alike\b": "equally slow",
    r"\b(can carry|it carries)\b": "maximum throughput",
    r"\bbuys nothing\b": "does not help, does not pay",
    r"\b(every|no)body\b": "others, no thread, no one process",
    r"\breaches back\b": "propagates upstream",
    r"\bready without\b": "runnable without a CPU",
    r"\btaken off\b(?!line)": "preempted",
    r"\b(report|comparison|it) lies\b": "report: PATH",
    r"\bkmessages\b(?!/s)": "messages, with their unit",
    r"\bis nothing that\b": "is not a … that latlab can read",
    r"\bis none of\b": "is not one of",
    r"\blies? in\b": "is in",
    r"\b(come|comes|came) to (?!an end)\b": "is, reaches",
    r"\bin vain\b": "without an effect",
    r"\balike\b": "equally, the same way",
    r"\bholds? [^.:]{0,60}\bagainst\b|\bheld against\b": "compare, check against",
    r"\bmend(s|ed)?\b": "fix",
    r"\b[Ll]ikewise\b": "the same holds for",
    r"\bcarr(y|ies) (an?|no|the) (answer|verdict)\b": "supports an answer",
    r"\bseldom\b": "rarely",
    r"\breads on\b": "continues",
    r"\bcry wolf\b": "report a false difference",
    r"\bcan't be told\b(?! (apart|from))": "cannot tell",
}
ANY = re.compile("|".join(BANNED))


def shown(tree: ast.Module, *, commands: bool) -> Iterator[tuple[int, str]]:
    """Strings that can reach a user: all but docstrings, and those of commands, which are their help."""
    hidden = set()
    for node in ast.walk(tree):  # what holds a string comes before it
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and body:
            first = body[0]
            is_help = commands and isinstance(node, ast.FunctionDef) and node.decorator_list
            if isinstance(first, ast.Expr) and not is_help:
                hidden.add(id(first.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.lineno, node.value


def test_what_users_read_has_none_of_the_banned_turns() -> None:
    root = Path(latlab.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for line, text in shown(tree, commands="cli" in file.parts):
            if not ANY.search(text):
                continue
            found += [
                f"{file.relative_to(root)}:{line}: {text[:80]!r}: write {instead!r}"
                for turn, instead in BANNED.items()
                if re.search(turn, text)
            ]
    assert found == []


def test_the_docs_have_none_of_the_banned_turns() -> None:
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    found = []
    for page in pages:
        prose = CODE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
        for number, line in enumerate(prose.splitlines(), 1):
            found += [
                f"{page.relative_to(REPOSITORY)}:{number}: {hit[0]!r}: write {instead!r}"
                for turn, instead in BANNED.items()
                if (hit := re.search(turn, line))
            ]
    assert found == []


def test_the_docstrings_of_results_have_no_this_many_without_a_this() -> None:
    root = Path(latlab.__file__).parent
    turn = next(turn for turn in BANNED if turn.startswith(r"\bso (many"))
    found = [
        f"{file.relative_to(root)}: {hit[0]!r} in {ast.get_docstring(node, clean=False)!r}"
        for file in sorted((root / "model").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and (hit := re.search(turn, ast.get_docstring(node, clean=False) or ""))
    ]
    assert found == []


def test_the_ban_finds_what_it_bans() -> None:
    samples = [
        "'x' is no plan",
        "stop after so long.",
        "stages are slow alike",
        "nobody waits",
        "was ready without one",
    ]
    assert [any(re.search(turn, one) for turn in BANNED) for one in samples] == [True] * len(samples)
