// limit: process | oracle|sed|awk|child
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"time"
)

func oracle() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		h := uint64(len(lines.Text()))
		for k := uint64(0); k < 1500000; k++ {
			h = (h ^ k) * 0x100000001b3
		}
		fmt.Println(h)
	}
}

//go:noinline
func ask(n int) string {
	return fmt.Sprintf("what comes after %d?", n)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "oracle" {
		os.WriteFile("/proc/self/comm", []byte("oracle"), 0)
		oracle()
		return
	}
	end := until()
	child := exec.Command("/proc/self/exe", "oracle")
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		panic(err)
	}
	answers, count := make(chan string, 4), 0
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			answers <- lines.Text()
		}
		close(answers)
	}()
	for n := 0; time.Now().Before(end); n++ {
		fmt.Fprintln(in, ask(n))
		<-answers
		count++
	}
	in.Close()
	child.Wait()
	fmt.Println(count, "answers")
}
