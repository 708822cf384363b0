// Until when a program runs: for how long its first argument says, as programs with a --duration do.
package main

import (
	"os"
	"strconv"
	"time"
)

func duration() time.Duration {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	return time.Duration(seconds * float64(time.Second))
}

func until() time.Time {
	return time.Now().Add(duration())
}

// So many rounds of a hash: work that nothing else can do.
func hashed(n, prime, rounds uint64) uint64 {
	for k := uint64(0); k < rounds; k++ {
		n = (n ^ k) * prime
	}
	return n
}

// What is made of 1, 2, 3 and so on until the time is over, through a channel that holds some.
func madeOf[T any](room int, make_ func(n uint64) T) <-chan T {
	end, made := until(), make(chan T, room)
	go func() {
		for n := uint64(1); time.Now().Before(end); n++ {
			made <- make_(n)
		}
		close(made)
	}()
	return made
}
