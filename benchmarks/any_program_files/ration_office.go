// limit: cpu | quota | quota=0.4
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func ration(n uint64) uint64 {
	for k := uint64(0); k < 100000; k++ {
		n = (n ^ k) * 0x100000001b3
	}
	return n
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	cards := make(chan uint64, 8)
	go func() {
		for n := uint64(1); time.Now().Before(end); n++ {
			cards <- ration(n)
		}
		close(cards)
	}()
	count, sum := 0, uint64(0)
	for card := range cards {
		sum += card
		count++
	}
	fmt.Println(count, "cards", sum)
}
