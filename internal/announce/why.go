package announce

import (
	"cmp"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Why says in a sentence why the address is where it is. The reader sees the address beside
// the sentence.
func (d Decision) Why() string {
	if d.Where != Nowhere && d.Message != "" {
		return d.because() + "; but " + d.Message
	}
	return d.because()
}

// because is Why without the problems of an announced address.
func (d Decision) because() string {
	switch d.Reason {
	case ReasonElected:
		return chosen(d)
	case ReasonLostElection:
		return chosen(d) + handed(d)
	case ReasonRemote:
		return "every node announces it, or every node with a ready endpoint where externalTrafficPolicy is Local"
	case ReasonKept:
		return "it stays as it is until this node knows enough of the cluster to decide"
	case ReasonUndecided:
		return "this node does not know enough of the cluster yet to decide"
	case ReasonNoConfig:
		return "no usable LBNodeAgent is for this node" + handed(d)
	case ReasonNoEligibleNodes:
		return "no live node can have it: no node reports an interface in its network"
	case ReasonNoInterface:
		return "this node has no working interface in its network" + elsewhere(d) + handed(d)
	case ReasonNoEndpoints:
		return noEndpoints(d)
	case ReasonIdle:
		return "no Service that has it has an endpoint on any node, and its group says withdrawWithoutEndpoints"
	case ReasonNoCarrier:
		return "its interface has no carrier, so no client gets an answer, and another node may take it meanwhile"
	case ReasonNoKubeProxy:
		return "this node takes it as soon as its kube-proxy forwards its packets"
	}
	return cmp.Or(d.Message, d.Reason)
}

// chosen says why the Winner won.
func chosen(d Decision) string {
	switch d.Because {
	case election.ReasonHolder:
		return d.Winner + " has it and can keep it"
	case election.ReasonNamed:
		return d.Winner + " is the node that its Service names by the annotation " + service.AnnotationNode
	case election.ReasonWeight:
		return d.Winner + " has the largest weight for its group of the nodes in its network"
	case election.ReasonHash:
		return d.Winner + " has the lowest hash of the nodes in its network"
	case election.ReasonAffinity:
		return d.Winner + " has a ready endpoint of its Service"
	case election.ReasonAffinityFallback:
		return d.Winner + " stands in, because no node with a ready endpoint of its Service can have it"
	case election.ReasonLastResort:
		return d.Winner + " has it although that node is being drained, because no other can have it"
	}
	return d.Winner + " has taken it"
}

func handed(d Decision) string {
	if d.HandTo == "" {
		return ""
	}
	if d.Dark {
		return "; it goes at once, and " + d.HandTo + " is asked to take it"
	}
	return "; it goes as soon as " + d.HandTo + " has it"
}

func elsewhere(d Decision) string {
	if d.Winner == "" {
		return ""
	}
	return "; " + d.Winner + " announces it"
}

func noEndpoints(d Decision) string {
	if d.Because == election.ReasonNoEndpoints {
		return "externalTrafficPolicy is Local, and no node in its network has a ready endpoint of its Service"
	}
	if d.Because == BecauseNoNode {
		return "externalTrafficPolicy is Local, and no node has a ready endpoint of its Service"
	}
	return "externalTrafficPolicy is Local, and this node has no ready endpoint of its Service"
}
