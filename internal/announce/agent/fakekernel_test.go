package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
)

// fakeKernel is a network stack that holds addresses until they expire. A test can make it fail.
// It prints itself.
type fakeKernel struct {
	mu        sync.Mutex
	links     []announce.Link
	addresses []held
	gateways  []netip.Addr
	changed   chan struct{}
	// did lists the calls that changed it, with the time since its creation.
	did     []string
	made    time.Time
	looks   int
	dumpErr error
	putErr  map[string]error // by address
	// looseARP says that the kernel answers for addresses of other links.
	looseARP bool
	// anySender says that the kernel asks with any of its addresses as the sender.
	anySender bool
	// putting is the time that a Put takes.
	putting time.Duration
	// removeErr is the error of every Remove.
	removeErr error
	// taken are addresses that another machine has. The value is the number of attempts to add the
	// address that will still fail. Such an address stays tentative for the time detecting.
	taken     map[string]int
	detecting time.Duration
	stuck     chan struct{}
	// keepsLinks says that the deletion of a link does not end in time.
	keepsLinks bool
	// closed are the addresses behind which the node is closed. guardErr is the error of Guard.
	closed   []netip.Addr
	guardErr error
	// dummyErr is the error of EnsureDummy.
	dummyErr error
	// markless says that the kernel does not return marks.
	markless bool
	// answers are the machines that answer probes, by address. probeErr is the error of probes, and
	// probing is their duration. heard is the channel of Listen.
	answers  map[string][6]byte
	others   map[string][][6]byte // further machines that answer
	proxy    [6]byte              // a machine that answers for every address
	probeErr error
	probing  time.Duration
	probed   map[netip.Addr]bool    // the addresses of all probes
	known    map[netip.Addr][6]byte // the machines that the last probe asked alone
	heard    chan announce.Heard
}

// held is an address with the time at which it expires. The zero time means never.
type held struct {
	announce.Address
	expires time.Time
}

func newFakeKernel(addresses ...announce.Address) *fakeKernel {
	k := &fakeKernel{
		links: []announce.Link{
			{Name: "lo", Index: 1, Up: true, Carrier: true},
			{Name: "eth0", Index: 2, Neighbors: true, Up: true, Carrier: true, Default4: true, Default6: true},
			{Name: "eth1", Index: 3, Up: true, Carrier: true},
		},
		changed: make(chan struct{}, 1), made: time.Now(), putErr: map[string]error{}, taken: map[string]int{}, detecting: time.Second,
		answers: map[string][6]byte{}, probed: map[netip.Addr]bool{}, heard: make(chan announce.Heard),
	}
	k.hold(permanent("eth0", "192.0.2.1/24"), permanent("eth0", "2001:db8::1/64"), permanent("eth1", "198.51.100.1/24"))
	k.hold(addresses...)
	return k
}

func permanent(link, prefix string) announce.Address {
	return announce.Address{Link: link, Prefix: netip.MustParsePrefix(prefix), Valid: announce.Forever, Preferred: announce.Forever}
}

// ours returns a local address of an earlier agent.
func ours(link, prefix string, left time.Duration) announce.Address {
	a := announce.Address{Link: link, Prefix: netip.MustParsePrefix(prefix), Valid: left, Preferred: left, NoPrefixRoute: true, Mark: announce.Mark}
	if a.Prefix.Addr().Is6() {
		a.Preferred = 0
	}
	return a
}

func (k *fakeKernel) hold(addresses ...announce.Address) {
	for _, a := range addresses {
		h := held{Address: a}
		if a.Valid != announce.Forever {
			h.expires = time.Now().Add(a.Valid)
		}
		k.addresses = slices.DeleteFunc(k.addresses, func(o held) bool { return o.Link == a.Link && o.Prefix == a.Prefix })
		k.addresses = append(k.addresses, h)
	}
}

func (k *fakeKernel) note(verb string, what any) {
	k.did = append(k.did, fmt.Sprintf("%s %s %v", time.Since(k.made), verb, what))
}

func (k *fakeKernel) Observe(context.Context) (announce.Node, error) {
	k.mu.Lock()
	stuck := k.stuck
	k.looks++
	k.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dumpErr != nil {
		return announce.Node{}, k.dumpErr
	}
	node := k.now()
	for i := range node.Addresses {
		if k.markless {
			node.MarksSupported, node.Addresses[i].Mark = false, 0
		}
	}
	return node, nil
}

func (k *fakeKernel) Addresses(context.Context) ([]announce.Address, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now().Addresses, nil
}

// now returns the present state.
func (k *fakeKernel) now() announce.Node {
	node := announce.Node{Links: slices.Clone(k.links), Gateways: k.gateways, LooseARP: k.looseARP, AnySender: k.anySender, MarksSupported: true}
	k.addresses = slices.DeleteFunc(k.addresses, func(h held) bool { return !h.expires.IsZero() && !h.expires.After(time.Now()) })
	for _, h := range k.addresses {
		a := h.Address
		if !h.expires.IsZero() {
			a.Valid = time.Until(h.expires)
			a.Preferred = min(a.Preferred, a.Valid)
		}
		node.Addresses = append(node.Addresses, a)
	}
	return node
}

// reroute sets the gateways of the node's default routes.
func (k *fakeKernel) reroute(gateways ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gateways = nil
	for _, g := range gateways {
		k.gateways = append(k.gateways, netip.MustParseAddr(g))
	}
	backoff.Poke(k.changed)
}

func (k *fakeKernel) Changes(context.Context) (<-chan struct{}, error) { return k.changed, nil }

func (k *fakeKernel) Put(_ context.Context, addresses []announce.Address) error {
	if len(addresses) > 0 {
		time.Sleep(k.putting)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, a := range addresses {
		if err := k.putErr[a.Prefix.Addr().String()]; err != nil {
			errs = append(errs, &announce.AddressError{Address: a, Err: err})
			continue
		}
		k.note("put", a.Prefix.String()+" "+a.Link)
		a.Mark = announce.Mark
		k.hold(a)
		k.detect(a)
	}
	return errors.Join(errs...)
}

// detect is the duplicate address detection of a while another machine has the address.
func (k *fakeKernel) detect(a announce.Address) {
	left, taken := k.taken[a.Prefix.Addr().String()]
	if !taken {
		return
	}
	k.taken[a.Prefix.Addr().String()]--
	i := len(k.addresses) - 1
	k.addresses[i].Tentative = true
	time.AfterFunc(k.detecting, func() {
		k.change(func() {
			switch {
			case left <= 0:
				a.Tentative = false
			case a.Valid == announce.Forever:
				a.Failed = true // the kernel keeps the address, and does not answer for it
			default:
				k.addresses = slices.DeleteFunc(k.addresses, func(h held) bool { return h.Prefix == a.Prefix && h.Tentative })
				return
			}
			k.hold(a)
		})
	})
}

func (k *fakeKernel) Remove(_ context.Context, addresses []announce.Address) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.removeErr != nil {
		return k.removeErr
	}
	for _, a := range addresses {
		k.note("remove", a.Prefix.String()+" "+a.Link)
		k.addresses = slices.DeleteFunc(k.addresses, func(h held) bool {
			return h.Link == a.Link && h.Prefix == a.Prefix && (h.Mark == announce.Mark || k.markless)
		})
	}
	return nil
}

func (k *fakeKernel) EnsureDummy(_ context.Context, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("dummy", name)
	if k.dummyErr != nil {
		return k.dummyErr
	}
	k.links = append(k.links, announce.Link{Name: name, Index: 9, Kind: "dummy", Up: true, Carrier: true, Made: true})
	return nil
}

// RemoveDummies deletes the link that EnsureDummy created.
func (k *fakeKernel) RemoveDummies(ctx context.Context) error {
	if k.keepsLinks {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.links = slices.DeleteFunc(k.links, func(l announce.Link) bool {
		return l.Kind == "dummy" && !slices.ContainsFunc(k.addresses, func(h held) bool { return h.Link == l.Name })
	})
	return nil
}

func (k *fakeKernel) Guard(_ context.Context, closed []netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.guardErr != nil {
		return k.guardErr
	}
	k.closed = closed
	return nil
}

// guarded returns the addresses behind which the node is closed.
func (k *fakeKernel) guarded() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.closed)
}

// link returns the link with this name.
func (k *fakeKernel) link(name string) *announce.Link {
	return &k.links[slices.IndexFunc(k.links, func(l announce.Link) bool { return l.Name == name })]
}

// flush takes all addresses and the default routes off eth0. restore adds the node's own again.
func (k *fakeKernel) flush() (restore func()) {
	routes := func(there bool) {
		for i := range k.links {
			if k.links[i].Name == "eth0" {
				k.links[i].Default4, k.links[i].Default6 = there, there
			}
		}
	}
	k.change(func() {
		k.addresses = slices.DeleteFunc(k.addresses, func(h held) bool { return h.Link == "eth0" })
		routes(false)
	})
	return func() {
		k.change(func() {
			k.hold(permanent("eth0", "192.0.2.1/24"), permanent("eth0", "2001:db8::1/64"))
			routes(true)
		})
	}
}

// has reports whether there is a link with this name.
func (k *fakeKernel) has(link string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.links, func(l announce.Link) bool { return l.Name == link })
}

func (k *fakeKernel) Claim(_ context.Context, link string, ip netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("claim", ip.String()+" "+link)
	return nil
}

// Probe returns at once.
func (k *fakeKernel) Probe(_ context.Context, link string, ips []netip.Addr, p announce.Probing) (announce.Answers, error) {
	k.mu.Lock()
	defer func() {
		lasts := k.probing
		k.mu.Unlock()
		time.Sleep(lasts)
	}()
	if k.probeErr != nil {
		return nil, k.probeErr
	}
	answers := announce.Answers{}
	k.known = p.Known
	for _, ip := range ips {
		k.probed[ip] = true
		if mac, ok := k.answers[ip.String()]; ok {
			answers[ip] = append([][6]byte{mac}, k.others[ip.String()]...)
		}
		if k.proxy != [6]byte{} {
			answers[ip] = append(answers[ip], k.proxy)
		}
	}
	return answers, nil
}

func (k *fakeKernel) Listen(context.Context, func() map[netip.Addr]string) (<-chan announce.Heard, error) {
	return k.heard, nil
}

// change changes the kernel without the agent's knowledge.
func (k *fakeKernel) change(change func()) {
	k.mu.Lock()
	change()
	k.mu.Unlock()
	backoff.Poke(k.changed)
}

// String lists the addresses as "address link", sorted. It leaves out the permanent addresses
// that the node had at the start.
func (k *fakeKernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lines []string
	for _, a := range k.now().Addresses {
		if a.Mark == announce.Mark {
			lines = append(lines, a.Prefix.String()+" "+a.Link)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// changes returns the calls since its last call.
func (k *fakeKernel) changes() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.did = nil }()
	return strings.Join(k.did, "\n")
}

// claims returns the sent claims. It does not affect changes.
func (k *fakeKernel) claims() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.did), func(line string) bool { return !strings.Contains(line, " claim ") })
}

// plug plugs in the cable of a link, or unplugs it.
func (k *fakeKernel) plug(link string, in bool) {
	k.change(func() {
		for i := range k.links {
			if k.links[i].Name == link {
				k.links[i].Carrier = in
			}
		}
	})
}

// stick blocks each Observe until unstick is called.
func (k *fakeKernel) stick() (unstick func()) {
	stuck := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stuck = stuck
	return func() {
		k.mu.Lock()
		k.stuck = nil
		k.mu.Unlock()
		close(stuck)
	}
}

// observations returns the number of calls of Observe.
func (k *fakeKernel) observations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looks
}

// heard returns a claim of a machine with this last byte of its MAC.
func heard(ip string, mac byte) announce.Heard {
	return announce.Heard{Link: "eth0", Addr: addrOf(ip), MAC: [6]byte{2, 0, 0, 0, 0, mac}, At: time.Now()}
}
