// limit: thread | press|collect
package main

import (
	"fmt"
	"time"
)

type leaf struct {
	next *leaf
	vein [6]uint64
}

//go:noinline
func press(n int) *leaf {
	var first *leaf
	for k := 0; k < 5000; k++ {
		first = &leaf{next: first, vein: [6]uint64{uint64(n), uint64(k)}}
	}
	return first
}

func main() {
	end := until()
	sheets := make(chan *leaf, 8)
	go func() {
		for n := 0; time.Now().Before(end); n++ {
			sheets <- press(n)
		}
		close(sheets)
	}()
	keep := make([]*leaf, 200)
	count := 0
	for sheet := range sheets {
		keep[count%len(keep)] = sheet
		count++
	}
	fmt.Println(count, "sheets")
}
