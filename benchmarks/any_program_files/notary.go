// limit: thread | engross
package main

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

type deed struct {
	number uint64
	text   []byte
	seal   [32]byte
}

//go:noinline
func draft(n uint64) *deed {
	d := &deed{number: n, text: make([]byte, 0, 4096)}
	for len(d.text) < 4000 {
		d.text = strconv.AppendInt(append(d.text, "whereas "...), int64(n)*int64(len(d.text)), 10)
	}
	return d
}

//go:noinline
func engross(d *deed) {
	d.seal = sha256.Sum256(d.text)
	for k := 0; k < 4; k++ {
		for i := range d.text {
			h := uint32(d.seal[i%32])
			for r := 0; r < 60; r++ {
				h = h*16777619 ^ uint32(d.text[i])
			}
			d.text[i] = 'a' + byte(h>>8)%26
		}
		d.seal = sha256.Sum256(d.text)
	}
}

//go:noinline
func register(d *deed, book map[[32]byte]uint64) {
	for k := 0; k < 20; k++ {
		s := sha256.Sum256(append(d.seal[:], byte(k)))
		book[s] = d.number
	}
	if len(book) > 20000 {
		for s := range book {
			delete(book, s)
		}
	}
}

func main() {
	drafts, deeds := madeOf(8, draft), make(chan *deed, 8)
	go func() {
		for d := range drafts {
			engross(d)
			deeds <- d
		}
		close(deeds)
	}()
	book := map[[32]byte]uint64{}
	count := 0
	for d := range deeds {
		register(d, book)
		count++
	}
	fmt.Println(count, "deeds", len(book))
}
