// limit: timer | goroutines|deliver
package main

import (
	"hash/crc32"
	"sync"
	"time"
)

func deliver(in <-chan []byte, out chan<- uint32, wg *sync.WaitGroup) {
	defer wg.Done()
	for p := range in {
		time.Sleep(6 * time.Millisecond)
		out <- crc32.ChecksumIEEE(p)
	}
}
func sign(in <-chan uint32, done chan<- bool) {
	x := uint32(0)
	for v := range in {
		x ^= v
	}
	_ = x
	done <- true
}
func main() {
	in, out, done := make(chan []byte, 4), make(chan uint32, 4), make(chan bool)
	var wg sync.WaitGroup
	wg.Add(2)
	go deliver(in, out, &wg)
	go deliver(in, out, &wg)
	go sign(out, done)
	for i := 0; i < 1400; i++ {
		in <- make([]byte, 20000)
	}
	close(in)
	wg.Wait()
	close(out)
	<-done
}
