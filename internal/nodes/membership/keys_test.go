package membership

import (
	"slices"
	"sync"
	"testing"
)

// An agent that starts offers the keys of its file while it reads the Secret. Run it with
// -race, which tries enough orders to find a mistake.
func TestKeysOfTheFileNeverReplaceThoseOfTheSecret(t *testing.T) {
	for i := range 1000 {
		ring, start := newKeyring(), make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() { <-start; ring.offer([][]byte{[]byte("of the file")}) })
		both.Go(func() { <-start; ring.put([][]byte{[]byte("of the Secret")}) })
		close(start)
		both.Wait()
		if got := ring.keys(); !slices.Equal(got[0], []byte("of the Secret")) {
			t.Fatalf("after %d tries the ring has the keys %q", i, got)
		}
	}
}
