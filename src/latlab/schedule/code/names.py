"""Which functions of a stack are the program's own, and how they are told.

What starts a thread, the libraries of C and C++, the standard library of an interpreter and what latlab
itself put into a program say nothing of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import dropwhile, takewhile

from latlab.model.schedule import Frame
from latlab.system.kernel.python_graft import goes_through_python

__all__ = [
    "CONDITION",
    "called",
    "caller_of",
    "entered",
    "entry_of",
    "is_own",
    "is_runtime",
    "makes_durable",
    "of_library",
    "plain",
    "telling",
]

#: Functions in which a thread waits until another one has something for it, or has done something.
CONDITION = re.compile(
    r"cond_(?:timed|clock)?wait|condition_variable|Condvar|notifyListWait|ObjectMonitor::wait|"
    r"std::thread::(?:thread::Thread>?::)?park|SimpleQueue_get|barrier|pthread_join|clockjoin|thread_join|latch|future|gomp_(?:team_)?barrier|futex_wait_queue"
)
_OF_PYTHON = "Condition.wait"  # as its frames are told
# Who was woken, and takes the mutex again.
_TAKES_AGAIN = re.compile(r"mutex_(?:cond_)?(?:lock|timedlock|clocklock)|lll_lock_wait")

#: What stands outside of a thread's own first function.
_STARTERS = re.compile(
    r"^(_*start_thread|_*clone\d*|_start|_*libc_start\w*|main|thread_run|execute_native_thread_routine|thread_start|"
    r"g_thread_proxy|gomp_thread_start|_dl_\w*|dl_main|rtld_\w*|Py_BytesMain|Py_RunMain|pymain_\w*|pythread_wrapper|"
    r"(Thread\.)?_bootstrap(_inner)?|Thread\.run|<module>|\?\?|)$"
)
_BEGINS = re.compile(
    r"^(_*start_thread|_*clone\d*|_start|_*libc_start\w*|execute_native_thread_routine|g_thread_proxy|gomp_thread_start|"
    r"thread_start|Py_BytesMain|Py_RunMain|pymain_\w*|thread_run|pythread_wrapper|(Thread\.)?_bootstrap(_inner)?|"
    r"Thread\.run|std::thread::.*|void std::__invoke.*|_dl_\w*|rtld_\w*)$"
)
_PAUSE = "_mm_pause"  # of a header of the compiler's, inlined where a loop waits
#: Namespaces of languages' own libraries, after a return type was taken off.
_LIBRARIES = re.compile(
    r"^(std::|__gnu_cxx::|__cxxabiv1::|core::|alloc::|<core::|<alloc::|<std::|runtime\.|sync\.|internal/|tokio::runtime)"
)
#: Go's own packages; of a compiled module, since a class of Python or JavaScript may have such a name.
_GO = re.compile(
    r"^(archive|bufio|bytes|compress|container|context|crypto|database|encoding|errors|fmt|hash|html|image|io|log|"
    r"math|mime|net|os|path|reflect|regexp|runtime|slices|sort|strconv|strings|sync|syscall|text|time|unicode)"
    r"(/[\w/]+)?\.[\w(]"
)
_MODULES = re.compile(
    r"^(\[|python[\d.]*$|libpython|ld-linux|ld-musl|libc[.-]|libpthread|libstdc\+\+|libc\+\+|libm[.-]|libgcc|libgomp|libglib-|vdso)"
)
_PYTHON = re.compile(
    r"/lib/(python|pypy)[\d.]+/(?!site-packages|dist-packages)|^<frozen |/latlab_injected/|"
    r"/site-packages/latlab/"
)
#: Sources of compilers' libraries, whose lines are inlined into a program's functions. Rust's own lie at a
#: path that is on nobody's disk; its packages and C++'s headers do not belong to the program, either.
_FOREIGN = (
    r"^/rustc/", r"/rustlib/src/", r"/\.cargo/registry/", r"/rust/deps/", r"(^|/)include/c\+\+/",
    r"/lib/gcc/[^/]+/[\d.]+/include/", r"/lib/clang/",
)  # fmt: skip
_SOURCES = re.compile("|".join(_FOREIGN))
_PYTHON_NAME = re.compile(r"<(locals|lambda|module|\w+comp|genexpr)>")
_DURABLE = re.compile(r"^_*(GI_|libc_)?_*(fsync|fdatasync|msync|syncfs|sync_file_range)\b")
_DURABLE_GO = re.compile(r"^(syscall|golang\.org/x/sys/unix)\.(Fsync|Fdatasync|Msync|Syncfs|SyncFileRange)$")
_GO_CALLS = 6
_VERSION = re.compile(r"@+[A-Z][\w.]*$")  # of a symbol, as in memcpy@@GLIBC_2.14
_CLONE = re.compile(r"(\.(isra|part|constprop|cold|lto_priv)(\.\d+)*)+$|( \[clone [^]]*\])+$")
#: Programs that bring a runtime with them, and the functions of theirs that only start a thread.
_RUNTIMES = re.compile(r"^(node(js)?|libnode|libjvm|java|ruby|libruby|perl|libperl|php)[\d.-]*(\.so[\d.]*)?$")
_STARTS = re.compile(r"^(lambda #\d+ in )?(\w+::)*(start_?thread|thread_?(start|main|entry|proxy))$", re.I)
#: Libraries of the system or of an interpreter, which nobody changes to make a program faster.
_SYSTEM = re.compile(r"^(/usr)?(/local)?/lib(32|64|x32)?/.*\.so[.\d]*$|/lib-dynload/")
_LIBRARY = re.compile(r"\.so[.\d]*$")
_LAMBDA = re.compile(r"([\w~]+)(?:\([^()]*\))?(?: const)?::\{lambda\([^{}]*?\)#(\d+)\}")


def is_runtime(frame: Frame) -> bool:
    """Whether a frame lies in a library that every program has."""
    return "/lib-dynload/" in frame.module or bool(_MODULES.match(frame.module.rsplit("/", 1)[-1]))


def is_own(frame: Frame) -> bool:
    """Whether a frame has a name that says something of the program."""
    name = frame.function
    # What begins with two underscores belongs to the compiler and its libraries, where names are C's.
    reserved = frame.module and name.startswith("__")
    if not name or reserved or is_runtime(frame) or _STARTERS.match(name) or _PYTHON.search(frame.file):
        return False
    if name.partition("(")[0] == _PAUSE:
        return False
    return not (_LIBRARIES.match(_bare(name)) or (frame.module and _GO.match(name)))


def of_library(file: str) -> bool:
    """Whether a source file belongs to a compiler's library, whose lines lie inlined in others' functions."""
    return bool(_SOURCES.search(file))


def awaits_news(stack: Sequence[Frame]) -> bool:
    """Whether a thread waits at a condition variable or the like, and for no mutex: nobody holds that."""
    functions = [frame.function for frame in stack]
    waits = any(CONDITION.search(one) or one.startswith(_OF_PYTHON) for one in functions)
    return waits and not any(_TAKES_AGAIN.search(one) for one in functions)


def makes_durable(stack: Sequence[Frame]) -> bool:
    """Whether a stack ends in a call that makes data durable: what is computed there is the disk's time.

    Args:
        stack: innermost first. Go makes the system call itself, a few functions below the one of that name.
    """
    called = (_DURABLE_GO.match(frame.function) for frame in stack[1:_GO_CALLS])
    return bool(stack and _DURABLE.search(stack[0].function)) or any(called)


def telling(frames: Sequence[Frame]) -> Frame | None:
    """The innermost of the program's own frames, with a name or without one.

    A function that stripping took the name of is the place itself: whoever called it may do nothing. Where
    nobody tells functions apart, each address would be a place: then it is what was called in that library.
    What Python code has a system's library do is told as that code's, which is what can be changed.

    Args:
        frames: innermost first.
    """
    frame = _innermost(frames)
    if frame is None:
        return None
    if _SYSTEM.search(frame.module) or (_nameless(frame) and _LIBRARY.search(frame.module)):
        code = (one for one in frames if not one.module and one.file.endswith(".py"))
        python = next((one for one in code if is_own(one)), None)
        if python is not None:
            return python
    return frame if frame.begin else entered(frames)


def entered(frames: Sequence[Frame]) -> Frame | None:
    """The innermost of the program's own frames; of a library without symbols what was called in it."""
    frame = _innermost(frames)
    if frame is None or not _nameless(frame) or is_runtime(frame):
        return frame
    at = next(at for at, one in enumerate(frames) if one is frame)
    inside = takewhile(lambda one: one.module == frame.module, frames[at:])
    return next((one for one in inside if is_own(one)), frame)


def caller_of(frames: Sequence[Frame], frame: Frame) -> str:
    """The program's next function outside of this one, a recursion's own calls aside; "" where none is."""
    name = called(frame)
    outer = dropwhile(lambda one: one is not frame, frames)
    return next((own for one in outer if is_own(one) and (own := plain(one.function)) != name), "")


def _innermost(frames: Sequence[Frame]) -> Frame | None:
    for frame in frames:
        if is_own(frame) or (_nameless(frame) and not is_runtime(frame)):
            return frame
    return next((frame for frame in frames if frame.function or frame.module), None)


def _nameless(frame: Frame) -> bool:
    return bool(frame.module) and not frame.function


def entry_of(stack: Sequence[Frame]) -> str:
    """The outermost function that belongs to the program; "" where it has no name, or the stack doesn't reach
    down to its beginning.

    Args:
        stack: innermost first.
    """
    if not stack or not _whole(stack[-1]) or any(goes_through_python(frame) for frame in stack):
        return ""
    plumbing = ""
    for frame in reversed(stack):
        name = _entry_in(frame)
        if name and _STARTS.match(name) and _RUNTIMES.match(frame.module.rsplit("/", 1)[-1]):
            plumbing = plumbing or name  # it says nothing of what the thread does: what it calls may
        elif name:
            return name
    return plumbing


def _entry_in(frame: Frame) -> str:
    """What a thread that begins in this frame is called by; "" where it tells nothing of the program."""
    # What runs a lambda has its type in its own name, also where the compiler has inlined it.
    if _LIBRARIES.match(_bare(frame.function)) and (found := _lambda_in(frame.function)):
        return found
    if is_own(frame) or (frame.function == "main" and not is_runtime(frame)):
        return plain(frame.function)
    if frame.function == "<module>" and not _PYTHON.search(frame.file):
        return os.path.basename(frame.file)  # noqa: PTH119
    return ""


def _whole(outermost: Frame) -> bool:
    """Whether the outermost frame is where threads begin: a starter's, or Python's."""
    return bool(_BEGINS.match(outermost.function)) or (not outermost.module and bool(outermost.file))


def _lambda_in(name: str) -> str:
    found = _LAMBDA.search(name.replace("(anonymous namespace)::", ""))
    return f"lambda #{found[2]} in {found[1]}" if found else ""


def called(frame: Frame) -> str:
    """What a frame's function is called in an answer: as `plain` says, or by where it lies."""
    if frame.function:
        return plain(frame.function)
    return frame.place if frame.module else "unknown"


def plain(name: str) -> str:
    """Without arguments and return type: "feed::parse" of "bool feed::parse<int>(char const*) const".

    A lambda is told by where it stands: "lambda #2 in feed".
    """
    if _PYTHON_NAME.search(name):
        return name
    text = _CLONE.sub("", _VERSION.sub("", name))
    bare = _bare(text)
    return (_lambda_in(bare) or bare) if "{lambda" in bare else bare


def _bare(name: str) -> str:
    if name.startswith("<") or ("(" not in name and "<" not in name):
        return name
    text = name.replace("(anonymous namespace)::", "")
    for tail in (" const", " &", " &&", " noexcept"):
        text = text.removesuffix(tail)
    text = _without_tail(text, "()")
    if text.endswith("operator"):
        text += "()"  # those were its name, the arguments came before
    if text.endswith("::operator()"):
        inner = text.removesuffix("::operator()")
        text = inner if "{lambda" in inner else text
    if not text.endswith(">") or "operator" in text:
        return _last_word(text)
    return _last_word(_without_tail(text, "<>"))


def _without_tail(text: str, pair: str) -> str:
    """Without the bracketed part at its end."""
    if not text.endswith(pair[1]):
        return text
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] == pair[1]) - (text[index] == pair[0])
        if depth == 0:
            return text[:index]
    return text


def _last_word(text: str) -> str:
    """What follows the return type, which templates have before their names."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] in ")>}]") - (text[index] in "(<{[")
        if text[index] == " " and depth == 0 and not text[:index].endswith("operator"):
            return text[index + 1 :]
    return text
