# limit: process | bzip2
# A log is made, filtered and packed by four programs in a line.
end=$(( $(date +%s) + ${1%.*} ))
while [ "$(date +%s)" -lt "$end" ]; do
    seq 1 60000 | awk '{print $1, $1 * 7 % 1001, "GET /index"}' | grep -v 99 | bzip2 -9 > /dev/null
done
