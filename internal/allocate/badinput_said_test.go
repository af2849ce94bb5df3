package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// objectionsOf returns the objections of the API server.
func objectionsOf(err error) string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return "refused: " + err.Error()
	}
	var all []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if text := cause.Field + ": " + cause.Message; !strings.Contains(text, "some validation rules were not checked") && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return "refused: " + strings.Join(all, "; ")
}

// saying returns the text of a condition.
func saying(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// saying waits until what returns want.
func (o *badInputTest) saying(want string, what func() string) {
	o.Helper()
	said := what()
	for end := time.Now().Add(patience); said != want && time.Now().Before(end); said = what() {
		time.Sleep(5 * time.Millisecond)
	}
	o.same(said, want)
}

// service creates, or changes, the Service of row, which has a mistake.
func (o *badInputTest) service(row badService) {
	svc := row.svc
	o.due(svc, 1+row.more+row.vain)
	if err := o.client.Create(context.Background(), svc); err != nil && !row.found {
		o.same(objectionsOf(err), row.want)
		o.fine()
		return
	}
	for _, patch := range row.later {
		before := o.heard(svc, "nothing")
		o.change(svc, patch)
		if patch != row.later[len(row.later)-1] {
			o.heard(svc, before)
		}
	}
	if row.then != nil {
		o.heard(svc, "nothing")
		row.then(o.world)
	}
	o.saying(row.want, func() string { return o.of(svc) })
	o.fine()
	o.same(o.of(svc), row.want)
}

// of returns the text of svc's condition, with ADDRESS in place of its first address.
func (o *badInputTest) of(svc *corev1.Service) string {
	o.Helper()
	said := saying(fetch(o.world, svc).Status.Conditions, service.ConditionAllocated)
	first, _, _ := strings.Cut(addressesOf(svc), " ")
	if strings.HasPrefix(first, "10.200.0.") {
		said = strings.ReplaceAll(said, first, "ADDRESS")
	}
	return strings.ReplaceAll(said, o.namespace, "purelb-system")
}

// heard waits until the condition of svc differs from before, and returns it.
func (o *badInputTest) heard(svc *corev1.Service, before string) (said string) {
	o.Helper()
	o.soon(func() error {
		if said = o.of(svc); said == before {
			return errNotYet
		}
		return nil
	})
	return said
}

// same fails unless said equals want.
func (o *badInputTest) same(said, want string) {
	o.Helper()
	if said != want {
		o.Errorf("got\n%s\nwant\n%s", said, want)
	}
}

// stays fails unless all Services still have their first condition, and cost exactly the expected
// writes.
func (o *badInputTest) stays() {
	for _, row := range o.services {
		if strings.HasPrefix(row.want, "refused: ") {
			continue
		}
		o.saying(row.want, func() string { return o.of(row.svc) })
		o.soon(func() error {
			o.count()
			if n := o.seen[pathOf(row.svc)]; n < 1+row.more {
				return fmt.Errorf("%s: there were %d writes, want %d", row.name, n, 1+row.more)
			}
			return nil
		})
	}
}

// eachHasEvent fails unless each refusal was also reported by one event.
func (o *badInputTest) eachHasEvent() {
	for _, row := range o.services {
		if !strings.HasPrefix(row.want, "False") || strings.HasPrefix(row.want, "False AddressConflict") {
			continue
		}
		o.soon(func() error {
			said := o.messages(row.svc, "AllocationFailed")
			if len(said) == 0 {
				return fmt.Errorf("%s: no event reports the refusal", row.name)
			}
			refusal := strings.TrimPrefix(said[len(said)-1], fmt.Sprintf("Failed to allocate IP for %q: ", row.svc.Namespace+"/"+row.svc.Name))
			if refusal == said[len(said)-1] || !strings.HasSuffix(saying(row.svc.Status.Conditions, service.ConditionAllocated), refusal) {
				return fmt.Errorf("%s: events say %q", row.name, said)
			}
			if len(said) > 1 {
				o.Errorf("%s: %d events report the refusal: %q", row.name, len(said), said)
			}
			return nil
		})
	}
}

// counted fails unless refusals of each kind were counted.
func (o *badInputTest) counted() {
	for _, reason := range []string{
		"exhausted", "port_conflict", "sharing_key_conflict", "multipool_refused", "multipool_pool_mismatch",
		"namespace_denied", "ambiguous_namespace_default", "no_usable_pool", "unknown_pool", "other",
	} {
		o.soon(func() error {
			if o.running.counter("purelb_address_pool_allocation_rejected_total", "reason="+reason) == 0 {
				return fmt.Errorf("the metric counts no refusal as %s", reason)
			}
			return nil
		})
	}
}

// TestManualQuotesTheMessages compares the messages in docs/refusals.md with the table.
func TestManualQuotesTheMessages(t *testing.T) {
	said := map[string]bool{}
	note := func(want string) {
		if _, message, found := strings.Cut(want, ": "); found {
			said[message] = true
		}
	}
	for _, row := range badGroups(t) {
		note(row.want)
	}
	for _, row := range badServices(t) {
		note(row.want)
	}
	for _, message := range []string{saidListed, saidListedToo, saidClaimed, saidContested, saidPolicyLeft, saidStranded, saidNotAdopted, saidWaiting, saidRefused, saidMisconfigured, saidUnavailable} {
		said[message] = true
	}
	quotes := regexp.MustCompile("(?m)^> `(.*)`$").FindAllStringSubmatch(apitest.Text(t, "docs/refusals.md"), -1)
	if len(quotes) == 0 {
		t.Error("the manual quotes no message")
	}
	for _, quote := range quotes {
		if message := quote[1]; !said[message] {
			t.Errorf("docs/refusals.md quotes a message that is not in the table:\n%s", message)
		}
	}
}
