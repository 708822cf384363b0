# limit: process | perl|spell
"""Every line goes to a Perl child over its stdin, and its answer is awaited."""

import subprocess
import sys
import time

CHECK = '$|=1; while (<>) { my $n = 0; for my $i (1..40000) { $n += length($_) ^ $i } print "$n\\n" }'

until = time.monotonic() + float(sys.argv[1])
with subprocess.Popen(
    ["perl", "-e", CHECK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
) as child:
    assert child.stdin is not None
    assert child.stdout is not None
    lines = 0
    while time.monotonic() < until:
        print(f"line {lines} of the text", file=child.stdin, flush=True)
        child.stdout.readline()
        lines += 1
    child.stdin.close()
print(lines)
