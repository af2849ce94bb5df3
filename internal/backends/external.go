package backends

import (
	"context"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/ipamgrpc"
)

// externalBatch is how many claims one call takes. Eight requests run in parallel.
const externalBatch = 64

// external is the backend of a group with an IPAM server.
type external struct {
	*ipamgrpc.Group
	// fault is the reason if there is no Group.
	fault *ipam.Error
}

func openExternal(sockets *ipamgrpc.Sockets, b config.Backend) backend {
	g, err := sockets.Group(b.External.Socket, b.Group, b.External.Provider)
	if err != nil {
		return &external{fault: misconfigured("%v: correct spec.external.socket", err)}
	}
	return &external{Group: g}
}

func (x *external) prepare(context.Context) error {
	if x.fault != nil {
		return x.fault
	}
	return nil
}

func (x *external) renew()              {}
func (x *external) batch() int          { return externalBatch }
func (x *external) nearby() bool        { return true }
func (x *external) rest() time.Duration { return rest }

// measuring treats only an unreachable server as a fault, because a server need not
// implement Stats.
func (x *external) measuring(err error) *ipam.Error {
	if fault := faultOf(err); fault != nil && fault.Kind == ipam.KindUnavailable {
		return fault
	}
	return nil
}

func (x *external) close() {
	if x.Group != nil {
		_ = x.Close() // a failed close has no consequence
	}
}
