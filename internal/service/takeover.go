package service

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// takeoverNote is between what a condition says and the time at which a new
// allocator took over.
const takeoverNote = "; a new allocator has taken over at "

// TakeoverPatch returns the merge patch of services/status that gives svc another
// version, whatever it says: beside that, its condition says that a new allocator has
// taken over at now. Addresses and annotations stay as they are, and so does the
// reason of the condition, so that nothing is told twice.
func TakeoverPatch(svc *corev1.Service, now time.Time) ([]byte, error) {
	at := takeoverNote + now.UTC().Format(time.RFC3339Nano)
	r := Read(svc, true)
	c := Result{Addresses: r.Held, From: r.From, Reason: "Pending"}.condition(svc, now)
	c.Message = Result{Addresses: r.Held, From: r.From}.Having("this Service is about to be looked at")
	if said := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated); said != nil {
		c = *said
	}
	said, _, _ := strings.Cut(c.Message, takeoverNote)
	c.Message = clipTo(said, mostBeforeTakeover) + at
	conditions := slices.Clone(svc.Status.Conditions)
	meta.SetStatusCondition(&conditions, c)
	return patch{Status: &status{Conditions: &conditions}}.bytes(svc)
}
