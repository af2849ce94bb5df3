// Package backend runs the IPAM backends of the lab: NetBox on the machine outside of the cluster,
// and the IPAM server of the documentation in the allocator's pod. It knows how to build, start and
// query them, and nothing of PureLB.
//
// NetBox is the fake of the tests (internal/testing/netboxtest), which keeps its state in
// memory.
package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/wire"
	"purelb.io/purelb/lab/kube"
)

// Token is the API token that NetBox accepts.
const Token = "0123456789abcdef0123456789abcdef01234567"

// NetBox is a server on the machine outside of the cluster.
type NetBox struct {
	// URL is the URL of the server, for pods and for the client.
	URL     string
	control netip.AddrPort
	http    http.Client
}

// StartNetBox builds NetBox from the source tree at root and runs it on a port, with these flags of
// fakenetbox. NetBox serves until Stop or the end of the lab, even after this program ends. If
// NetBox already runs on the port, keep decides: StartNetBox uses the running NetBox, or ends it
// first.
func StartNetBox(ctx context.Context, c *cluster.Cluster, root string, port uint16, keep bool, flags ...string) (*NetBox, error) {
	m, err := c.Machine(cluster.Client)
	if err != nil {
		return nil, err
	}
	address := netip.AddrPortFrom(m.V4(), port)
	n := &NetBox{URL: "http://" + address.String() + "/", control: netip.AddrPortFrom(m.V4(), port+1)}
	n.http.Transport = wire.Transport(c.Netns(cluster.Client), n.control.String())
	if n.runs(ctx) {
		if keep {
			return n, nil
		}
		if err := n.Stop(ctx); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("netbox-%d", port)
	program := filepath.Join(c.Spec.State.Machine(cluster.Client), name)
	if err := build.Program(ctx, root, "./internal/testing/netboxtest/fakenetbox", program); err != nil {
		return nil, err
	}
	log, err := os.Create(c.Spec.State.Log(cluster.Client, name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append([]string{program, "-listen", address.String(), "-control", n.control.String(), "-token", Token}, flags...)
	cmd, err := c.Command(context.WithoutCancel(ctx), cluster.Client, args...)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // keeps the terminal's signals away
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start NetBox on %s: %w", cluster.Client, err)
	}
	go func() { _ = cmd.Wait() }() // reaps the process
	err = kube.Until(ctx, func() (string, bool) { return "NetBox does not serve; see `lab logs client " + name + "`", n.runs(ctx) })
	return n, err
}

func (n *NetBox) runs(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := n.Addresses(ctx)
	return err == nil
}

// Stop ends NetBox. Its data is lost.
func (n *NetBox) Stop(ctx context.Context) error {
	ordered := n.Order(ctx, "exit", nil) // NetBox may end before its answer is sent
	return kube.Until(ctx, func() (string, bool) {
		return fmt.Sprintf("NetBox still runs; the order to end: %v", ordered), !n.runs(ctx)
	})
}

// Address is an address in NetBox.
type Address struct {
	ID          int64
	Address     netip.Prefix
	Status      string
	Description string
	Fields      map[string]any
	URL         string
}

// Addresses returns the addresses in NetBox, by number.
func (n *NetBox) Addresses(ctx context.Context) (list []Address, err error) {
	return list, n.ask(ctx, http.MethodGet, "addresses", nil, &list)
}

// Requests returns how often each call was made. A key is, for example, "POST
// /api/ipam/ip-ranges/{id}/available-ips/". It returns an error if NetBox got a request that is no
// call of the driver.
func (n *NetBox) Requests(ctx context.Context) (counts map[string]int, err error) {
	return counts, n.ask(ctx, http.MethodGet, "requests", nil, &counts)
}

// Stopped waits until a request is held, and returns the held requests.
func (n *NetBox) Stopped(ctx context.Context) (held []string, err error) {
	return held, n.ask(ctx, http.MethodGet, "stopped", nil, &held)
}

// Order sends a POST to the control endpoint of NetBox. Package fakenetbox documents the orders.
func (n *NetBox) Order(ctx context.Context, name string, with url.Values) error {
	return n.ask(ctx, http.MethodPost, name, with, new(any))
}

func (n *NetBox) ask(ctx context.Context, method, name string, with url.Values, into any) error {
	target := url.URL{Scheme: "http", Host: n.control.String(), Path: "/" + name, RawQuery: with.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return err
	}
	answer, err := n.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(target.String() + ": " + string(text))
	}
	return json.Unmarshal(text, into)
}
