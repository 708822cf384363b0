// limit: silent |
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func warp(n uint64) uint64 {
	for k := uint64(0); k < 150000; k++ {
		n = (n ^ k) * 0x100000001b3
	}
	return n
}

//go:noinline
func weft(n uint64) uint64 {
	for k := uint64(0); k < 150000; k++ {
		n = (n ^ k) * 0x100000001b5
	}
	return n
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	cloth := make(chan uint64, 8)
	go func() {
		for n := uint64(1); time.Now().Before(end); n++ {
			cloth <- warp(n)
		}
		close(cloth)
	}()
	ells, sum := 0, uint64(0)
	for one := range cloth {
		sum += weft(one)
		ells++
	}
	fmt.Println(ells, "ells", sum)
}
