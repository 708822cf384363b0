// limit: lock | enter|Mutex
package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type guestBook struct {
	sync.Mutex
	pages [1024]uint64
}

//go:noinline
func (b *guestBook) enter(name uint64) uint64 {
	b.Lock()
	for k := range b.pages {
		name = (name ^ b.pages[k]) * 0x100000001b3
		for r := 0; r < 40; r++ {
			name = name<<7 ^ name>>3 + uint64(r)
		}
		b.pages[k] = name
	}
	b.Unlock()
	return name
}

//go:noinline
func greet(name uint64) uint64 {
	return hashed(name, 0x100000001b3, 10000)
}

func main() {
	var book guestBook
	var closed atomic.Bool
	var guests atomic.Int64
	var crew sync.WaitGroup
	for k := 0; k < 8; k++ {
		crew.Add(1)
		go func(name uint64) {
			defer crew.Done()
			for !closed.Load() {
				name = book.enter(greet(name))
				guests.Add(1)
			}
		}(uint64(k) + 3)
	}
	time.Sleep(duration())
	closed.Store(true)
	crew.Wait()
	fmt.Println(guests.Load(), "guests")
}
