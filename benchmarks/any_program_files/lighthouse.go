// limit: timer | lighthouse|rotate
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func rotate(angle float64) float64 {
	for k := 0; k < 20000; k++ {
		angle = angle*1.0000001 + 0.5
	}
	return angle
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	flashes, angle := make(chan float64), 0.0
	go func() {
		for time.Now().Before(end) {
			angle = rotate(angle)
			flashes <- angle
			time.Sleep(2 * time.Millisecond)
		}
		close(flashes)
	}()
	seen := 0
	for range flashes {
		seen++
	}
	fmt.Println(seen, "flashes")
}
