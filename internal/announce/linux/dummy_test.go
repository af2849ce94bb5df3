package linux

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/expect"
)

func TestEnsureDummy(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	kind := dummyKind(t)
	for range 2 {
		expect.NoError(t, s.EnsureDummy(t.Context(), "kube-lb0"))
		expect.Equal(t, "links", links(observe(t, s)), "kube-lb0 "+kind+" up carrier\n")
	}
}

// dummyKind returns the kind of link that this kernel supports, according to iproute2.
func dummyKind(t *testing.T) string {
	t.Helper()
	n := newStack(t)
	if err := n.route.Do(t.Context(), newLink("probe", "dummy")); err != nil {
		return "ifb"
	}
	ip(t, "link del probe")
	return "dummy"
}

func TestEnsureDummyOfAnImpossibleNameIsAnError(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	for _, name := range []string{"", "a/b", "longer-than-15-bytes"} {
		if err := s.EnsureDummy(t.Context(), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error is %v, want one with the name", name, err)
		}
	}
}

func TestNewDummyIsQuietAndKeepsSecondaries(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	dummy(t, s)
	put(t, s, with(remote("kube-lb0", "2001:db8::1/128"), func(a *announce.Address) { a.NoDAD = false }),
		remote("kube-lb0", "192.0.2.1/24"), remote("kube-lb0", "192.0.2.2/24"))
	settle(t, s)
	ip(t, "addr del 192.0.2.1/24 dev kube-lb0") // ip removes the secondary addresses of the primary one, too
	want := "192.0.2.2/24 valid forever preferred forever mark 80\n" +
		"2001:db8::1/128 valid forever preferred forever mark 80\n" // not tentative
	expect.Equal(t, "addresses", addresses(t, s, "kube-lb0"), want)
}

func TestOnlyOwnLinksThatAreEmptyAreRemoved(t *testing.T) {
	for _, tt := range []struct {
		name, after string
		stays       bool
	}{
		{name: "a link that was created"},
		{name: "one that was renamed", after: "link set kube-lb0 down\nlink set kube-lb0 name kube-lb1"},
		{name: "one with the address of another program", after: "addr add 192.0.2.9/32 dev kube-lb0", stays: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			s := newStack(t)
			dummy(t, s)
			ip(t, tt.after)
			for range 2 {
				expect.NoError(t, s.RemoveDummies(t.Context()))
				if left := links(observe(t, s)); (left != "") != tt.stays {
					t.Errorf("links are left:\n%s", left)
				}
			}
		})
	}
}

// Between the question for a link and its creation, an administrator can create it.
func TestALinkThatAnotherProgramCreatesMeanwhileStaysUnmarked(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, "link add kube-lb0 type ifb")
	if _, err := s.createDummy(t.Context(), "kube-lb0"); err != nil {
		t.Fatal(err)
	}
	if shown := ip(t, "link show kube-lb0"); strings.Contains(shown, "alias") {
		t.Errorf("the link of another program is marked as created here:\n%s", shown)
	}
	expect.NoError(t, s.RemoveDummies(t.Context()))
	if links(observe(t, s)) == "" {
		t.Error("the link of another program is deleted")
	}
}

func with(a announce.Address, change func(*announce.Address)) announce.Address {
	change(&a)
	return a
}

// without is a socket to a kernel that lacks drivers: it knows no link of these kinds.
type without struct {
	rtnetlink.Transport
	kinds []string
}

func (w without) Send(msg []byte) error {
	for _, kind := range w.kinds {
		msg = bytes.ReplaceAll(msg, []byte(kind), bytes.Repeat([]byte("x"), len(kind)))
	}
	return w.Transport.Send(msg)
}

func TestTheErrorWithoutADriverNamesThePackage(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	sock, err := rtnetlink.Open(unix.NETLINK_ROUTE)
	expect.NoError(t, err)
	expect.NoError(t, s.route.Close())
	s.route = rtnetlink.NewConn(without{sock, []string{"dummy", "ifb"}})
	err = s.EnsureDummy(t.Context(), "kube-lb0")
	if !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"neither a dummy nor an ifb driver", "linux-modules-extra-" + release(), "ip link add kube-lb0 type bridge"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	ip(t, "link add kube-lb0 type bridge")
	expect.NoError(t, s.EnsureDummy(t.Context(), "kube-lb0"))
}
