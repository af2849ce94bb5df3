// Preflight says what this machine lacks for the lab: what, why, and how to get it. It imports
// little, so that it answers before anything else is compiled or installed. hack/preflight runs it.
package main

import (
	"fmt"
	"os"

	"purelb.io/purelb/lab/internal/preflight"
	"purelb.io/purelb/lab/internal/state"
)

func main() {
	if err := preflight.Inspect(state.Default().Probe()).Missing(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
