package netbox

import (
	"fmt"
	"strings"

	"purelb.io/purelb/internal/allocate/ipam"
)

// A key has the name of its cluster. If a person gave the name to two clusters, both would have the
// address of a key, and the first to give it back would take it from the other. So the description
// of an address has the UID of the cluster, if its name is another one.

// ownerMark is the part of a description before the UID.
const ownerMark = " (cluster "

// describe returns the description of an address for c.
func (p *Pool) describe(prefix string, c ipam.Claim) string {
	mark := ""
	if p.group.UID != "" && p.group.UID != p.group.Cluster {
		mark = ownerMark + p.group.UID + ")"
	}
	return description(prefix+c.Service, mark)
}

// description joins a text and a mark, and cuts the text to the length that NetBox accepts.
func description(text, mark string) string {
	const longest = 200
	if runes := []rune(text); len(runes) > longest-len(mark) {
		text = string(runes[:longest-len(mark)])
	}
	return text + mark
}

// another returns the UID of the other cluster that a belongs to, or "".
func (p *Pool) another(a address) string {
	i := strings.LastIndex(a.Description, ownerMark)
	if i < 0 || p.group.UID == "" {
		return ""
	}
	uid := strings.TrimSuffix(a.Description[i+len(ownerMark):], ")")
	if uid == p.group.UID || uid == p.group.Replaces {
		return ""
	}
	return uid
}

// notOurs is the error for a claim whose key has an address of another cluster.
func (p *Pool) notOurs(c ipam.Claim, a address, uid string) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindTaken, Message: fmt.Sprintf(
		"NetBox holds %s for %s of another cluster that is called %q too, with the UID %s (%s): give each cluster a clusterName of its own, or, if this cluster replaces that one, set replacesCluster to that UID",
		a.ip(), c.Service, p.group.Cluster, uid, p.object(a.ID))}
}
