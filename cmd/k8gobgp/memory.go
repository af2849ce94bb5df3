package main

import (
	"os"
	"runtime/debug"
)

// garbage is how much of it there may be before it is collected, in percent of
// what is in use: half of the usual. There is little of it, and most of what is in
// use are routes, which stay.
const garbage = 50

// collectSooner obeys the environment, if that says something.
func collectSooner() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}
