"""Programs whose component changes more than it returns, and some that change nothing, as others write them.

Over 400 lines: one table.
"""

from __future__ import annotations

# name: (component, what work.py holds, what app.py holds, whether a stub keeps it; else it is told).
CHANGES: dict[str, tuple[str, str, str, bool]] = {
    "property setter": (
        "work:A.step",
        "class A:\n"
        " def __init__(s): s._v=0\n"
        " @property\n"
        " def v(s): return s._v\n"
        " @v.setter\n"
        " def v(s,x): s._v=x\n"
        " def step(s,i): s.v=s.v+i",
        "import work\na=work.A()\nfor i in range(20):\n    a.step(i)\nprint(a.v)\n",
        True,
    ),
    "ndarray returned view of self": (
        "work:A.step",
        "import numpy as np\n"
        "class A:\n"
        " def __init__(s): s.b=np.zeros(8)\n"
        " def step(s,i):\n"
        "  s.b[i%8]+=1\n"
        "  return s.b[:4]",
        "import work\na=work.A()\nfor i in range(20):\n    v=a.step(i); v+=10\nprint(a.b.sum())\n",
        False,
    ),
    "returned alias of argument": (
        "work:step",
        "def step(x,i):\n x.append(i)\n return x",
        "import work\nx=[]\nfor i in range(20):\n    y=work.step(x,i); y.append(-1)\nprint(x)\n",
        True,
    ),
    "alias inner list argument": (
        "work:step",
        "def step(x,i):\n return x['k']",
        "import work\nx={'k':[]}\nfor i in range(20):\n    work.step(x,i).append(i)\nprint(x)\n",
        False,
    ),
    "returns self": (
        "work:B.step",
        "class B:\n def __init__(s): s.p=[]\n def step(s,i):\n  s.p.append(i)\n  return s",
        "import work\nb=work.B()\nfor i in range(20):\n    b=b.step(i).step(i+1)\nprint(b.p)\n",
        True,
    ),
    "singleton identity": (
        "work:step",
        "class S: pass\n"
        "_s=None\n"
        "def step(i):\n"
        " global _s\n"
        " if _s is None: _s=S(); _s.n=0\n"
        " _s.n+=i\n"
        " return _s",
        "import work\n"
        "f=[]\n"
        "for i in range(20):\n"
        "    f.append(work.step(i))\n"
        "print(len({id(o) for o in f}), f[0].n)\n",
        True,
    ),
    "contextvar": (
        "work:step",
        "import contextvars\nV=contextvars.ContextVar('v',default=0)\ndef step(i): V.set(V.get()+i)",
        "import work\n\nfor i in range(20):\n    work.step(i)\nprint(work.V.get())\n",
        False,
    ),
    "threading.local": (
        "work:step",
        "import threading\nL=threading.local(); L.n=0\ndef step(i): L.n+=i",
        "import work\n\nfor i in range(20):\n    work.step(i)\nprint(work.L.n)\n",
        False,
    ),
    "numpy random legacy": (
        "work:step",
        "import numpy as np\ndef step(i): return float(np.random.rand())",
        "import work\n"
        "import numpy as np; np.random.seed(3)\n"
        "for i in range(20):\n"
        "    work.step(i)\n"
        "print(np.random.rand())\n",
        True,
    ),
    "numpy Generator arg": (
        "work:step",
        "def step(g,i): return float(g.normal())",
        "import work\n"
        "import numpy as np; g=np.random.default_rng(3)\n"
        "for i in range(20):\n"
        "    work.step(g,i)\n"
        "print(g.normal())\n",
        True,
    ),
    "itertools.cycle global": (
        "work:step",
        "import itertools\nc=itertools.cycle([1,2,3])\ndef step(i): return next(c)",
        "import work\n\nfor i in range(22):\n    work.step(i)\nprint(next(work.c))\n",
        True,
    ),
    "zip iterator arg": (
        "work:step",
        "def step(z,i): return next(z)",
        "import work\nz=zip(range(50),range(50))\nfor i in range(20):\n    work.step(z,i)\nprint(next(z))\n",
        False,
    ),
    "map iterator arg": (
        "work:step",
        "def step(z,i): return next(z)",
        "import work\nz=map(str,range(50))\nfor i in range(20):\n    work.step(z,i)\nprint(next(z))\n",
        False,
    ),
    "memoryview arg": (
        "work:step",
        "def step(m,i): m[i]=i",
        "import work\n"
        "b=bytearray(30); m=memoryview(b)\n"
        "for i in range(20):\n"
        "    work.step(m,i)\n"
        "print(sum(b))\n",
        False,
    ),
    "mmap": (
        "work:step",
        "def step(m,i): m[i]=i",
        "import work\n"
        "import mmap; m=mmap.mmap(-1,64)\n"
        "for i in range(20):\n"
        "    work.step(m,i)\n"
        "print(sum(m[:]))\n",
        False,
    ),
    "OrderedDict move": (
        "work:step",
        "def step(o,i): o.move_to_end(i%4)",
        "import work\n"
        "import collections; o=collections.OrderedDict.fromkeys(range(6))\n"
        "for i in range(23):\n"
        "    work.step(o,i)\n"
        "print(list(o))\n",
        True,
    ),
    "defaultdict read": (
        "work:step",
        "def step(o,i): return len(o[i])",
        "import work\n"
        "import collections; o=collections.defaultdict(list)\n"
        "for i in range(20):\n"
        "    work.step(o,i)\n"
        "print(len(o))\n",
        True,
    ),
    "queue.Queue arg": (
        "work:step",
        "def step(q,i): q.put(i)",
        "import work\n"
        "import queue; q=queue.Queue()\n"
        "for i in range(20):\n"
        "    work.step(q,i)\n"
        "print(q.qsize())\n",
        True,
    ),
    "Event set": (
        "work:step",
        "def step(e,i): e.set()",
        "import work\n"
        "import threading; e=threading.Event()\n"
        "for i in range(20):\n"
        "    work.step(e,i)\n"
        "print(e.is_set())\n",
        True,
    ),
    "Semaphore": (
        "work:step",
        "def step(e,i): e.release()",
        "import work\n"
        "import threading; e=threading.Semaphore(0)\n"
        "for i in range(20):\n"
        "    work.step(e,i)\n"
        "print(e._value)\n",
        True,
    ),
    "exception caught with cause": (
        "work:step",
        "def step(i):\n try: {}[i]\n except KeyError as e: raise ValueError(i) from e",
        "import work\n"
        "for i in range(20):\n"
        "    try: work.step(i)\n"
        "    except ValueError as e: print(repr(e), repr(e.__cause__), e.__suppress_context__)\n",
        True,
    ),
    "exception context implicit": (
        "work:step",
        "def step(i):\n try: {}[i]\n except KeyError: raise ValueError(i)",
        "import work\n"
        "for i in range(20):\n"
        "    try: work.step(i)\n"
        "    except ValueError as e: print(repr(e), repr(e.__context__), e.__suppress_context__)\n",
        True,
    ),
    "exception with notes & attrs": (
        "work:step",
        "class E(Exception):\n"
        " def __init__(s,a,*,b): super().__init__(a); s.b=b\n"
        "def step(i):\n"
        " e=E('x',b=[i]); e.add_note('n%d'%i); raise e",
        "import work\n"
        "for i in range(20):\n"
        "    try: work.step(i)\n"
        "    except work.E as e: print(e, e.b, e.__notes__)\n",
        True,
    ),
    "ExceptionGroup": (
        "work:step",
        "def step(i): raise ExceptionGroup('g',[ValueError(i),KeyError(i)])",
        "import work\n"
        "for i in range(20):\n"
        "    try: work.step(i)\n"
        "    except* ValueError as e: print(e.exceptions)\n"
        "    except* KeyError as e: print(e.exceptions)\n",
        True,
    ),
    "change then raise": (
        "work:A.step",
        "class A:\n n=0\n def step(s,i):\n  s.n+=1\n  if i%2: raise RuntimeError(i)",
        "import work\n"
        "a=work.A()\n"
        "for i in range(20):\n"
        "    try: a.step(i)\n"
        "    except RuntimeError: pass\n"
        "print(a.n)\n",
        True,
    ),
    "warnings": (
        "work:step",
        "import warnings\ndef step(i): warnings.warn('w%d'%i)",
        "import work\n\nfor i in range(20):\n    work.step(i)\nprint(0)\n",
        False,
    ),
    "sys.stdout replaced": (
        "work:step",
        "import sys,io\ndef step(i):\n sys.stdout=sys.__stderr__ if i==5 else sys.__stdout__",
        "import work\n\nfor i in range(20):\n    work.step(i); print(i)\nprint(0)\n",
        False,
    ),
    "setattr builtins": (
        "work:step",
        "import builtins\ndef step(i): builtins.ZZ=i",
        "import work\nimport builtins\nfor i in range(20):\n    work.step(i)\nprint(builtins.ZZ)\n",
        False,
    ),
    "monkeypatch module fn": (
        "work:step",
        "import math\ndef step(i):\n math.foo=i",
        "import work\nimport math\nfor i in range(20):\n    work.step(i)\nprint(math.foo)\n",
        False,
    ),
    "class attr via classmethod": (
        "work:A.step",
        "class A:\n n=0\n @classmethod\n def step(c,i): c.n+=i",
        "import work\n\nfor i in range(20):\n    work.A.step(i)\nprint(work.A.n)\n",
        True,
    ),
    "enum-keyed nested dataclass": (
        "work:step",
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class P: x:int=0; q:list=dataclasses.field(default_factory=list)\n"
        "@dataclasses.dataclass\n"
        "class Q: p:P\n"
        "def step(q,i): q.p.q.append(i); q.p.x+=1",
        "import work\nq=work.Q(work.P())\nfor i in range(20):\n    work.step(q,i)\nprint(q)\n",
        True,
    ),
    "cyclic object": (
        "work:step",
        "class N: pass\ndef step(n,i): n.next.v+=i",
        "import work\n"
        "n=work.N(); m=work.N(); n.next=m; m.next=n; m.v=0\n"
        "for i in range(20):\n"
        "    work.step(n,i)\n"
        "print(m.v)\n",
        True,
    ),
    "nonlocal closure passed as callable": (
        "work:step",
        "def step(f,i): f(i)",
        "import work\nt=[0]\ndef f(i): t[0]+=i\nfor i in range(20):\n    work.step(f,i)\nprint(t)\n",
        True,
    ),
    "callback to main's method": (
        "work:step",
        "def step(o,i): o.on(i)",
        "import work\n"
        "class O:\n"
        " n=0\n"
        " def on(s,i): s.n+=i\n"
        "o=O()\n"
        "for i in range(20):\n"
        "    work.step(o,i)\n"
        "print(o.n)\n",
        True,
    ),
    "lru_cache method hits": (
        "work:A.step",
        "import functools\n"
        "class A:\n"
        " @functools.lru_cache\n"
        " def sq(s,i): s.m=getattr(s,'m',0)+1; return i*i\n"
        " def step(s,i): return s.sq(i%3)",
        "import work\na=work.A()\nfor i in range(20):\n    a.step(i)\nprint(a.m, a.sq.cache_info())\n",
        False,
    ),
    "cached_property": (
        "work:A.step",
        "import functools\n"
        "class A:\n"
        " @functools.cached_property\n"
        " def big(s): return [1,2]\n"
        " def step(s,i): return len(s.big)",
        "import work\na=work.A()\nfor i in range(20):\n    a.step(i)\nprint(sorted(vars(a)))\n",
        True,
    ),
    "array resized arg": (
        "work:step",
        "def step(a,i): a.resize((i+1,),refcheck=False)",
        "import work\n"
        "import numpy as np; a=np.zeros(1)\n"
        "for i in range(20):\n"
        "    work.step(a,i)\n"
        "print(a.shape)\n",
        False,
    ),
    "ndarray transposed base": (
        "work:step",
        "def step(a,i): a[0,1]+=1",
        "import work\n"
        "import numpy as np; b=np.zeros((3,4)); a=b.T\n"
        "for i in range(20):\n"
        "    work.step(a,i)\n"
        "print(b)\n",
        True,
    ),
    "decorated functools.wraps": (
        "work:step",
        "import functools\n"
        "def d(f):\n"
        " @functools.wraps(f)\n"
        " def w(*a): w.n+=1; return f(*a)\n"
        " w.n=0\n"
        " return w\n"
        "@d\n"
        "def step(i): return i",
        "import work\n\nfor i in range(20):\n    work.step(i)\nprint(work.step.n)\n",
        False,
    ),
    "__call__ class": (
        "work:A.__call__",
        "class A:\n n=0\n def __call__(s,i): s.n+=i",
        "import work\na=work.A()\nfor i in range(20):\n    a(i)\nprint(a.n)\n",
        True,
    ),
    "__setitem__ class": (
        "work:A.__setitem__",
        "class A(dict):\n def __setitem__(s,k,v): super().__setitem__(k,v*2)",
        "import work\na=work.A()\nfor i in range(20):\n    a[i]=i\nprint(sorted(a.items()))\n",
        True,
    ),
    "__init__ as component": (
        "work:A.__init__",
        "class A:\n def __init__(s,i): s.i=i",
        "import work\nt=[]\nfor i in range(20):\n    t.append(work.A(i).i)\nprint(t)\n",
        True,
    ),
    "frozen dataclass object.__setattr__": (
        "work:step",
        "import dataclasses\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class P: x:int\n"
        "def step(p,i): object.__setattr__(p,'x',p.x+i)",
        "import work\np=work.P(0)\nfor i in range(20):\n    work.step(p,i)\nprint(p)\n",
        True,
    ),
    "kwarg dict changed": (
        "work:step",
        "def step(*,out): out['n']=out.get('n',0)+1",
        "import work\no={}\nfor i in range(20):\n    work.step(out=o)\nprint(o)\n",
        True,
    ),
    "xml element": (
        "work:step",
        "import xml.etree.ElementTree as E\ndef step(r,i): E.SubElement(r,'a').text=str(i)",
        "import work\n"
        "import xml.etree.ElementTree as E; r=E.Element('r')\n"
        "for i in range(20):\n"
        "    work.step(r,i)\n"
        "print(len(E.tostring(r)))\n",
        False,
    ),
    "zlib compressobj": (
        "work:step",
        "def step(h,i): return h.compress(b'%d'%i*99)",
        "import work\n"
        "import zlib; h=zlib.compressobj()\n"
        "for i in range(20):\n"
        "    work.step(h,i)\n"
        "print(len(h.flush()))\n",
        False,
    ),
    "re scanner": (
        "work:step",
        "def step(s,i): return s.search() is not None",
        "import work\n"
        "import re; s=re.compile('a').scanner('aaaa'*20)\n"
        "for i in range(20):\n"
        "    work.step(s,i)\n"
        "print(s.search().span())\n",
        False,
    ),
    "csv writer": (
        "work:step",
        "def step(w,i): w.writerow([i])",
        "import work\n"
        "import csv,io; o=io.StringIO(); w=csv.writer(o)\n"
        "for i in range(20):\n"
        "    work.step(w,i)\n"
        "print(len(o.getvalue()))\n",
        False,
    ),
    "os.dup2/close fd": (
        "work:step",
        "import os\ndef step(fd,i):\n if i==3: os.close(fd)",
        "import work,os\n"
        "fd=os.dup(1)\n"
        "for i in range(20): work.step(fd,i)\n"
        "try: os.fstat(fd); print('open')\n"
        "except OSError: print('closed')\n",
        False,
    ),
    "os.nice/rlimit": (
        "work:step",
        "import resource\ndef step(i): resource.setrlimit(resource.RLIMIT_NOFILE,(500+i,4096))",
        "import work\n"
        "import resource\n"
        "for i in range(20):\n"
        "    work.step(i)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n",
        False,
    ),
    "lseek shared fd": (
        "work:step",
        "import os\ndef step(fd,i): os.lseek(fd,1,1)",
        "import work\n"
        "import os; fd=os.open('work.py',0)\n"
        "for i in range(20):\n"
        "    work.step(fd,i)\n"
        "print(os.read(fd,5))\n",
        False,
    ),
    "stdin read": (
        "work:step",
        "import sys\ndef step(i): return sys.stdin.readline()",
        "import work\nimport sys\nfor i in range(20):\n    work.step(i)\nprint(len(sys.stdin.read()))\n",
        False,
    ),
}
# name: (component, what work.py holds, what app.py holds).
PURE: dict[str, tuple[str, str, str]] = {
    "fib": (
        "work:step",
        "def step(n): return n if n<2 else step(n-1)+step(n-2)",
        "import work\nfor i in range(10): print(work.step(i))\n",
    ),
    "numpy returns": (
        "work:step",
        "import numpy as np\ndef step(a): return a*2",
        "import work\n"
        "import numpy as np; a=np.ones(9); s=0\n"
        "for i in range(20):\n"
        "    s=s+work.step(a).sum()\n"
        "print(s)\n",
    ),
    "string": (
        "work:step",
        "def step(s): return s.upper()",
        "import work\nt=''\nfor i in range(20):\n    t+=work.step(str(i)+'a')\nprint(t)\n",
    ),
    "json dumps": (
        "work:step",
        "import json\ndef step(d): return json.dumps(d)",
        "import work\nt=0\nfor i in range(20):\n    t+=len(work.step({'a':i}))\nprint(t)\n",
    ),
    "own rng seeded": (
        "work:step",
        "import random\ndef step(i): return random.Random(i).random()",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i)\nprint(t)\n",
    ),
    "returns generator-made list": (
        "work:step",
        "def step(i): return [k for k in range(i)]",
        "import work\nt=0\nfor i in range(20):\n    t+=len(work.step(i))\nprint(t)\n",
    ),
    "prints time in program": (
        "work:step",
        "def step(i): return i",
        "import work,time\nfor i in range(20): work.step(i)\nprint('took', time.perf_counter())\n",
    ),
    "prints pid/id": (
        "work:step",
        "def step(i): return i",
        "import work,os\nfor i in range(20): work.step(i)\nprint(os.getpid(), object())\n",
    ),
    "reads a file": (
        "work:step",
        "def step(i): return open('work.py').read()[i]",
        "import work\nt=''\nfor i in range(20):\n    t+=work.step(i)\nprint(t)\n",
    ),
    "namedtuple": (
        "work:step",
        "import collections\nP=collections.namedtuple('P','a b')\ndef step(i): return P(i,i)",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i).a\nprint(t)\n",
    ),
    "set result random hash": (
        "work:step",
        "def step(i): return {str(i),'a','b'}",
        "import work\nt=set()\nfor i in range(20):\n    t|=work.step(i)\nprint(sorted(t))\n",
    ),
    "decimal/frac/datetime": (
        "work:step",
        "import datetime,decimal\n"
        "def step(i): return datetime.date(2020,1,1)+datetime.timedelta(i), decimal.Decimal(i)/3",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i)[1]\nprint(t)\n",
    ),
    "re with cache": (
        "work:step",
        "import re\ndef step(i): return re.sub('%d'%i,'x','12345')",
        "import work\nt=''\nfor i in range(20):\n    t+=work.step(i)\nprint(t)\n",
    ),
    "lru_cached itself": (
        "work:step",
        "import functools\n@functools.lru_cache\ndef step(i): return i*2",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i%4)\nprint(t)\n",
    ),
    "local mutable, deep copy of arg": (
        "work:step",
        "import copy\ndef step(x,i):\n x=copy.deepcopy(x); x.append(i); return sum(x)",
        "import work\nx=[1]; t=0\nfor i in range(20):\n    t+=work.step(x,i)\nprint(t, x)\n",
    ),
    "object with __eq__ and floats nan": (
        "work:step",
        "def step(i): return float('nan')",
        "import work\nt=0\nfor i in range(20):\n    t=work.step(i)\nprint(t)\n",
    ),
    "lazy import inside + logging debug": (
        "work:step",
        "import logging\n"
        "def step(i):\n"
        " import textwrap\n"
        " logging.getLogger(__name__).debug('x %s',i)\n"
        " return textwrap.fill('a b '*i,20)",
        "import work\nt=0\nfor i in range(20):\n    t+=len(work.step(i))\nprint(t)\n",
    ),
    "caught exception inside": (
        "work:step",
        "def step(i):\n try: return {}[i]\n except KeyError: return -1",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i)\nprint(t)\n",
    ),
    "bytes/memoryview result": (
        "work:step",
        "def step(b,i): return bytes(memoryview(b)[:i])",
        "import work\nt=0\nfor i in range(20):\n    t+=len(work.step(b'abc'*20,i))\nprint(t)\n",
    ),
    "class instance result": (
        "work:step",
        "class R:\n def __init__(s,i): s.i=i\n def val(s): return s.i\ndef step(i): return R(i)",
        "import work\nt=0\nfor i in range(20):\n    t+=work.step(i).val()\nprint(t)\n",
    ),
}
