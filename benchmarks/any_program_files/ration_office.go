// limit: cpu | quota | quota=0.4
package main

import "fmt"

//go:noinline
func ration(n uint64) uint64 {
	for k := uint64(0); k < 100000; k++ {
		n = (n ^ k) * 0x100000001b3
	}
	return n
}

func main() {
	cards := madeOf(8, ration)
	count, sum := 0, uint64(0)
	for card := range cards {
		sum += card
		count++
	}
	fmt.Println(count, "cards", sum)
}
