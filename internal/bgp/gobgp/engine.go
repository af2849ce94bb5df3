package gobgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/server"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// The policies of the engine, assigned for its whole life. A route that neither policy
// decides is rejected.
const (
	importPolicy = "import"
	exportPolicy = "export"
)

// patience limits the duration of a stop, and the part of it for goodbyes to all neighbors.
type patience struct{ stop, goodbye time.Duration }

var usualPatience = patience{stop: 5 * time.Second, goodbye: 2 * time.Second}

// goodbyePoll is the pause between checks whether all goodbyes are sent.
const goodbyePoll = 5 * time.Millisecond

// goodbye is the reason that neighbors log for the end of the session (RFC 9003).
const goodbye = "this speaker stops"

// errPanic says that GoBGP panicked on our own goroutine.
var errPanic = errors.New("GoBGP panicked")

// engine is one BgpServer from its start to its stop.
type engine struct {
	bgp *server.BgpServer
	log *logHandler
	// done is closed when GoBGP's management goroutine has ended. cause says why, if it
	// panicked.
	done  chan struct{}
	cause error
	// life lasts until the engine stops, and end ends it.
	life context.Context
	end  context.CancelFunc
	// unlearn ends the watch on the routes of neighbors. It is nil without this watch.
	unlearn  context.CancelFunc
	patience patience
}

func startEngine(log *slog.Logger, ev *events, p patience) *engine {
	handler := newLogHandler(log)
	e := &engine{
		bgp:      server.NewBgpServer(server.LoggerOption(slog.New(handler), nil)),
		log:      handler,
		done:     make(chan struct{}),
		patience: p,
	}
	go func() {
		defer close(e.done)
		defer func() {
			if p := recover(); p != nil {
				e.cause = fmt.Errorf("%w: GoBGP panicked: %v", ErrBroken, p)
				log.Error("GoBGP panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		e.bgp.Serve()
	}()
	e.life, e.end = context.WithCancel(context.Background())
	e.watch(e.life, ev, server.WatchPeer(), server.WatchEor(false))
	return e
}

// watch passes events to ev until ctx is done. A server refuses a watch only if it is broken, and then all
// later calls report that.
func (e *engine) watch(ctx context.Context, ev *events, what ...server.WatchOption) {
	_ = e.call(func() error { return e.bgp.WatchEvent(ctx, ev.callbacks(), what...) })
}

// learn watches the routes of neighbors if they are in use. For each event GoBGP copies the configuration of
// the neighbor, which took more than a third of the time for 10,000 received routes.
func (e *engine) learn(ev *events, inUse bool) {
	switch {
	case inUse && e.unlearn == nil:
		var ctx context.Context
		ctx, e.unlearn = context.WithCancel(e.life)
		e.watch(ctx, ev, server.WatchPostUpdate(false, "", ""))
	case !inUse && e.unlearn != nil:
		e.unlearn()
		e.unlearn = nil
	}
}

// broken returns an error if GoBGP cannot go on.
func (e *engine) broken() error {
	select {
	case <-e.done:
		return e.cause
	default:
		return nil
	}
}

// call calls GoBGP. A panic becomes an error, on any goroutine: after a panic of the
// management goroutine, the call would never return.
func (e *engine) call(ask func() error) error {
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				answer <- fmt.Errorf("%w: %v", errPanic, p)
			}
		}()
		answer <- ask()
	}()
	select {
	case err := <-answer:
		return err
	case <-e.done:
	}
	if e.cause != nil {
		return e.cause
	}
	return <-answer // an orderly end answers every call
}

// start starts to listen, with policies that accept only our own routes.
func (e *engine) start(g peering.Global) error {
	err := e.call(func() error {
		return e.bgp.StartBgp(context.Background(), &api.StartBgpRequest{Global: globalOf(g)})
	})
	if err != nil {
		return err
	}
	if err := e.setPolicies(policiesOf(peering.State{})); err != nil {
		return err
	}
	for direction, policy := range map[api.PolicyDirection]string{
		api.PolicyDirection_POLICY_DIRECTION_IMPORT: importPolicy,
		api.PolicyDirection_POLICY_DIRECTION_EXPORT: exportPolicy,
	} {
		assignment := &api.PolicyAssignment{
			Name: "global", Direction: direction,
			Policies:      []*api.Policy{{Name: policy}},
			DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
		}
		err := e.call(func() error {
			return e.bgp.SetPolicyAssignment(context.Background(), &api.SetPolicyAssignmentRequest{Assignment: assignment})
		})
		if err != nil {
			return fmt.Errorf("assign the %s policy: %w", policy, err)
		}
	}
	return nil
}

// globalOf translates g. GoBGP has its own numbers for families, which are not AFI and
// SAFI. It creates tables only for the families in the list.
func globalOf(g peering.Global) *api.Global {
	number := map[addr.Family]uint32{addr.V4: 0, addr.V6: 1} // unicast
	out := &api.Global{
		Asn: g.ASN, RouterId: g.RouterID.String(), ListenPort: int32(g.Port),
		BindToDevice: g.Device,
	}
	for _, f := range g.Families {
		out.Families = append(out.Families, number[f])
	}
	for _, a := range g.Listen {
		out.ListenAddresses = append(out.ListenAddresses, a.String())
	}
	return out
}

// stop ends all sessions and frees the port.
func (e *engine) stop(ctx context.Context, graceful bool) error {
	e.end()
	if err := e.broken(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience.stop)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		if !graceful {
			e.sayGoodbye(ctx)
		}
		stopped <- e.call(func() error {
			return e.bgp.StopBgp(context.Background(), &api.StopBgpRequest{AllowGracefulRestart: graceful})
		})
		// GoBGP's own BFD has never run. When it is stopped, it logs an error, which is muted here.
		e.log.mute()
		_ = e.call(func() error { e.bgp.Stop(); return nil })
	}()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("stop BGP: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop BGP: %w", ctx.Err())
	}
}

// sayGoodbye shuts all sessions down and waits until the messages are written. StopBgp would
// close the connections that neighbors opened while it writes the messages. A neighbor
// without a message keeps the routes of a graceful restart.
func (e *engine) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.patience.goodbye)
	defer cancel()
	peers, err := e.peers("", false)
	if err != nil { // A server that has not started has no neighbors to tell.
		return
	}
	for _, p := range peers {
		// A neighbor that has left in the meantime needs no message.
		_ = e.call(func() error {
			return e.bgp.DisablePeer(ctx, &api.DisablePeerRequest{Address: p.GetState().GetNeighborAddress(), Communication: goodbye})
		})
	}
	for ctx.Err() == nil && e.speaks() {
		backoff.Sleep(ctx, goodbyePoll)
	}
}

// speaks reports whether a session is established.
func (e *engine) speaks() bool {
	peers, err := e.peers("", false)
	return err == nil && slices.ContainsFunc(peers, isUp)
}

func isUp(p *api.Peer) bool {
	return p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED
}

// peers lists the neighbor with this address or interface, or all for "".
func (e *engine) peers(which string, advertised bool) ([]*api.Peer, error) {
	var peers []*api.Peer
	err := e.call(func() error {
		request := &api.ListPeerRequest{Address: which, EnableAdvertised: advertised}
		return e.bgp.ListPeer(context.Background(), request, func(p *api.Peer) { peers = append(peers, p) })
	})
	return peers, err
}

// reset ends a session.
func (e *engine) reset(neighbor netip.Addr) error {
	return e.call(func() error {
		return e.bgp.ResetPeer(context.Background(), &api.ResetPeerRequest{Address: neighbor.String()})
	})
}

// refresh applies a policy again to the routes that a neighbor sent, or to the routes that it
// receives.
func (e *engine) refresh(neighbor netip.Addr, direction api.ResetPeerRequest_Direction) error {
	return e.call(func() error {
		return e.bgp.ResetPeer(context.Background(), &api.ResetPeerRequest{
			Address: neighbor.String(), Soft: true, Direction: direction,
		})
	})
}

// setPolicies replaces all policies at once. The assignment stays.
func (e *engine) setPolicies(p policies) error {
	return e.call(func() error {
		return e.bgp.SetPolicies(context.Background(), p.request())
	})
}
