package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
)

const (
	// node is the node with the volume of the IPAM server. folder is the path of the volume on the
	// node's disk.
	node   = "node-1"
	folder = "/var/lib/kubelet/ipam-state"
	claim  = "ipam-state"
)

// Server is the IPAM server of docs/examples/ipam-server. It runs in the pod of the allocator. Its
// book is on the disk of one node, so the allocator must run on that node.
type Server struct {
	cluster *cluster.Cluster
	image   string
}

// BuildServer builds the IPAM server from the source tree at root and gives its image to the
// cluster.
func BuildServer(ctx context.Context, c *cluster.Cluster, root string) (*Server, error) {
	image, err := c.BuildImage(ctx, root, "./docs/examples/ipam-server")
	return &Server{c, image}, err
}

// Prepare makes the volume for the book in a namespace.
func (s *Server) Prepare(ctx context.Context, api *kube.Client, namespace string) error {
	if _, err := s.cluster.Exec(ctx, node, "mkdir", "-p", folder); err != nil {
		return err
	}
	return api.Apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[2]s}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: lab
  claimRef: {name: %[1]s, namespace: %[2]s}
  local: {path: %[3]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[4]s]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  storageClassName: lab
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
`, claim, namespace, folder, node))
}

// Values are the settings of PureLB's chart for the IPAM server, with pools as its arguments:
// POOL=PREFIX.
func (s *Server) Values(pools ...string) []string {
	const container, volume = "allocator.ipam.containers[0].", "allocator.ipam.volumes[0]."
	values := []string{
		container + "name=ipam",
		container + "image=" + s.image,
		container + "resources.requests.cpu=10m",
		container + "resources.requests.memory=16Mi",
		container + "volumeMounts[0].name=state",
		container + "volumeMounts[0].mountPath=/state",
		volume + "name=state",
		volume + "persistentVolumeClaim.claimName=" + claim,
	}
	for i, arg := range append([]string{"/var/run/purelb/ipam.sock", "/state/book.json"}, pools...) {
		values = append(values, fmt.Sprintf("%sargs[%d]=%s", container, i, arg))
	}
	return values
}

// Book returns the Service that holds each address of the IPAM server, as "POOL NAMESPACE/NAME". A
// server that has handed out no address yet has no book.
func (s *Server) Book(ctx context.Context) (map[netip.Addr]string, error) {
	text, err := s.cluster.Exec(ctx, node, "sh", "-c", "cat "+folder+"/book.json || echo {}")
	if err != nil {
		return nil, err
	}
	var book map[netip.Addr]string
	if err := json.Unmarshal([]byte(text), &book); err != nil {
		return nil, fmt.Errorf("the book of the IPAM server: %w", err)
	}
	return book, nil
}

// Lock prevents the IPAM server from writing its book, so the server refuses all calls that change
// something. Unlock ends that.
func (s *Server) Lock(ctx context.Context) error {
	_, err := s.cluster.Exec(ctx, node, "chmod", "a-w", folder)
	return err
}

// Unlock ends the effect of Lock.
func (s *Server) Unlock(ctx context.Context) error {
	_, err := s.cluster.Exec(ctx, node, "chmod", "ug+w", folder)
	return err
}

// Forget removes the book. The IPAM server must not run.
func (s *Server) Forget(ctx context.Context) error {
	_, err := s.cluster.Exec(ctx, node, "rm", "-f", folder+"/book.json")
	return err
}
