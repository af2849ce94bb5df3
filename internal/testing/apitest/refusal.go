package apitest

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// value is the part of an error in which the API server quotes the wrong value.
var value = regexp.MustCompile(`^Invalid value: (("[^"]*"|-?[0-9]+): )?`)

// Refusals returns the API server's objections in err, by field, without the wrong values.
// It returns "" if err is nil. The API server does not order them, so Refusals sorts them.
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
