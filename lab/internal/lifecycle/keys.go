package lifecycle

import (
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/pki"
	"purelb.io/purelb/lab/internal/topology"
)

// client is a program or a user that talks to the API server.
type client struct {
	file string
	pki.Subject
}

// keys makes all certificates and kubeconfigs.
func keys(c *cluster.Cluster) error {
	dir := c.Spec.State.PKI()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := pki.NewAuthority(dir, "ca")
	if err != nil {
		return err
	}
	front, err := pki.NewAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error { return pki.NewKey(dir, "sa") })
	g.Go(func() error { return front.Issue(dir, "front-proxy-client", pki.Subject{Name: "front-proxy-client"}) })
	g.Go(func() error { return ca.Issue(dir, "apiserver", apiServer(c)) })
	for _, cl := range clients(c) {
		g.Go(func() error { return ca.IssueKubeconfig(dir, cl.file, c.Spec.APIServer(), cl.Subject) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return ca.Kubeconfig(dir, "admin", c.Server(), c.Kubeconfig())
}

// apiServer returns the names in the API server's certificate: its address for the machines, the
// first address of the Service ranges for pods, and loopback for the host.
func apiServer(c *cluster.Cluster) pki.Subject {
	cp, _ := c.Spec.Plan.Machine(topology.ControlPlane)
	hosts := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", "::1", cp.V4().String(), cp.V6().String(),
	}
	for _, p := range c.Spec.Plan.Services() {
		hosts = append(hosts, p.Addr().Next().String())
	}
	return pki.Subject{Name: "kube-apiserver", Hosts: hosts}
}

func clients(c *cluster.Cluster) []client {
	loopback := []string{"127.0.0.1", "localhost"}
	all := []client{
		{"admin", pki.Subject{Name: "admin", Group: "system:masters"}},
		{"apiserver-kubelet-client", pki.Subject{Name: "apiserver-kubelet-client", Group: "system:masters"}},
		{"controller-manager", pki.Subject{Name: "system:kube-controller-manager", Hosts: loopback}},
		{"scheduler", pki.Subject{Name: "system:kube-scheduler", Hosts: loopback}},
		{"proxy", pki.Subject{Name: "system:kube-proxy"}},
	}
	for _, n := range c.Nodes() {
		hosts := []string{n.Name, n.V4().String(), n.V6().String()}
		all = append(all, client{n.Name, pki.Subject{Name: "system:node:" + n.Name, Group: "system:nodes", Hosts: hosts}})
	}
	return all
}
