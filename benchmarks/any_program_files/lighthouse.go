// limit: timer | lighthouse|rotate
package main

import (
	"fmt"
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
	end := until()
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
