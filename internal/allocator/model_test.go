package allocator

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// model is an API server with Services, a cache of it that lags behind, and a
// ledger at work between them. Writes fail in all the ways that there are.
type model struct {
	t       *rapid.T
	ledger  *ledger
	version int
	// live is what the API server has, cached what the cache has of it.
	live, cached map[pool.Owner]object
	// late are writes that nobody has heard of, and that may still be done;
	// doubts are the versions that they are for.
	late   []write
	doubts map[pool.Owner]int
	// busy are decisions that are being written.
	busy map[pool.Owner]write
	// queue are those to be looked at.
	queue map[pool.Owner]bool
	// groups are what there is to give.
	groups []config.Group
	// keyed are those that have ever had a sharing key.
	keyed map[pool.Owner]bool
}

// object is a version of a Service.
type object struct {
	version int
	request service.Request
	// reason and message are its condition.
	reason, message string
	// forged says that the status was edited by hand.
	forged bool
}

// write gives a version of a Service what was decided.
type write struct {
	who     pool.Owner
	version int
	result  service.Result
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, live: map[pool.Owner]object{}, cached: map[pool.Owner]object{}, queue: map[pool.Owner]bool{}, keyed: map[pool.Owner]bool{}}
	m.groups = someGroups(t)
	m.restart()
	return m
}

// restart is another allocator, with a cache as it is.
func (m *model) restart() {
	m.late, m.doubts, m.busy = nil, map[pool.Owner]int{}, map[pool.Owner]write{}
	m.queue = map[pool.Owner]bool{}
	m.ledger = newLedger(func(owners ...pool.Owner) {
		for _, o := range owners {
			m.queue[o] = true
		}
	})
	m.configure()
	var all []service.Request
	for _, o := range m.live {
		all = append(all, o.request)
	}
	m.ledger.open(all)
}

// configure tells the ledger of the groups, and has every Service looked at.
func (m *model) configure() {
	m.ledger.change(surroundings{config: config.Config{Groups: m.groups}})
	for who := range m.cached {
		m.queue[who] = true
	}
}

// someGroups are two small groups, of which the second has two pools.
func someGroups(t *rapid.T) []config.Group {
	draw := func(text, subnet string, exclude ...string) pool.Pool {
		p, err := pool.Parse(text, subnet, "default", exclude...)
		if err != nil {
			t.Fatal(err)
		}
		p.Draining = rapid.IntRange(0, 4).Draw(t, "drain") == 0
		return p
	}
	last := rapid.SampledFrom([]string{"1", "2", "3"})
	out := rapid.SampledFrom([][]string{nil, nil, {"192.0.2.1"}}).Draw(t, "excluded")
	flip := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	first := config.Group{Name: "default", Announce: config.AnnounceRemote, SharedAcrossNamespaces: flip("wide"), Pools: []pool.Pool{
		draw("192.0.2.1-192.0.2."+last.Draw(t, "last"), "192.0.2.0/24", out...),
		draw("2001:db8::1-2001:db8::"+last.Draw(t, "last"), "2001:db8::/64"),
	}}
	second := config.Group{Name: "second", Announce: config.AnnounceRemote, MultiPool: flip("multi"), Pools: []pool.Pool{
		draw("198.51.100.1-198.51.100."+last.Draw(t, "last"), "198.51.100.0/24"),
		draw("203.0.113.1-203.0.113."+last.Draw(t, "last"), "203.0.113.0/24"),
	}}
	return []config.Group{first, second}
}

func (m *model) anyone() pool.Owner {
	return pool.Owner(rapid.SampledFrom([]string{"red/a", "red/b", "red/c", "red/d", "blue/a", "blue/b"}).Draw(m.t, "service"))
}

// put makes a new version of a Service.
func (m *model) put(who pool.Owner, o object) {
	m.version++
	o.version = m.version
	m.live[who] = o
	m.keyed[who] = m.keyed[who] || o.request.SharingKey != ""
}

func (m *model) create(who pool.Owner) {
	if _, there := m.live[who]; there {
		return
	}
	r := service.Request{Namespace: who.Namespace(), Name: string(who[len(who.Namespace())+1:]), Created: time.Unix(int64(m.version), 0)}
	r.UID = types.UID(r.Created.String())
	m.want(&r)
	m.put(who, object{request: r})
}

// edit changes what a Service wants, as its user may.
func (m *model) edit(who pool.Owner) {
	if o, there := m.live[who]; there {
		m.want(&o.request)
		m.put(who, o)
	}
}

// want makes r ask for anything.
func (m *model) want(r *service.Request) {
	t := m.t
	r.Families = rapid.SampledFrom([][]addr.Family{{addr.V4}, {addr.V6}, {addr.V4, addr.V6}}).Draw(t, "families")
	r.Policy = rapid.SampledFrom([]service.Policy{service.All, service.Some}).Draw(t, "policy")
	r.Group = rapid.SampledFrom([]string{"", "", "default", "second", "nowhere"}).Draw(t, "group")
	r.SharingKey = rapid.SampledFrom([]string{"", "", "key", "key", "other"}).Draw(t, "key")
	r.Ports = rapid.SampledFrom([][]service.Port{{{Protocol: "TCP", Number: 80}}, {{Protocol: "UDP", Number: 80}},
		{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 443}}}).Draw(t, "ports")
	r.Asked = nil
	for _, text := range rapid.SampledFrom([][]string{nil, nil, nil, {"192.0.2.1"}, {"192.0.2.2"}, {"192.0.2.2", "2001:db8::1"}, {"198.51.100.1"}, {"10.0.0.1"}}).Draw(t, "asked") {
		r.Asked = append(r.Asked, netip.MustParseAddr(text))
	}
	r.MultiPool = nil
	if on := rapid.IntRange(0, 7).Draw(t, "multi-pool"); on < 2 {
		yes := on == 1
		r.MultiPool = &yes
	}
	r.Reevaluate = rapid.IntRange(0, 5).Draw(t, "re-evaluate") == 0
}

// forge writes addresses into a status by hand, once we have written it.
func (m *model) forge(who pool.Owner) {
	if o, there := m.live[who]; there && o.reason != "" {
		o.request.Held = []netip.Addr{netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.3", "2001:db8::2"}).Draw(m.t, "forged"))}
		o.forged = true
		m.put(who, o)
	}
}

// forged reports whether a status says what is not true. An allocator that
// starts then has nothing to tell it by.
func (m *model) forged() bool {
	for _, o := range m.live {
		if o.forged {
			return true
		}
	}
	return false
}

func (m *model) remove(who pool.Owner) { delete(m.live, who) }

// sync brings the cache up to date, for one Service.
func (m *model) sync(who pool.Owner) {
	o, there := m.live[who]
	if !there {
		delete(m.cached, who)
	} else {
		m.cached[who] = o
	}
	m.queue[who] = true
}

// look is what the loop does for one Service, without a pause.
func (m *model) look(who pool.Owner, outcome string) {
	m.begin(who)
	m.finish(who, outcome)
}

// begin decides for a Service. The write is done later: meanwhile others are
// looked at.
func (m *model) begin(who pool.Owner) {
	if _, busy := m.busy[who]; busy {
		return
	}
	delete(m.queue, who)
	o, there := m.cached[who]
	if !there {
		if _, exists := m.live[who]; exists {
			m.queue[who] = true
		}
		if now, exists := m.live[who]; !exists || m.ledger.replaces(who, now.request.UID) {
			m.forget(who)
		}
		return
	}
	if m.ledger.replaces(who, o.request.UID) {
		if m.live[who].request.UID != o.request.UID {
			m.queue[who] = true
			return
		}
		m.forget(who)
	}
	before := m.ledger.cluster.Book.Held(who)
	d, err := m.ledger.decide(o.request)
	if err != nil {
		m.t.Fatal(err)
	}
	m.fair(who, without(d.Result.Addresses, o.request.Held), before)
	m.busy[who] = write{who, o.version, d.Result}
}

func (m *model) forget(who pool.Owner) {
	m.ledger.forget(who)
	delete(m.doubts, who)
}

// fair fails if a Service gets fresh addresses that others have and that it may
// not share with them, before being those that were held for it.
func (m *model) fair(who pool.Owner, fresh, before []netip.Addr) {
	for _, c := range m.ledger.cluster.Book.Collisions(who) {
		if slices.Contains(fresh, c.Addr) {
			m.t.Fatalf("%s gets %s, where %v", who, c.Addr, c)
		}
	}
	for _, a := range without(fresh, before) {
		if others := without(m.ledger.claims[a], []pool.Owner{who}); len(others) > 0 {
			m.t.Fatalf("%s gets %s, which %s show", who, a, others)
		}
	}
}

// finish writes what was decided for a Service.
func (m *model) finish(who pool.Owner, outcome string) {
	w, busy := m.busy[who]
	if !busy {
		return
	}
	delete(m.busy, who)
	if o := m.cached[who]; o.version == w.version && o.says(w.result) {
		if m.doubts[who] != w.version {
			if m.live[who].version == w.version || !m.ledger.holdsMore(who, w.result.Addresses) {
				m.ledger.settle(who, w.result.Addresses)
			}
			return
		}
		w.result.Reason = reasonPending
	}
	switch outcome {
	case "lost", "late", "done":
		m.queue[who] = true
		m.doubts[who] = w.version
		if outcome == "late" {
			m.late = append(m.late, w)
		}
		if outcome == "done" {
			m.write(w)
		}
	default:
		if m.write(w) {
			m.ledger.settle(who, w.result.Addresses)
		}
	}
}

// says reports whether there is nothing to write.
func (o object) says(r service.Result) bool {
	return slices.Equal(o.request.Held, r.Addresses) && o.reason == r.Reason && o.message == r.Message && !r.Reevaluated &&
		(len(r.Addresses) == 0 || o.request.From == r.From && o.request.PoolType == r.PoolType)
}

// write does a write, unless the Service has changed since.
func (m *model) write(w write) bool {
	o, there := m.live[w.who]
	if !there || o.version != w.version {
		return false
	}
	o.request.Held, o.request.From, o.request.PoolType = w.result.Addresses, w.result.From, w.result.PoolType
	if len(w.result.Addresses) == 0 {
		o.request.From, o.request.PoolType = "", ""
	}
	o.reason, o.message, o.forged = w.result.Reason, w.result.Message, false
	o.request.Reevaluate = o.request.Reevaluate && !w.result.Reevaluated
	m.put(w.who, o)
	return true
}

// arrive does the oldest of the late writes.
func (m *model) arrive() {
	if len(m.late) > 0 {
		m.write(m.late[0])
		m.late = m.late[1:]
	}
}

// quiet lets everything arrive and be looked at until nothing changes.
func (m *model) quiet() {
	for who := range maps.Clone(m.busy) {
		m.finish(who, "well")
	}
	for len(m.late) > 0 {
		m.arrive()
	}
	for range 100 {
		m.syncAll()
		if len(m.queue) == 0 {
			return
		}
		for _, who := range slices.Sorted(maps.Keys(m.queue)) {
			m.look(who, "well")
		}
	}
	m.t.Fatal("it does not come to rest")
}

// syncAll brings the cache up to date.
func (m *model) syncAll() {
	for who := range maps.Clone(m.cached) {
		if o, there := m.live[who]; !there || o.version != m.cached[who].version {
			m.sync(who)
		}
	}
	for who := range m.live {
		if _, there := m.cached[who]; !there {
			m.sync(who)
		}
	}
}

// check is what must be true at any time. A status that was edited by hand is
// not true until it is put right.
func (m *model) check() {
	book, holders := m.ledger.cluster.Book, map[netip.Addr]pool.Owner{}
	for who, o := range m.live {
		for _, a := range o.request.Held {
			if o.forged {
				continue
			}
			if other, taken := holders[a]; taken && (!m.keyed[who] || !m.keyed[other]) {
				m.t.Fatalf("%s and %s both have %s", other, who, a)
			}
			holders[a] = who
			if !slices.Contains(book.Owners(a), who) && !slices.Contains(m.ledger.claims[a], who) {
				m.t.Fatalf("%s has %s, which the book has for %q", who, a, book.Owners(a))
			}
		}
	}
}

// checkQuiet is what must be true once nothing changes any more.
func (m *model) checkQuiet() {
	book, used := m.ledger.cluster.Book, map[netip.Addr]bool{}
	for who, o := range m.live {
		r := o.request
		booked := slices.Concat(book.Held(who), m.ledger.claims.of(who))
		slices.SortFunc(booked, netip.Addr.Compare)
		if !slices.Equal(booked, slices.SortedFunc(slices.Values(r.Held), netip.Addr.Compare)) {
			m.t.Fatalf("%s has %s, and the book has %s for it", who, r.Held, booked)
		}
		choice := m.ledger.choose(r)
		// Why a Service has not got all may change without doing it any good.
		if now := choice.Result; !slices.Equal(now.Addresses, r.Held) || now.Reevaluated || (now.Reason == selection.ReasonAllocated) != (o.reason == selection.ReasonAllocated) {
			m.t.Fatalf("%s has %s, %s: %s\nand could have %s, %s: %s", who, r.Held, o.reason, o.message,
				choice.Result.Addresses, choice.Result.Reason, choice.Result.Message)
		}
		for _, a := range r.Held {
			used[a] = true
		}
	}
	m.checkUsage(used)
}

// checkUsage fails if an address that nobody has counts as one in use.
func (m *model) checkUsage(used map[netip.Addr]bool) {
	for _, u := range m.ledger.usages() {
		var n int64
		for a := range used {
			if _, in := u.group.PoolOf(a); in {
				n++
			}
		}
		if u.total() != n {
			m.t.Fatalf("%d addresses of %s are in use, and the book has %d", n, u.group.Name, u.total())
		}
	}
}

func TestNoAddressIsLostOrDoubledWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) { m.check() },
			"create": func(*rapid.T) { m.create(m.anyone()) },
			"edit":   func(*rapid.T) { m.edit(m.anyone()) },
			"forge":  func(*rapid.T) { m.forge(m.anyone()) },
			"remove": func(*rapid.T) { m.remove(m.anyone()) },
			"anew": func(*rapid.T) {
				who := m.anyone()
				m.remove(who)
				m.create(who)
			},
			"sync":   func(*rapid.T) { m.sync(m.anyone()) },
			"arrive": func(*rapid.T) { m.arrive() },
			"restart": func(*rapid.T) {
				if !m.forged() {
					m.restart()
				}
			},
			"pools": func(t *rapid.T) {
				m.groups = someGroups(t)
				m.configure()
			},
			"begin": func(*rapid.T) { m.begin(m.anyone()) },
			"finish": func(t *rapid.T) {
				m.finish(m.anyone(), rapid.SampledFrom([]string{"well", "well", "lost", "late", "done"}).Draw(t, "outcome"))
			},
			"quiet": func(*rapid.T) {
				m.quiet()
				m.checkQuiet()
			},
		})
	})
}
