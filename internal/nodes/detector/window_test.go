package detector

import (
	"fmt"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

func TestWindowRemembersTheLast64(t *testing.T) {
	var w Window
	for _, tt := range []struct {
		number uint64
		want   bool
	}{
		{1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {100, true}, {37, true}, {37, false},
		{36, false}, {3, false}, {99, true}, {1000, true}, {100, false}, {999, true},
	} {
		expect.Equal(t, fmt.Sprintf("the number %d is new", tt.number), w.First(tt.number), tt.want)
	}
}
