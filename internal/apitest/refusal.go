package apitest

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// value is how the API server quotes what it has something against.
var value = regexp.MustCompile(`^Invalid value: (("[^"]*"|-?[0-9]+): )?`)

// Refusals returns what the API server has against an object that it has refused
// with err, by field, without the value that it is about; "" when err is nil. The
// API server has no order for them: they are sorted.
func Refusals(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		t.Fatal(err)
	}
	var all []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			all = append(all, cause.Field+": "+value.ReplaceAllString(cause.Message, ""))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
