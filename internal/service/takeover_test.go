package service_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
)

func TestTakeoverChangesOnlyTheVersion(t *testing.T) {
	tests := []struct{ name, reason, message string }{
		{"a refusal", "Exhausted", "pool \"default\" exhausted"},
		{"a long refusal", "Exhausted", strings.Repeat("long ", 2000)},
		{"addresses", "Allocated", "Assigned 192.0.2.1 from pool default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := says(t, svc(), service.Result{Reason: tt.reason, Message: tt.message}, now)
			for i := range 3 {
				patch, err := service.TakeoverPatch(s, now.Add(time.Duration(i)*time.Nanosecond))
				if err != nil {
					t.Fatal(err)
				}
				before := s.Status.Conditions[0].Message
				if s = patched(t, s, patch); s.Status.Conditions[0].Message == before {
					t.Fatalf("takeover %d changes nothing", i)
				}
				if !service.Says(s, tt.reason, tt.message) {
					t.Fatalf("takeover %d changes the refusal: %v", i, s.Status.Conditions)
				}
				if service.Says(s, tt.reason, "another message") {
					t.Error("another message counts as no change")
				}
			}
			if n := len(s.Status.Conditions[0].Message); n > 4200 {
				t.Errorf("the message has %d bytes", n)
			}
		})
	}
}

func TestTakeoverKeepsAddressesOurs(t *testing.T) {
	tests := []struct {
		name string
		svc  *corev1.Service
	}{
		{"of this version", svc(listing("192.0.2.1"), showing("192.0.2.1"))},
		{"of the previous version", svc(said("Assigned 192.0.2.1 from pool default"), showing("192.0.2.1"))},
		{"of the first versions", svc(annotated(service.AnnotationAllocatedBy, service.Brand), showing("192.0.2.1"))},
	}
	for _, s := range tests {
		patch, err := service.TakeoverPatch(s.svc, now)
		if err != nil {
			t.Fatal(err)
		}
		after := patched(t, s.svc, patch)
		after.Annotations = nil
		if o := service.OwnershipOf(after, true); len(o.Shown) != 1 {
			t.Errorf("a Service %s is %s after a takeover and the loss of its annotations", s.name, owned(o))
		}
	}
}
