# limit: timer | sleep|watcher|sh
# A watcher looks into a folder ten times a second.
end=$(( $(date +%s) + ${1%.*} + 1 ))
while [ "$(date +%s)" -lt "$end" ]; do
    ls /tmp > /dev/null
    sleep 0.1
done
