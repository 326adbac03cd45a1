// Two goroutines say hello: a random number from one, the time from the other.
// count: off
package main

import (
	"fmt"
	"math/rand"
	"time"
)

func main() {
	numbers := make(chan int)
	go func() { numbers <- rand.Int() }()
	fmt.Println("hello", <-numbers, time.Now())
}
