package detector

import (
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// established returns the detector of a. The peers of its ring have sent heartbeats for a long time.
func established(t *testing.T, peers, watched string) *subject {
	p := newSubject(t, peers)
	p.ticks(p.introduced()+20, watched)
	return p
}

// unheardBy returns the peers that are unheard for p.
func (p *subject) unheardBy() string {
	var all []byte
	for id := range p.hearing.unheard {
		all = append(all, byte(id))
	}
	slices.Sort(all)
	return string(all)
}

const sixteen = "a b c d e f g h i j k l m n o p"

func TestSilentPeerLeavesOthersHeard(t *testing.T) {
	p := established(t, sixteen, "n o p")
	for _, watcher := range []string{"d", "e", "f"} {
		p.says(watcher, "c!")
		p.tick("n o p")
		expect.Equal(t, "suspected", p.unheardBy(), "c")
	}
	p.peersAre("a b c? d e f g h i j k l m n o p")
	p.tick("n o p")
	expect.Equal(t, "dead", p.unheardBy(), "")
}

func TestRackPowerLossLeavesOthersHeard(t *testing.T) {
	p := established(t, sixteen, "n o p")
	for range Repeats {
		for _, accuser := range []string{"f e!", "g e!", "h e!", "k j! i!", "l j! i!", "m j!", "k h", "d c"} {
			from, about := accuser[:1], accuser[2:]
			for len(about) > 0 {
				one := about[:min(2, len(about))]
				about = about[min(3, len(about)):]
				p.says(from, one)
			}
		}
		p.tick("n o p")
	}
	expect.Equal(t, "three are suspected", p.unheardBy(), "eij")
}

// This process heard no peer for a second, and suspected all peers. Peers that it does not watch
// send it nothing later. Membership reports that they are alive.
func TestOutageLeavesNoSuspicions(t *testing.T) {
	p := established(t, sixteen, "n o p")
	p.ticks(MissLimit+2, "")
	p.peersAre("a b c d e f g h i j k l m n? o? p?")
	got := p.ticks(2*MissLimit, "")
	if !strings.Contains(got, "missed f") {
		t.Fatalf("not all peers are suspected: %s", got)
	}
	p.peersAre("a b? c? d? e? f? g? h? i? j? k? l? m? n? o? p?")
	p.ticks(MissLimit, "b c d n o p")
	p.peersAre(sixteen)
	p.ticks(2*unheardTicks, "n o p")
	expect.Equal(t, "long after", p.unheardBy(), "")
	p.says("d", "c!")
	p.tick("n o p")
	expect.Equal(t, "a suspicion of a peer that was heard since", p.unheardBy(), "c")
	p.says("i", "f!")
	p.tick("n o p")
	expect.Equal(t, "and of a peer that was not", p.unheardBy(), "cf")
}

// If all watchers of a peer die together with other peers, the peer sends heartbeats to the rest.
func TestPeerWithoutWatchersSendsHeartbeats(t *testing.T) {
	p := established(t, sixteen, "n o p")
	p.says("e", "b!", "c!", "d!")
	p.says("f", "c!", "d!")
	p.says("g", "d!")
	expect.Equal(t, "how often k, which does not watch a, learns that a is alive", p.tells('k', 2*MissLimit), 3)
	// Others count a as heard only if they heard it after the last fault.
	p.says("h", "g!")
	expect.Equal(t, "how often k learns that a is alive, after a late suspicion", p.tells('k', 2*MissLimit), 3)
	p.says("i", "g!")
	expect.Equal(t, "how often k learns that a is alive, without another fault", p.tells('k', 2*MissLimit), 0)
}

// tells returns how often the process tells id in n ticks that it is alive.
func (p *subject) tells(id PeerID, n int) (told int) {
	for range n {
		p.Tick(p.now, &p.actions)
		for _, out := range p.actions.Send {
			if out.Heartbeat.About == p.self && out.To.ID == id {
				told++
			}
		}
		p.actions = Actions{}
		p.says("n", "n")
		p.says("o", "o")
		p.says("p", "p")
	}
	return told
}

// g is heard again soon after its watchers, though another peer becomes silent again and again.
func TestReachedPeersAreHeardBesideOtherFaults(t *testing.T) {
	p := established(t, sixteen, "n o p")
	p.says("k", "c!", "h!", "i!", "j!")
	p.tick("n o p")
	expect.Equal(t, "without its watchers", p.unheardBy(), "bcdefghij")
	p.says("h", "h")
	p.says("i", "i")
	p.says("j", "j")
	for range 5 {
		p.says("k", "m!")
		p.ticks(together-2, "n o p")
		p.says("m", "m")
		p.tick("n o p")
	}
	expect.Equal(t, "with its watchers", p.unheardBy(), "c")
}
