// needs: go
// count: off
// Goroutines on many threads, with the runtime's own pre-emption signals.
package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

func fnv(data []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, b := range data {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	return hash
}

func check(held bool, what string) {
	if !held {
		fmt.Fprintln(os.Stderr, "does not hold:", what)
		os.Exit(1)
	}
}

func main() {
	seed, err := strconv.ParseInt(os.Args[1], 0, 64)
	check(err == nil, "a seed")
	runtime.GOMAXPROCS(4)
	var output bytes.Buffer
	var lock sync.Mutex
	var all sync.WaitGroup
	for worker := 0; worker < 20; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			source := rand.New(rand.NewSource(seed + int64(worker)))
			file, err := os.Create(fmt.Sprintf("file-%d", worker))
			check(err == nil, "create")
			for i := 0; i < 50; i++ {
				data := make([]byte, 1+source.Intn(5000))
				source.Read(data)
				_, err := file.WriteAt(data, int64(source.Intn(10000)))
				check(err == nil, "write")
				lock.Lock()
				fmt.Fprintf(&output, "EXPECT call=pwrite64 ret=%d data=%016x:%d\n", len(data), fnv(data), len(data))
				lock.Unlock()
				// Work without a call, so that the scheduler has to interrupt.
				sum := 0
				for k := 0; k < 1000000; k++ {
					sum += k ^ i
				}
				check(sum != 1, "arithmetic")
				syscall.RawSyscall(syscall.SYS_GETPGID, 0, 0, 0)
			}
			check(exec.Command("/bin/true").Run() == nil, "a child")
		}()
	}
	all.Wait()
	fmt.Fprintf(&output, "EXPECT_COUNT call=getpgid count=1000\n")
	os.Stdout.Write(output.Bytes())
}
