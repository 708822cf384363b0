# limit: process,thread | gzip
#!/bin/sh
seconds=6
for seconds; do :; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%d;%s;%.2f;customer %d\n", i, (i % 3 ? "paid" : "open"), rand() * 900, rand() * 4000 }' > "$work/rows"
end=$(( $(date +%s) + seconds ))
(
  while [ "$(date +%s)" -lt "$end" ]; do cat "$work/rows"; done
) | tr ';' ',' | gzip -9 | wc -c
