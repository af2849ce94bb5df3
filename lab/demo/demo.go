// Package demo shows the product's main job: Services of a cluster get
// addresses, and a client outside reaches them.
package demo

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
	"purelb.io/purelb/lab/router"
)

// Manifests are the manifests that the demonstration applies.
//
//go:embed demo.yaml
var Manifests string

const namespace = "demo"

// service is one Service of Manifests.
type service struct {
	name string
	// remote says that every node announces its addresses.
	remote bool
	// from is the name of the group that its addresses are from.
	from string
}

// services are the Services of Manifests, in the order of the table.
var services = []service{
	{"web-local", false, "ServiceGroup default, spec.local"},
	{"web-remote", true, "ServiceGroup virtual, spec.remote"},
	{"web-netbox", true, "ServiceGroup netbox, spec.netbox"},
	{"web-external", false, "ServiceGroup external, spec.external"},
}

// row is one line of the table: an address, the nodes that carry it, and the answer from it.
type row struct {
	service
	address   netip.Addr
	announced string
	answer    string
}

type demo struct {
	*cluster.Cluster
	*backends
	kube *kube.Client
	out  io.Writer
}

// Run starts the IPAM backends, installs PureLB from the tree into the cluster, and applies the
// manifests. From the client machine, it fetches a page from every address of their Services. It
// prints the results and the output of the plugin. It fails if an address does not answer or if the
// plugin reports a problem. It leaves everything in place.
func Run(ctx context.Context, c *cluster.Cluster, tree product.Tree, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	client, err := kube.New(c.Kubeconfig())
	if err != nil {
		return err
	}
	b, err := startBackends(ctx, c, client, tree.Root, out)
	if err != nil {
		return err
	}
	if err := tree.Install(ctx, c, c.Kubeconfig(), b.values()...); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	d := demo{c, b, client, out}
	rows, err := d.serve(ctx)
	if err != nil {
		return err
	}
	if err := d.showOrigins(ctx, rows); err != nil {
		return err
	}
	if err := d.showRoutes(ctx, rows); err != nil {
		return err
	}
	silent := d.visit(ctx, rows)
	d.table(rows)
	if silent > 0 {
		return fmt.Errorf("%d of %d addresses did not answer the client outside", silent, len(rows))
	}
	if err := d.explain(ctx, tree.Root); err != nil {
		return err
	}
	d.lookAround(rows, tree.Root)
	return nil
}

// serve applies the manifests and waits until every address is announced.
func (d demo) serve(ctx context.Context) ([]row, error) {
	fmt.Fprintf(d.out, "\nApplying four ServiceGroups, a BGPConfiguration, a Deployment and four Services:\n")
	if err := d.kube.Apply(ctx, Manifests); err != nil {
		return nil, err
	}
	if err := d.kube.WaitDeployment(ctx, namespace, "echo"); err != nil {
		return nil, err
	}
	var rows []row
	for _, s := range services {
		addresses, err := d.kube.WaitAddresses(ctx, namespace, s.name, 2)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(d.out, "  Service %s/%s has %v of %s\n", namespace, s.name, addresses, s.from)
		for _, a := range addresses {
			rows = append(rows, row{service: s, address: a})
		}
	}
	return rows, d.waitAnnounced(ctx, rows)
}

// waitAnnounced waits until the kernels of the nodes carry the addresses: a local address on one
// node, a remote address on all nodes.
func (d demo) waitAnnounced(ctx context.Context, rows []row) error {
	for i := range rows {
		err := kube.Until(ctx, func() (string, bool) {
			by, err := d.carriers(rows[i].address)
			if err != nil {
				return err.Error(), false
			}
			rows[i].announced = strings.Join(by, ", ")
			want := 1
			if rows[i].remote {
				want = len(d.Nodes())
			}
			return fmt.Sprintf("%s is on %d of %d nodes", rows[i].address, len(by), want), len(by) == want
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// carriers returns the nodes and interfaces that carry an address.
func (d demo) carriers(a netip.Addr) ([]string, error) {
	var by []string
	for _, n := range d.Nodes() {
		links, err := router.Carriers(d.Netns(n.Name), a)
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			by = append(by, n.Name+" "+l)
		}
	}
	return by, nil
}

// showRoutes waits until every node has announced routes to the remote addresses to the router by
// BGP. It prints the routes of the router's kernel.
func (d demo) showRoutes(ctx context.Context, rows []row) error {
	fmt.Fprintln(d.out, "\nThe router has learned by BGP how to reach the remote addresses, and spreads packets over all next hops:")
	for _, r := range rows {
		if !r.remote {
			continue
		}
		var learned router.Route
		err := kube.Until(ctx, func() (string, bool) {
			var err error
			if learned, err = router.To(d.Netns(cluster.Router), netip.PrefixFrom(r.address, r.address.BitLen())); err != nil {
				return err.Error(), false
			}
			return fmt.Sprintf("the router has %s, and there are %d nodes", learned, len(d.Nodes())), len(learned.Via) == len(d.Nodes())
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  %s\n", learned)
	}
	return nil
}

// visit fetches a page from every address with curl in the client machine. It returns the number of
// addresses that did not answer in time.
func (d demo) visit(ctx context.Context, rows []row) (silent int) {
	for i := range rows {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := kube.Until(ctx, func() (string, bool) {
			out, err := d.Exec(ctx, cluster.Client, "curl", "--silent", "--show-error", "--max-time", "3", url(rows[i].address))
			if err != nil {
				rows[i].answer = "NO ANSWER: " + err.Error()
				return rows[i].answer, false
			}
			rows[i].answer = strings.TrimSpace(out)
			return "", true
		})
		cancel()
		if err != nil {
			silent++
		}
	}
	return silent
}

func url(a netip.Addr) string { return "http://" + netip.AddrPortFrom(a, 80).String() + "/" }

func (d demo) table(rows []row) {
	fmt.Fprintln(d.out)
	w := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tADDRESS\tANNOUNCED BY\tCURL FROM THE CLIENT OUTSIDE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\n", namespace, r.name, r.address, r.announced, r.answer)
	}
	w.Flush()
}

func (d demo) lookAround(rows []row, root string) {
	fmt.Fprintf(d.out, `
The cluster stays up. Look around:
  export KUBECONFIG=%[1]s PATH=%[2]s:%[4]s:$PATH
  kubectl -n demo describe service web-netbox
  kubectl -n purelb-system describe servicegroup netbox
  kubectl -n purelb-system get servicegroups,lbnodeagents,leases,pods -o wide
  kubectl get bgpnodestatuses
  kubectl purelb probe %[5]s
  kubectl purelb dashboard
  go -C lab run . status
  go -C lab run . exec node-1 ip address show
  go -C lab run . exec router ip route show proto bgp
  go -C lab run . exec router vtysh -c 'show bgp summary' -c 'show bfd peers brief'
  go -C lab run . exec client curl -s %[3]s
  make down
`, d.Kubeconfig(), d.Bin(), url(rows[0].address), filepath.Dir(filepath.Join(root, plugin)), rows[0].address)
}
