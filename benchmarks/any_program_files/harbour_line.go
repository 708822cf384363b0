// limit: thread | weigh
package main

import "fmt"

type crate struct {
	number uint64
	marks  [256]uint32
}

//go:noinline
func unload(n uint64) *crate {
	c := &crate{number: n}
	for i := range c.marks {
		c.marks[i] = uint32(n)*uint32(i) ^ 0x9e3779b9
	}
	return c
}

//go:noinline
func inspect(c *crate) {
	for r := 0; r < 30; r++ {
		for i := range c.marks {
			c.marks[i] = c.marks[i]*16777619 ^ uint32(i)
		}
	}
}

//go:noinline
func weigh(c *crate) {
	for r := 0; r < 150; r++ {
		for i := range c.marks {
			c.marks[i] = c.marks[i]*2246822519 ^ uint32(r+i)
		}
	}
}

//go:noinline
func stow(c *crate) (sum uint64) {
	for r := 0; r < 15; r++ {
		for i := range c.marks {
			sum = sum*31 + uint64(c.marks[i])
		}
	}
	return
}

func main() {
	quay := madeOf(16, unload)
	scales, hold := make(chan *crate, 16), make(chan *crate, 16)
	go func() {
		for c := range quay {
			inspect(c)
			scales <- c
		}
		close(scales)
	}()
	go func() {
		for c := range scales {
			weigh(c)
			hold <- c
		}
		close(hold)
	}()
	var sum uint64
	count := 0
	for c := range hold {
		sum += stow(c)
		count++
	}
	fmt.Println(count, "crates", sum)
}
