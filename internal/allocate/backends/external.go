package backends

import (
	"context"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/ipamgrpc"
	"purelb.io/purelb/internal/config"
)

// external is the backend of a group with an IPAM server.
type external struct {
	group *ipamgrpc.Group
	// fault is the reason if there is no group.
	fault *ipam.Error
}

func openExternal(b config.Backend, observe ipamgrpc.Observer) backend {
	g, err := ipamgrpc.Open(b.External.Socket, b.Group, b.External.Provider, observe)
	if err != nil {
		return &external{fault: misconfigured("%v: correct spec.external.socket", err)}
	}
	return &external{group: g}
}

func (x *external) ready(context.Context) (driver, error) {
	if x.fault != nil {
		return nil, x.fault
	}
	return x.group, nil
}

func (x *external) renew() {}

func (x *external) parallel() int { return 8 }

// The server is in the same Pod, so attempts and counts cost nothing.
func (x *external) longest() time.Duration { return 5 * time.Second }
func (x *external) settle() time.Duration  { return 5 * time.Second }
func (x *external) rest() time.Duration    { return rest }

// uncounted treats only an unreachable server as a fault, because a server need not
// implement Stats.
func (x *external) uncounted(err error) *ipam.Error {
	if fault := faultOf(err); fault != nil && fault.Kind == ipam.KindUnavailable {
		return fault
	}
	return nil
}

func (x *external) close() {
	if x.group != nil {
		_ = x.group.Close() // a failed close has no consequence
	}
}
