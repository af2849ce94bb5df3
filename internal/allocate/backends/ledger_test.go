package backends_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// ledger is the allocator's store and its claims, without Services: a test says what they want.
type ledger struct {
	mu     sync.Mutex
	store  *ipam.Store
	claims *ipam.Claims
	// wants are the claims that each Service waits for.
	wants map[ipam.Owner][]ipam.Claim
	poke  func(...ipam.Holder)
	// news is called after each answer.
	news func()
	// unusable is why Services cannot have what the backend grants, or nil.
	unusable *ipam.Error
}

func newLedger() *ledger {
	store := ipam.NewStore()
	return &ledger{
		store: store, claims: ipam.NewClaims(store), wants: map[ipam.Owner][]ipam.Claim{},
		poke: func(...ipam.Holder) {}, news: func() {},
	}
}

// act calls do under the lock, and pokes the holders that it returns.
func (l *ledger) act(do func() []ipam.Holder) {
	l.mu.Lock()
	due := do()
	l.mu.Unlock()
	l.poke(due...)
}

func (l *ledger) Pending(group string) []ipam.Holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims.Pending(group)
}

func (l *ledger) Work(h ipam.Holder) ipam.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims.Work(h)
}

// Answered makes the Services show what they get.
func (l *ledger) Answered(h ipam.Holder, claims []ipam.Claim, answers []ipam.Answer) (next ipam.Due) {
	defer l.news()
	l.act(func() (due []ipam.Holder) {
		var granted []netip.Addr
		_, granted, next = l.claims.Answered(h, claims, answers, func(ipam.Claim, netip.Addr) *ipam.Error { return l.unusable })
		for _, a := range granted {
			grant, group := l.claims.GrantOf(a)
			l.store.Show(a, ownerOf(grant.Key))
			due = append(due, l.withdraw(claimOf(group, grant.Key))...)
			due = append(due, l.exhausted(h.Group, a)...)
		}
		return due
	})
	return next
}

func (l *ledger) Released(h ipam.Holder, grants []ipam.Grant, errs []error) (next ipam.Due) {
	defer l.news()
	l.act(func() (due []ipam.Holder) {
		next = l.claims.Released(h, grants, errs)
		for _, g := range grants {
			due = append(due, l.exhausted(h.Group, g.Address)...)
		}
		return due
	})
	return next
}

// exhausted returns the holder that waits for an address like a, if there is one.
func (l *ledger) exhausted(group string, a netip.Addr) []ipam.Holder {
	if h, ok := l.claims.Exhausted(group, addr.FamilyOf(a)); ok {
		return []ipam.Holder{h}
	}
	return nil
}

func (l *ledger) Holds() map[string][]ipam.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims.Grants()
}

func (l *ledger) Compared(group string, unknown, missing []ipam.Grant) (orphans []ipam.Grant) {
	l.act(func() []ipam.Holder {
		orphans, _ = l.claims.Learn(group, unknown)
		l.claims.Register(group, missing)
		return l.claims.Pending(group)
	})
	return orphans
}

// wait makes the Service of c wait for it. The caller holds the lock.
func (l *ledger) wait(c ipam.Claim) []ipam.Holder {
	due := l.withdraw(c)
	who := ownerOf(c.Key)
	l.wants[who] = append(l.wants[who], c)
	return append(due, l.claims.Want(who, l.wants[who])...)
}

// withdraw ends the wait for c. The caller holds the lock.
func (l *ledger) withdraw(c ipam.Claim) []ipam.Holder {
	who := ownerOf(c.Key)
	l.wants[who] = slices.DeleteFunc(l.wants[who], func(other ipam.Claim) bool { return other.Key == c.Key && other.Group == c.Group })
	return l.claims.Want(who, l.wants[who])
}

// want makes Services wait for claims with these keys.
func (l *ledger) want(group string, keys ...string) {
	l.act(func() (due []ipam.Holder) {
		for _, key := range keys {
			due = append(due, l.wait(claimOf(group, key))...)
		}
		return due
	})
}

// giveUp makes Services leave the grants with these keys, or no longer wait for them.
func (l *ledger) giveUp(group string, keys ...string) {
	l.act(func() (due []ipam.Holder) {
		for _, key := range keys {
			due = append(due, l.withdraw(claimOf(group, key))...)
			who := ownerOf(key)
			kept := l.store.Held(who)
			for _, g := range l.claims.Grants()[group] {
				if g.Key == key {
					kept = slices.DeleteFunc(kept, func(a netip.Addr) bool { return a == g.Address })
				}
			}
			left := l.store.Keep(who, kept)
			due = append(due, l.claims.Left(left)...)
		}
		return due
	})
}

// restart leaves only the knowledge of a new allocator: the addresses that Services show, and the
// claims that they wait for. without is the key of a grant that the new one does not know.
func (l *ledger) restart(without string) {
	l.act(func() (due []ipam.Holder) {
		before, wants := l.claims.Grants(), l.wants
		fresh := newLedger()
		l.store, l.claims, l.wants = fresh.store, fresh.claims, fresh.wants
		for group, grants := range before {
			for _, g := range grants {
				if g.Key != without {
					l.claims.Adopt(claimOf(group, g.Key), g.Address)
					l.store.Show(g.Address, ownerOf(g.Key))
				}
			}
		}
		for _, list := range wants {
			for _, c := range list {
				due = append(due, l.wait(c)...)
			}
		}
		return due
	})
}

// print lists the grants of a group, sorted, and how many claims of it are waiting.
func (l *ledger) print(group string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, g := range l.claims.Grants()[group] {
		lines = append(lines, short(g.Key)+"="+g.Address.String())
	}
	slices.Sort(lines)
	waits := 0
	for _, claims := range l.wants {
		for _, c := range claims {
			if c.Group == group {
				waits++
			}
		}
	}
	if waits > 0 {
		lines = append(lines, fmt.Sprintf("waits:%d", waits))
	}
	return strings.Join(lines, " ")
}

// heldBy returns the number of grants of a group.
func (l *ledger) heldBy(group string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claims.Grants()[group])
}

// hold notes that a Service has an address of the group.
func (l *ledger) hold(group, key, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := netip.MustParseAddr(address)
	l.claims.Adopt(claimOf(group, key), a)
	l.store.Show(a, ownerOf(key))
}

const cluster = "prod"

// key returns the key of a Service.
func key(service string, f addr.Family) string {
	return ipam.KeyOf(cluster, ipam.Claim{Group: "default", Service: "default/" + service, Family: f})
}

func ownerOf(key string) ipam.Owner { return ipam.OwnerOf(key) }

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

// claimOf returns the claim of a group with a key.
func claimOf(group, key string) ipam.Claim {
	c := ipam.Claim{Key: key, Group: group, Service: ipam.HolderOf(key), Family: addr.V4}
	if strings.HasSuffix(key, "/v6") {
		c.Family = addr.V6
	}
	return c
}
