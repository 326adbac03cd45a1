// needs: go
// One goroutine that works on files: a Go program whose calls can be counted.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"unsafe"
)

func fnv(data []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, b := range data {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	return hash
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	// The runtime's own calls depend on the time; with few of them the counts stay comparable.
	const calm = "GODEBUG=asyncpreemptoff=1"
	if os.Getenv("GODEBUG") == "" {
		self, err := os.Executable()
		must(err)
		must(syscall.Exec(self, os.Args, append(os.Environ(), calm)))
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	seed, err := strconv.ParseInt(os.Args[1], 0, 64)
	must(err)
	source := rand.New(rand.NewSource(seed))
	file, err := syscall.Open("file", syscall.O_RDWR|syscall.O_CREAT, 0o600)
	must(err)
	data := make([]byte, 3000)
	for i := 0; i < 20; i++ {
		part := data[:1+source.Intn(len(data))]
		source.Read(part)
		_, err := syscall.Pwrite(file, part, int64(i*len(data)))
		must(err)
		fmt.Printf("EXPECT call=pwrite64 ret=%d data=%016x:%d\n", len(part), fnv(part), len(part))
	}
	// Raw calls, of which the runtime's monitor takes no notice, and such as the runtime never makes.
	var state syscall.Stat_t
	for i := 0; i < 8000; i++ {
		syscall.RawSyscall(syscall.SYS_FSTAT, uintptr(file), uintptr(unsafe.Pointer(&state)), 0)
		syscall.RawSyscall(syscall.SYS_LSEEK, uintptr(file), uintptr(i), 0)
	}
	must(syscall.Close(file))
	must(syscall.Unlink("file"))
}
