// Package expect has the checks that the tests of many packages need. A check that fails marks the
// test as failed and says what differs; only NoError ends it.
package expect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Equal fails the test unless got is want. It also compares fields that are not exported.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Contains fails the test unless part is in got.
func Contains(t testing.TB, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s:\n\tgot %s\n\twant it to contain %s", what, got, part)
	}
}

// NoError ends the test if err is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
