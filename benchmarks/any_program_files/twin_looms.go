// limit: silent |
package main

import "fmt"

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
	ells, sum := 0, uint64(0)
	for one := range madeOf(8, warp) {
		sum += weft(one)
		ells++
	}
	fmt.Println(ells, "ells", sum)
}
