// Package kube has the few requests that the lab itself sends to the API server: whether it is
// ready, a new Node object, and whether the nodes are ready. Tests use their own client.
package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"purelb.io/purelb/lab/internal/topology"
)

// Client talks to one API server.
type Client struct {
	server string
	http   *http.Client
}

// New returns a client for the server, with the administrator's certificate.
func New(server, pkiDir string) (*Client, error) {
	authority, err := os.ReadFile(filepath.Join(pkiDir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(pkiDir, "admin.crt"), filepath.Join(pkiDir, "admin.key"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &Client{server, &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}},
	}}, nil
}

// Ready asks the server whether it is ready.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/readyz", nil)
	return err
}

// PutNode creates the Node object of a machine if it does not exist. The kubelet adopts the object.
// Only the pod ranges are unknown to the kubelet. The controllers of Kubernetes set the same
// annotation on each node. Without any annotation on a node, flannel ends.
func (c *Client) PutNode(ctx context.Context, m topology.Machine) error {
	var ranges []string
	for _, p := range m.Pods {
		ranges = append(ranges, p.String())
	}
	return c.create(ctx, "/api/v1/nodes", object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{
			"name":        m.Name,
			"annotations": object{"node.alpha.kubernetes.io/ttl": "0"},
			"labels": object{
				"kubernetes.io/hostname":      m.Name,
				"kubernetes.io/os":            "linux",
				"topology.kubernetes.io/zone": m.NICs[0].Segment,
			},
		},
		"spec": object{"podCIDR": ranges[0], "podCIDRs": ranges},
	})
}

// ReadyNodes returns every ready node with the boot id in its status.
func (c *Client) ReadyNodes(ctx context.Context) (map[string]string, error) {
	body, err := c.do(ctx, http.MethodGet, "/api/v1/nodes", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status string }
				NodeInfo   struct{ BootID string }
			}
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	ready := map[string]string{}
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready[n.Metadata.Name] = n.Status.NodeInfo.BootID
			}
		}
	}
	return ready, nil
}

// StatusError is an answer with an error status.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return fmt.Sprintf("api server: %d: %s", e.Code, e.Text) }

type object = map[string]any

// create makes an object, unless it exists.
func (c *Client) create(ctx context.Context, path string, o object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPost, path, body)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusConflict {
		return nil
	}
	return err
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, &StatusError{resp.StatusCode, string(text)}
	}
	return text, nil
}
