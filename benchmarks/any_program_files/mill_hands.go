// limit: thread,cpu | grind|CPU
package main

import (
	"fmt"
	"sync"
	"time"
)

//go:noinline
func grind(n uint64) uint64 {
	for k := uint64(0); k < 200000; k++ {
		n = (n ^ k) * 0x100000001b3
	}
	return n
}

func main() {
	end := until()
	sacks, flour := make(chan uint64, 8), make(chan uint64, 8)
	var hands sync.WaitGroup
	for k := 0; k < 4; k++ {
		hands.Add(1)
		go func() {
			defer hands.Done()
			for n := range sacks {
				flour <- grind(n)
			}
		}()
	}
	go func() {
		for n := uint64(0); time.Now().Before(end); n++ {
			sacks <- n
		}
		close(sacks)
		hands.Wait()
		close(flour)
	}()
	sum, count := uint64(0), 0
	for one := range flour {
		sum += one
		count++
	}
	fmt.Println(count, "sacks", sum)
}
