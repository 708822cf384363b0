// limit: silent |
package main

import "fmt"

//go:noinline
func warp(n uint64) uint64 {
	return hashed(n, 0x100000001b3, 150000)
}

//go:noinline
func weft(n uint64) uint64 {
	return hashed(n, 0x100000001b5, 150000)
}

func main() {
	ells, sum := 0, uint64(0)
	for one := range madeOf(8, warp) {
		sum += weft(one)
		ells++
	}
	fmt.Println(ells, "ells", sum)
}
