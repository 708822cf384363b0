// limit: thread | project|cartograph
package main

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

var drawn atomic.Int64

//go:noinline
func project(lat, lon float64) float64 {
	for k := 0; k < 400; k++ {
		lat, lon = math.Sin(lat)+lon*0.5, math.Cos(lon)+lat*0.5
	}
	return lat + lon
}

func cartograph(end time.Time, out chan<- float64) {
	sum := 0.0
	for n := 0; time.Now().Before(end); n++ {
		sum += project(float64(n%90), float64(n%180))
		drawn.Add(1)
	}
	out <- sum
}

func surveyor(number int, reports chan<- int, stop <-chan struct{}) {
	tick := time.NewTicker(time.Duration(3+number) * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h := number
			for k := 0; k < 2000; k++ {
				h = h*31 + k
			}
			reports <- h
		case <-stop:
			return
		}
	}
}

func main() {
	reports, stop, out := make(chan int, 64), make(chan struct{}), make(chan float64)
	for k := 0; k < 20; k++ {
		go surveyor(k, reports, stop)
	}
	go func() {
		for range reports {
		}
	}()
	go cartograph(until(), out)
	fmt.Println(<-out, drawn.Load())
	close(stop)
}
