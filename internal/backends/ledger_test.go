package backends_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// ledger is a Ledger in memory that keeps the contract, for tests.
type ledger struct {
	mu sync.Mutex
	// incomplete says that the allocator has not read all Services yet.
	incomplete bool
	groups     map[string]*accounts
	// shown is an address that a Service has besides its grants.
	shown netip.Addr
	poke  func(group string)
	// news is called after each answer.
	news func()
}

// accounts are the accounts of one group.
type accounts struct {
	queue     []ipam.Claim
	sent      map[string]ipam.Claim
	held      map[string]ipam.Grant
	refused   map[string]error
	releasing []ipam.Grant
	departed  []string
	// freed counts the calls of Freed.
	freed int
}

func newLedger() *ledger {
	return &ledger{groups: map[string]*accounts{}, poke: func(string) {}, news: func() {}}
}

// of returns the accounts of a group. The caller holds the lock.
func (l *ledger) of(group string) *accounts {
	if l.groups[group] == nil {
		l.groups[group] = &accounts{sent: map[string]ipam.Claim{}, held: map[string]ipam.Grant{}, refused: map[string]error{}}
	}
	return l.groups[group]
}

func (l *ledger) Has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.groups {
		for _, g := range of.held {
			if g.Address == a {
				return true
			}
		}
	}
	return a == l.shown
}

func (l *ledger) Wanted(group string, most int) []ipam.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(group)
	n := min(most, len(a.queue))
	for n > 0 && n < len(a.queue) && ipam.HolderOf(a.queue[n-1].Key) == ipam.HolderOf(a.queue[n].Key) {
		n--
	}
	claims := slices.Clone(a.queue[:n])
	a.queue = slices.Clone(a.queue[n:])
	for _, c := range claims {
		a.sent[c.Key] = c
	}
	return claims
}

func (l *ledger) Answered(group string, claims []ipam.Claim, answers []ipam.Answer) {
	defer l.news()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(group)
	for i, c := range claims {
		delete(a.sent, c.Key)
		var e *ipam.Error
		switch err := answers[i].Err; {
		case err == nil:
			a.held[c.Key] = answers[i].Grant
			delete(a.refused, c.Key)
		case errors.As(err, &e) && slices.Contains([]ipam.Kind{ipam.KindExhausted, ipam.KindTaken, ipam.KindInvalid}, e.Kind):
			a.refused[c.Key] = err
		default:
			a.refused[c.Key] = err
			a.queue = append(a.queue, c)
		}
	}
}

func (l *ledger) Releasing(group string, most int) []ipam.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(group)
	n := min(most, len(a.releasing))
	grants := slices.Clone(a.releasing[:n])
	a.releasing = slices.Clone(a.releasing[n:])
	return grants
}

func (l *ledger) Released(group string, grants []ipam.Grant, errs []error) {
	defer l.news()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range grants {
		if errs[i] != nil {
			l.of(group).releasing = append(l.of(group).releasing, g)
		}
	}
}

func (l *ledger) Freed(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(group).freed++
}

// Departed implements Ledger. A holder departs after its last release.
func (l *ledger) Departed(group string, most int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(group)
	if len(a.releasing) > 0 {
		return nil
	}
	n := min(most, len(a.departed))
	keys := slices.Clone(a.departed[:n])
	a.departed = slices.Clone(a.departed[n:])
	return keys
}

func (l *ledger) Dismissed(group string, keys []string, errs []error) {
	defer l.news()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, key := range keys {
		if errs[i] != nil {
			l.of(group).departed = append(l.of(group).departed, key)
		}
	}
}

func (l *ledger) Holds() (map[string][]ipam.Grant, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string][]ipam.Grant{}
	for group, a := range l.groups {
		all[group] = slices.Collect(maps.Values(a.held))
	}
	return all, !l.incomplete
}

func (l *ledger) Register(group string, missing []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range missing {
		c := claimOf(g.Key)
		c.Address = g.Address
		l.of(group).queue = append(l.of(group).queue, c)
	}
}

func (l *ledger) Learn(_ string, grants []ipam.Grant) (orphans []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range grants {
		if !l.open(g.Key) && g.Address != l.shown {
			orphans = append(orphans, g)
		}
	}
	return orphans
}

// open reports whether a claim with this key is in progress or granted.
func (l *ledger) open(key string) bool {
	for _, a := range l.groups {
		_, held := a.held[key]
		_, sent := a.sent[key]
		if held || sent || slices.ContainsFunc(a.queue, func(c ipam.Claim) bool { return c.Key == key }) {
			return true
		}
	}
	return false
}

// want queues claims with these keys.
func (l *ledger) want(group string, keys ...string) {
	l.mu.Lock()
	for _, key := range keys {
		l.of(group).queue = append(l.of(group).queue, claimOf(key))
	}
	l.mu.Unlock()
	l.poke(group)
}

// wantNamed queues a claim for a certain address.
func (l *ledger) wantNamed(group, key, address string) {
	l.mu.Lock()
	c := claimOf(key)
	c.Address = netip.MustParseAddr(address)
	l.of(group).queue = append(l.of(group).queue, c)
	l.mu.Unlock()
	l.poke(group)
}

// unname makes the waiting claims accept any address.
func (l *ledger) unname(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.of(group).queue {
		l.of(group).queue[i].Address = netip.Addr{}
	}
}

// giveUp queues the release of the grants with these keys.
func (l *ledger) giveUp(group string, keys ...string) {
	l.mu.Lock()
	a := l.of(group)
	for _, key := range keys {
		a.releasing = append(a.releasing, a.held[key])
		a.departed = append(a.departed, key)
		delete(a.held, key)
	}
	l.mu.Unlock()
	l.poke(group)
}

// giveUpIfHeld calls giveUp if the key has a grant. Otherwise it withdraws the claim.
func (l *ledger) giveUpIfHeld(group, key string) {
	l.mu.Lock()
	_, held := l.of(group).held[key]
	l.of(group).queue = slices.DeleteFunc(l.of(group).queue, func(c ipam.Claim) bool { return c.Key == key })
	l.mu.Unlock()
	if held {
		l.giveUp(group, key)
	}
}

// restart leaves only the knowledge of a new allocator: the addresses that Services show, and the
// claims.
func (l *ledger) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.groups {
		for _, key := range slices.Sorted(maps.Keys(a.sent)) {
			a.queue = append(a.queue, a.sent[key])
		}
		clear(a.sent)
		a.releasing, a.departed = nil, nil
	}
}

// print lists the grants and the waiting claims of a group, sorted.
func (l *ledger) print(group string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(group)
	var lines []string
	for key, g := range a.held {
		lines = append(lines, short(key)+"="+g.Address.String())
	}
	slices.Sort(lines)
	for _, part := range []struct {
		name string
		n    int
	}{{"wanted", len(a.queue)}, {"sent", len(a.sent)}, {"releasing", len(a.releasing)}, {"departed", len(a.departed)}} {
		if part.n > 0 {
			lines = append(lines, fmt.Sprintf("%s:%d", part.name, part.n))
		}
	}
	return strings.Join(lines, " ")
}

// heldBy returns the number of grants of a group.
func (l *ledger) heldBy(group string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of(group).held)
}

// refusal returns the reason of the last refusal of a claim, or "".
func (l *ledger) refusal(group, key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.of(group).refused[key]; err != nil {
		return err.Error()
	}
	return ""
}

// hold notes that a Service has an address.
func (l *ledger) hold(group, key, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(group).held[key] = ipam.Grant{Key: key, Address: netip.MustParseAddr(address)}
}

// forget drops a grant without releasing it.
func (l *ledger) forget(group, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of(group).held, key)
}

func (l *ledger) setIncomplete(incomplete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incomplete = incomplete
}

const cluster = "prod"

// key returns the key of a Service.
func key(service string, f addr.Family) string {
	return ipam.KeyOf(cluster, ipam.Claim{Group: "default", Service: "default/" + service, Family: f})
}

// short returns a key without the parts that the keys of all Services have in common.
func short(key string) string {
	return strings.Replace(strings.TrimPrefix(key, cluster+"/default/"), "/default/v", "/v", 1)
}

// v4 returns the IPv4 keys of n Services.
func v4(n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, key(fmt.Sprintf("web-%d", i), addr.V4))
	}
	return keys
}

// claimOf returns the claim with a key.
func claimOf(key string) ipam.Claim {
	c := ipam.Claim{Key: key, Group: "default", Service: ipam.HolderOf(key), Family: addr.V4}
	if strings.HasSuffix(key, "/v6") {
		c.Family = addr.V6
	}
	return c
}
