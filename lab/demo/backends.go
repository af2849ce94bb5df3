package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"purelb.io/purelb/lab/backend"
	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// backends are the other sources of addresses: NetBox on the machine outside of the cluster, and an
// IPAM server in the pod of the allocator.
type backends struct {
	netbox *backend.NetBox
	server *backend.Server
}

// The addresses of the backends. Their groups in Manifests determine where nodes announce the
// addresses.
var (
	netboxRanges = []string{"-range", "10.255.2.1-10.255.2.99/24", "-range", "fd00:10:255:2::1-fd00:10:255:2::99/64"}
	serverPools  = []string{"external=172.30.250.224/28", "external=2001:db8:1:250:c::10/124"}
)

const netboxPort = 8000

func startBackends(ctx context.Context, c *cluster.Cluster, api *kube.Client, root string, out io.Writer) (*backends, error) {
	fmt.Fprintf(out, "starting NetBox (the fake of the tests) on the machine %s, and building an IPAM server\n", cluster.Client)
	var b backends
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		b.netbox, err = backend.StartNetBox(ctx, c, root, netboxPort, true, netboxRanges...)
		return err
	})
	all.Go(func() (err error) {
		if b.server, err = backend.BuildServer(ctx, c, root); err != nil {
			return err
		}
		return b.server.Prepare(ctx, api, product.Namespace)
	})
	return &b, all.Wait()
}

func (b *backends) values() []string { return b.server.Values(serverPools...) }

// showOrigins prints the backends' records of the addresses that they handed out.
func (d demo) showOrigins(ctx context.Context, rows []row) error {
	held, err := d.netbox.Addresses(ctx)
	if err != nil {
		return err
	}
	book, err := d.server.Book(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nThe backends have written down which Services hold their addresses:")
	for _, r := range rows {
		for _, a := range held {
			if a.Address.Addr() == r.address {
				fmt.Fprintf(d.out, "  NetBox       %s for %s, %s\n", a.Address, a.Description, a.URL)
			}
		}
		if holder := book[r.address]; holder != "" {
			pool, service, _ := strings.Cut(holder, " ")
			fmt.Fprintf(d.out, "  IPAM server  %s for %s, pool %s\n", r.address, service, pool)
		}
	}
	return nil
}
