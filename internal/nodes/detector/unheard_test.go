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

// a, b, h and i are on this side of the cut. Every other peer that one of them watches is
// suspected.
func TestPeersBehindACutAreUnheard(t *testing.T) {
	p := established(t, sixteen, "n o p")
	p.ticks(MissLimit-1, "")
	for range Repeats {
		p.says("b", "o!", "p!")
		p.says("h", "e!", "f!", "g!")
		p.says("i", "f!", "g!")
		p.tick("")
	}
	expect.Equal(t, "at first", p.unheardBy(), "cdefgjklmnop")
	p.peersAre("a b c d e? f? g? h i j k l m n? o? p?")
	p.ticks(MissLimit, "")
	expect.Equal(t, "once the suspected peers are believed dead", p.unheardBy(), "cdjklm")
	p.says("c", "c")
	p.tick("")
	expect.Equal(t, "after a heartbeat of c", p.unheardBy(), "djklm")
	p.says("h", "d!")
	p.tick("")
	expect.Equal(t, "after h suspects d", p.unheardBy(), "djklm")
	p.ticks(2*unheardTicks, "b h i")
	expect.Equal(t, "after a long time without suspicions", p.unheardBy(), "")
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

// k was heard long before the cut. c was suspected before all watches began.
func TestALaterCutStartsANewPeriod(t *testing.T) {
	p := newSubject(t, sixteen)
	p.says("d", "c!")
	p.ticks(2*together, "n o p")
	p.says("c", "c")
	p.says("k", "k")
	p.ticks(p.introduced()+20, "n o p")
	p.isCut(t)
}

// isCut cuts a, b, h and i of sixteen off from the others. a must then count the others as unheard.
func (p *subject) isCut(t *testing.T) {
	t.Helper()
	p.ticks(MissLimit-1, "")
	for range Repeats {
		p.says("b", "o!", "p!")
		p.says("h", "e!", "f!", "g!")
		p.says("i", "f!", "g!")
		p.tick("")
	}
	expect.Equal(t, "unheard", p.unheardBy(), "cdefgjklmnop")
}

// a learns the peers of an old cluster in two halves. The cut comes when a has known the first half
// for long enough, but the second half not.
func TestNewProcessLearnsItsPeersInHalves(t *testing.T) {
	p := newSubject(t, "a b d f h j l n o p")
	p.ticks(5, "n o p")
	p.peersAre(sixteen)
	p.ticks(p.introduced()-5, "n o p")
	p.isCut(t)
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
