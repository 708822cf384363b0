# limit: disk,process | sync|dd|disk|copy
# Copies of a small file, each one synchronised with the disk.
end=$(( $(date +%s) + ${1%.*} ))
folder=$(mktemp -d ./copyXXXXXX)
while [ "$(date +%s)" -lt "$end" ]; do
    dd if=/dev/zero of="$folder/copy" bs=4k count=40 oflag=dsync 2> /dev/null
done
rm -r "$folder"
