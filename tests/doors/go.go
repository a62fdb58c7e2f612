package main

import "C"

var kept [][]byte

func main() {
	for i := 0; i < 10000; i++ {
		kept = append(kept, make([]byte, 1000))
	}
}
