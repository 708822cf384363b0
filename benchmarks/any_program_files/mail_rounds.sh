# limit: timer,process | sleep|timer|nanosleep|mail_rounds|bash
rounds=0
seconds=6
for seconds; do :; done
deliver() {
  local letter=$1 street=$(( $1 * 7 % 31 ))
  printf 'letter %d to street %d\n' "$letter" "$street"
}
SECONDS=0
while (( SECONDS < seconds )); do
  for letter in 1 2 3 4 5 6; do deliver $(( rounds * 6 + letter )); done > /dev/null
  rounds=$(( rounds + 1 ))
  sleep 0.2
done
echo "$rounds rounds"
