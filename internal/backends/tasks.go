package backends

import (
	"context"
	"slices"
	"time"

	"purelb.io/purelb/internal/ipam"
)

const (
	// settle is the shortest time between two measurements. After a change, people see the
	// new count within that time.
	settle = 30 * time.Second
	// rest is the time between two measurements if nothing happens.
	rest = 5 * time.Minute
)

// release releases what the ledger gives up.
func (w *worker) release(ctx context.Context) result {
	grants := w.ledger.Releasing(w.config.Group, w.backend.batch())
	if len(grants) == 0 {
		return result{}
	}
	call, cancel := deadline(ctx)
	defer cancel()
	errs := w.backend.Release(call, grants)
	w.ledger.Released(w.config.Group, grants, errs)
	return w.changed(sum(errs, rootOf))
}

// dismiss releases everything of holders that left the group.
func (w *worker) dismiss(ctx context.Context) result {
	keys := w.ledger.Departed(w.config.Group, w.backend.batch())
	errs := make([]error, len(keys))
	if len(keys) == 0 {
		return result{}
	}
	call, cancel := deadline(ctx)
	defer cancel()
	var away error
	for i, key := range keys {
		if errs[i] = away; away != nil {
			continue
		}
		errs[i] = w.backend.ReleaseAll(call, key)
		if fault := faultOf(errs[i]); fault != nil && fault.Kind != ipam.KindMisconfigured {
			away = &ipam.Error{Kind: ipam.KindUnavailable, Message: "not tried after an error: " + fault.Message, Cause: fault}
		}
	}
	w.ledger.Dismissed(w.config.Group, keys, errs)
	return w.changed(sum(errs, rootOf))
}

// claim claims what the ledger wants.
func (w *worker) claim(ctx context.Context) result {
	claims := w.ledger.Wanted(w.config.Group, w.backend.batch())
	if len(claims) == 0 {
		return result{}
	}
	call, cancel := deadline(ctx)
	defer cancel()
	answers := w.backend.Claim(call, claims)
	w.settle(call, claims, answers)
	w.holdBack(claims, answers)
	w.ledger.Answered(w.config.Group, claims, answers)
	if slices.ContainsFunc(answers, func(a ipam.Answer) bool { return len(a.Surplus) > 0 }) {
		w.freed = false // the next claims may make the same surplus, without end
	}
	w.tellFreed()
	errs := make([]error, len(answers))
	for i, a := range answers {
		errs[i] = a.Err
	}
	return w.changed(sum(errs, faultOf))
}

// settle releases the surplus of answers. It then repeats the claims that were refused because of a
// surplus that is gone now.
func (w *worker) settle(ctx context.Context, claims []ipam.Claim, answers []ipam.Answer) {
	var again []int
	for i, a := range answers {
		for _, ip := range a.Surplus {
			w.noteSurplus(ipam.Grant{Key: claims[i].Key, Address: ip})
		}
		if len(a.Surplus) > 0 && a.Err != nil && faultOf(a.Err) == nil {
			again = append(again, i)
		}
	}
	fault := w.freeSurplus(ctx).fault
	var repeated []ipam.Claim
	again = slices.DeleteFunc(again, func(i int) bool {
		if fault != nil && w.isSurplus(claims[i].Key) {
			answers[i].Err = fault // not the refusal: the ledger must repeat the claim
			return true
		}
		repeated = append(repeated, claims[i])
		return false
	})
	if len(repeated) == 0 {
		return
	}
	for n, a := range w.backend.Claim(ctx, repeated) {
		answers[again[n]] = a
	}
}

// isSurplus reports whether an address of a key must still be released.
func (w *worker) isSurplus(key string) bool {
	return slices.ContainsFunc(w.surplus, func(g ipam.Grant) bool { return g.Key == key })
}

// holdBack withholds a grant if a release of its address may still reach the backend: the backend
// may perform that release after the grant. The claim is repeated after the release.
func (w *worker) holdBack(claims []ipam.Claim, answers []ipam.Answer) {
	for i, a := range answers {
		if a.Err == nil && slices.ContainsFunc(w.surplus, func(g ipam.Grant) bool { return holdOf(g) == holdOf(a.Grant) }) {
			answers[i] = ipam.Answer{Surplus: a.Surplus, Err: &ipam.Error{Kind: ipam.KindUnavailable,
				Message: "the address " + a.Grant.Address.String() + " for " + claims[i].Service + " is being released: the claim is repeated afterwards"}}
		}
	}
}

func (w *worker) noteSurplus(g ipam.Grant) {
	if !slices.ContainsFunc(w.surplus, func(other ipam.Grant) bool { return holdOf(other) == holdOf(g) }) {
		w.surplus = append(w.surplus, g)
	}
}

// releaseSurplus releases the surplus of answers, and what could not be released earlier.
func (w *worker) releaseSurplus(ctx context.Context) result {
	call, cancel := deadline(ctx)
	defer cancel()
	r := w.freeSurplus(call)
	w.tellFreed()
	return r
}

// tellFreed tells the ledger that surplus addresses were released.
func (w *worker) tellFreed() {
	if w.freed {
		w.freed = false
		w.ledger.Freed(w.config.Group)
	}
}

// freeSurplus releases surplus addresses. It skips an address that the cluster uses after
// all, or that a Service has under another key.
func (w *worker) freeSurplus(ctx context.Context) result {
	if len(w.surplus) == 0 {
		return result{}
	}
	held, _, complete := w.holds()
	if !complete {
		return result{}
	}
	w.surplus = slices.DeleteFunc(w.surplus, func(g ipam.Grant) bool { return held[holdOf(g)] || w.ledger.Has(g.Address) })
	grants := w.surplus[:min(len(w.surplus), w.backend.batch())]
	if len(grants) == 0 {
		return result{}
	}
	errs := w.backend.Release(ctx, slices.Clone(grants))
	var failed []ipam.Grant
	for i, err := range errs {
		if err != nil {
			failed = append(failed, grants[i])
		}
	}
	w.surplus = append(slices.Clone(w.surplus[len(grants):]), failed...)
	w.freed = w.freed || len(failed) < len(grants)
	return w.changed(sum(errs, rootOf))
}

// changed notes that the addresses must be counted again.
func (w *worker) changed(r result) result {
	w.dirty = w.dirty || r.count > 0
	return r
}

// countAt returns when to count the addresses.
func (w *worker) countAt() time.Time {
	if fault := w.measuring().fault; fault != nil {
		return w.measuring().next
	}
	if w.measured.IsZero() {
		return time.Time{}
	}
	if w.dirty {
		return w.measured.Add(settle)
	}
	return w.measured.Add(w.backend.rest())
}

// measuring is the pace of the last task.
func (w *worker) measuring() pace { return w.tasks[len(w.tasks)-1].pace }

// measure counts the addresses of the group.
func (w *worker) measure(ctx context.Context) result {
	if time.Now().Before(w.countAt()) {
		return result{}
	}
	call, cancel := deadline(ctx)
	defer cancel()
	c, err := w.backend.Capacity(call)
	w.measured, w.dirty = time.Now(), false
	if err == nil {
		w.state.warn("capacity")
		w.state.measured(c)
		return result{count: 1, decided: 1}
	}
	if fault := w.backend.measuring(err); fault != nil {
		return result{count: 1, fault: fault}
	}
	w.state.warn("capacity", "the number of addresses is not known: "+err.Error())
	return result{count: 1}
}
