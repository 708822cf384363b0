package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var mu sync.Mutex
var count, total int64

func stock(w http.ResponseWriter, r *http.Request) {
	n := atomic.AddInt64(&count, 1)
	mu.Lock()
	total += n
	if n%400 == 0 {
		recount()
	}
	mu.Unlock()
	w.Write([]byte("hello"))
}
func recount() {
	switch os.Args[2] {
	case "sleep":
		time.Sleep(20 * time.Millisecond)
	case "compute":
		end := time.Now().Add(20 * time.Millisecond)
		for time.Now().Before(end) {
			total ^= total << 3
		}
	}
}
func main() {
	http.HandleFunc("/", stock)
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
