package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/explain"
)

const (
	// leaderLease is the Lease that the leading allocator holds.
	leaderLease = "purelb-allocator"
	// allocatorTimeout is how long an allocator may take to answer. A NetworkPolicy may keep the
	// API server from reaching it, and the other answers must not wait for that.
	allocatorTimeout = 5 * time.Second
	// mostAllocators is the largest number of pods to ask if the leader is not known.
	mostAllocators = 3
)

// leaderOf returns the name of the leading allocator, or "" if leases do not name it.
func leaderOf(leases []coordinationv1.Lease) string {
	for i := range leases {
		if holder := leases[i].Spec.HolderIdentity; leases[i].Name == leaderLease && holder != nil {
			return *holder
		}
	}
	return ""
}

// monitored is a pod and the port of its metrics.
type monitored struct {
	pod  string
	port int32
}

// allocators returns the running pods of the allocator, at most mostAllocators. If the leader's
// pod is one of them, it returns only that pod.
func allocators(pods []corev1.Pod, leader string) []monitored {
	var all []monitored
	for i := range pods {
		p := &pods[i]
		c := container(&p.Spec, "allocator")
		if c == nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, port := range c.Ports {
			if port.Name != "monitoring" {
				continue
			}
			one := monitored{p.Name, port.ContainerPort}
			if p.Name == leader {
				return []monitored{one}
			}
			all = append(all, one)
		}
	}
	return all[:min(len(all), mostAllocators)]
}

// allocatorState asks the leading allocator for its state, if the command needs it. unheard says
// why there is no state.
func (r *reader) allocatorState(ctx context.Context, pods []corev1.Pod, leader string) (state *allocstate.State, unheard *explain.Unread) {
	if !r.asksAllocator {
		return nil, nil
	}
	asked := allocators(pods, leader)
	if len(asked) == 0 {
		return nil, explain.NewUnheard(explain.Absent, "no running allocator was found")
	}
	c, err := newProber(r.config, r.namespace)
	if err != nil {
		return nil, explain.NewUnheard(explain.Failed, oneLine(err))
	}
	for _, one := range asked {
		s, err := c.state(ctx, one)
		switch {
		case err != nil:
			unheard = r.unheardBy(one.pod, err)
		case s.Leading:
			return s, nil
		default:
			unheard = explain.NewUnheard(explain.Failed, one.pod+" does not lead")
		}
	}
	return nil, unheard
}

// unheardBy translates err, the error of a request to the allocator in pod, into a reason.
func (r *reader) unheardBy(pod string, err error) *explain.Unread {
	switch {
	case apierrors.IsForbidden(err):
		return explain.NewUnheard(explain.Forbidden, r.noProxyRight())
	case apierrors.IsNotFound(err):
		return explain.NewUnheard(explain.NotServed, pod+" does not serve "+allocstate.Path+": it is of an earlier version, or gone")
	}
	return explain.NewUnheard(explain.Failed, pod+" did not answer: "+oneLine(err))
}

// noProxyRight names the missing right.
func (r *reader) noProxyRight() string {
	return fmt.Sprintf("you have no right to get pods/proxy in namespace %s (the Role purelb-inspector has)", r.namespace)
}

// state asks the allocator in a pod.
func (p *prober) state(ctx context.Context, at monitored) (*allocstate.State, error) {
	ctx, cancel := context.WithTimeout(ctx, allocatorTimeout)
	defer cancel()
	text, err := p.get(ctx, at, allocstate.Path, nil, allocstate.MaxBytes)
	if err != nil {
		return nil, err
	}
	return readState(text)
}

// get requests a page from the program in a pod, through the proxy of the API server. most is the
// largest number of bytes to read.
func (p *prober) get(ctx context.Context, at monitored, page string, about url.Values, most int64) ([]byte, error) {
	request := p.Get().Namespace(p.namespace).Resource("pods").Name(fmt.Sprintf("http:%s:%d", at.pod, at.port)).SubResource("proxy").
		Suffix(page).MaxRetries(0)
	for name, values := range about {
		request = request.Param(name, strings.Join(values, ","))
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, most))
}

// readState reads an answer of an allocator.
func readState(text []byte) (*allocstate.State, error) {
	var s allocstate.State
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the state of the allocator: %w", err)
	}
	if s.Format != allocstate.Format {
		return nil, fmt.Errorf("the allocator, version %s, answers in format %d, and this plugin reads format %d: use the plugin of that version", s.Version, s.Format, allocstate.Format)
	}
	return &s, nil
}
