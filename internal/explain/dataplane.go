package explain

import (
	"fmt"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// Dataplane is the path of routes: from the interfaces of nodes into BGP, and from BGP into
// the routing tables of nodes.
type Dataplane struct {
	ImportEnabled   bool             `json:"importEnabled"`
	ImportAddresses []ImportAddress  `json:"importAddresses"`
	RIBRoutes       []AnnouncedRoute `json:"ribRoutes"`
	ExportRoutes    []KernelRoute    `json:"exportRoutes"`
	// CrossReference holds the nodes that announce each remote address.
	CrossReference []CrossReference `json:"crossReference"`
	Problems       []string         `json:"problems"`
	Unread         []Unread         `json:"unknown,omitempty"`
	// Cut says that a node has more addresses or routes than its status lists. The list begins with
	// the wrong ones.
	Cut bool `json:"truncated,omitempty"`

	imports, exports bool
}

// ImportAddress is an address of a node that is announced.
type ImportAddress struct {
	Node      string `json:"node" col:"NODE"`
	Interface string `json:"interface" col:"INTERFACE"`
	Address   string `json:"address" col:"ADDRESS"`
	InRIB     bool   `json:"inRIB" col:"IN RIB?"`
}

// AnnouncedRoute is a route that a node announces.
type AnnouncedRoute struct {
	Node         string   `json:"node" col:"NODE"`
	Route        string   `json:"route" col:"ROUTE"`
	AdvertisedTo []string `json:"advertisedTo" col:"ADVERTISED TO"`
	Services     []string `json:"services"`
	services     string   `col:"SERVICE"`
}

// KernelRoute is a route that a node learned.
type KernelRoute struct {
	Node     string `json:"node" col:"NODE"`
	Route    string `json:"route" col:"RECEIVED ROUTE"`
	InKernel bool   `json:"inKernel" col:"IN KERNEL?"`
	Table    string `json:"table" col:"TABLE"`
	Metric   int64  `json:"metric" col:"METRIC"`
	Reason   string `json:"reason,omitempty"`
}

// DataplaneFilter selects a part. The zero value selects all.
type DataplaneFilter struct {
	// Node selects one node.
	Node string
	// NoImports and NoExports omit one half.
	NoImports, NoExports bool
}

// DataplaneOf returns the routes that nodes announce and have learned.
func DataplaneOf(w World, f DataplaneFilter) (Dataplane, error) {
	if err := w.needs("what nodes announce by BGP", KindNodeStatuses); err != nil {
		return Dataplane{}, err
	}
	v := newView(w)
	if err := v.hasSpeaker(f.Node); err != nil {
		return Dataplane{}, err
	}
	d := Dataplane{Problems: v.speakerProblems(f.Node), Unread: v.unread(KindNodeStatuses, KindServices), imports: !f.NoImports, exports: !f.NoExports}
	for _, one := range v.speakers(f.Node) {
		if d.imports && one.NetlinkImport != nil {
			d.addImports(one)
			d.addRoutes(v, one)
		}
		if d.exports && one.NetlinkExport != nil {
			d.addExports(one)
		}
	}
	if d.imports {
		d.addReferences(v, f.Node)
	}
	return d, nil
}

func (d *Dataplane) problem(node, format string, args ...any) {
	d.Problems = append(d.Problems, "node "+node+": "+fmt.Sprintf(format, args...))
}

func (d *Dataplane) addImports(n bgpv1.BGPNodeStatusStatus) {
	i := n.NetlinkImport
	d.ImportEnabled = d.ImportEnabled || i.Enabled
	for _, link := range i.Interfaces {
		switch {
		case !link.Exists:
			d.problem(n.NodeName, "there is no interface %s, whose addresses are to be announced", link.Name)
		case link.OperState != "up":
			d.problem(n.NodeName, "interface %s, whose addresses are to be announced, is %s", link.Name, link.OperState)
		}
	}
	for _, a := range i.ImportedAddresses {
		d.ImportAddresses = append(d.ImportAddresses, ImportAddress{n.NodeName, a.Interface, a.Address, a.InRIB})
	}
	d.Cut = d.Cut || i.Truncated
}

func (d *Dataplane) addRoutes(v *view, n bgpv1.BGPNodeStatusStatus) {
	if n.RIB == nil {
		return
	}
	for _, r := range n.RIB.LocalRoutes {
		one := AnnouncedRoute{Node: n.NodeName, Route: r.Prefix}
		if to, _, err := addr.ParseRange(r.Prefix); err == nil {
			one.AdvertisedTo = v.named(to.From, n.NodeName, receivers(n, to.Family()))
			one.Services = v.holding(to.Contains)
			one.services = list(one.Services)
		}
		d.RIBRoutes = append(d.RIBRoutes, one)
	}
}

func (d *Dataplane) addExports(n bgpv1.BGPNodeStatusStatus) {
	for _, r := range n.NetlinkExport.ExportedRoutes {
		d.ExportRoutes = append(d.ExportRoutes, KernelRoute{n.NodeName, r.Prefix, r.Installed, r.Table, r.Metric, r.Reason})
		if !r.Installed {
			d.problem(n.NodeName, "%s is not in routing table %s: %s", r.Prefix, r.Table, orDash(r.Reason))
		}
	}
	d.Cut = d.Cut || n.NetlinkExport.Truncated
}

// addReferences looks for a route to each remote address on the nodes whose routes are known.
func (d *Dataplane) addReferences(v *view, node string) {
	r := v.routing(node)
	for _, o := range v.addresses() {
		if o.Where != announce.Remote {
			continue
		}
		to := v.routeTo(o, r)
		d.CrossReference = append(d.CrossReference, to.CrossReference)
		if narrowed := o.Narrow && len(to.AnnouncedBy) > 0; len(to.missing) > 0 && !o.Idle && !narrowed {
			d.Problems = append(d.Problems, fmt.Sprintf("Service %s, %s: %s", o.Service, o.IP, strings.Join(atMost(1, to.missing, "and %d more nodes"), ", ")))
		}
	}
}

// Tables returns the tables of d.
func (d Dataplane) Tables() []Table {
	var tables []Table
	if d.imports {
		tables = append(tables, TableOf("", d.ImportAddresses), TableOf("", d.RIBRoutes))
	}
	if d.exports {
		tables = append(tables, TableOf("", d.ExportRoutes))
	}
	if d.Cut {
		tables = append(tables, Table{Title: "Not complete", Lines: []string{"a BGPNodeStatus lists at most five entries of each kind, those with a problem first"}})
	}
	return append(append(tables, problemsTable(d.Problems)...), unreadTable(d.Unread)...)
}
