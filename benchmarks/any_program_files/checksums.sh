# limit: process,thread | sha512sum
# Two checksums at a time over the same file, by xargs.
file=$(mktemp)
head -c 60000000 /dev/zero > "$file"
yes "$file" | head -n "$(( ${1%.*} * 12 ))" | xargs -P 2 -n 1 sha512sum > /dev/null
rm "$file"
