// limit: disk | disk|registry
package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"time"
)

//go:noinline
func record(n int) []byte {
	line := []byte(fmt.Sprintf("plot %d of the northern parish, sold\n", n))
	return strconv.AppendUint(line, uint64(crc32.ChecksumIEEE(line)), 16)
}

func main() {
	end := until()
	file, err := os.CreateTemp("/var/tmp", "registry-*.log")
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	lines := make(chan []byte, 4)
	go func() {
		for n := 0; time.Now().Before(end); n++ {
			lines <- record(n)
		}
		close(lines)
	}()
	count := 0
	for line := range lines {
		file.Write(line)
		file.Sync()
		count++
	}
	fmt.Println(count, "plots")
}
