# limit: process | xz
# A stream of words, packed by xz; numbers are made faster than they can be packed.
timeout "$1" seq 1 100000000 | tr '0-4' 'a-e' | xz -4 -T1 -c > /dev/null
