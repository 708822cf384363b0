# limit: timer | sleep|heartbeat_log|sh
end=$(( $(date +%s) + ${1%.*} + 1 ))
n=0
while [ "$(date +%s)" -lt "$end" ]; do
  n=$((n + 1))
  echo "beat $n" >> /tmp/heartbeat.$$
  sleep 0.1
done
rm -f /tmp/heartbeat.$$
