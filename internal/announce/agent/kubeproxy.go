package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"purelb.io/purelb/internal/addr"
)

// DefaultProxyHealth is where kube-proxy reports its health by default (healthzBindAddress).
const DefaultProxyHealth = "http://127.0.0.1:10256/livez"

// ProxyHealth says how to ask kube-proxy, or a program in its place, whether it forwards packets.
//
// URL alone proves little: kube-proxy answers there as soon as it starts, before it has read a single
// Service. So the agent also connects to a Service that every cluster has.
type ProxyHealth struct {
	// URL answers 200 if kube-proxy works, and 500 or more if not.
	URL string
	// Service is the "address:port" of a Service of the cluster that accepts connections, or "".
	Service string
}

// ParseProxyHealth reads the value of a flag, a URL or "none". kubernetes is the URL of the Service of the
// API server that the kubelet gives to each pod (KUBERNETES_PORT), or "".
func ParseProxyHealth(text, kubernetes string) (ProxyHealth, error) {
	if text == "none" {
		return ProxyHealth{}, nil
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" || u.Host == "" {
		return ProxyHealth{}, fmt.Errorf("%q is not a URL such as %s, and not none", text, DefaultProxyHealth)
	}
	p := ProxyHealth{URL: text}
	if u, err := url.Parse(kubernetes); err == nil && u.Scheme == "tcp" {
		p.Service = u.Host
	}
	return p, nil
}

// kubeProxy returns the KubeProxy to ask, or nil.
func (p ProxyHealth) kubeProxy() KubeProxy {
	if p.URL == "" {
		return nil
	}
	return proxyClient{p, &http.Client{Timeout: answerLimit, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// answerLimit is how long an answer of a program on this node may take.
const answerLimit = time.Second

// proxyClient asks kube-proxy by HTTP.
type proxyClient struct {
	ProxyHealth
	client *http.Client
}

// errNoRules is the error of a kube-proxy that answers and has not written its rules.
var errNoRules = errors.New("connect to the Service of the API server")

// Works implements KubeProxy.
func (p proxyClient) Works(ctx context.Context) (answered bool, err error) {
	status, err := p.get(ctx, p.URL)
	switch {
	case err != nil:
		return false, err
	case status != http.StatusOK:
		return status >= http.StatusInternalServerError, fmt.Errorf("%s answers %d", p.URL, status)
	case p.Service == "":
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Service)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errNoRules, err)
	}
	return true, connection.Close()
}

// Serves implements KubeProxy.
func (p proxyClient) Serves(ctx context.Context, port uint16, at []netip.Addr) (serves, answered bool) {
	for _, ip := range at {
		status, err := p.get(ctx, "http://"+net.JoinHostPort(ip.String(), strconv.Itoa(int(port)))+"/healthz")
		if err == nil {
			return status == http.StatusOK, true
		}
	}
	return false, false
}

// get returns the status of the answer.
func (p proxyClient) get(ctx context.Context, from string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return 0, err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, nil
}

// healthAddresses returns where kube-proxy may tell of its endpoints of family f: at the loopback address,
// or only at the addresses by which Kubernetes knows the node (nodePortAddresses).
func healthAddresses(f addr.Family, ofNode []netip.Addr) []netip.Addr {
	all := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	if f == addr.V6 {
		all[0] = netip.IPv6Loopback()
	}
	for _, ip := range ofNode {
		if addr.FamilyOf(ip) == f {
			all = append(all, ip)
		}
	}
	return all
}
