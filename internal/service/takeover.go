package service

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// takeoverNote is between the earlier message of a condition and the time of a takeover.
const takeoverNote = "; a new allocator has taken over at "

// TakeoverPatch returns a merge patch of services/status that always changes the version of svc.
// The condition of svc then says that a new allocator took over at the time now. Addresses,
// annotations and the reason of the condition stay, so that nothing is reported twice.
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
