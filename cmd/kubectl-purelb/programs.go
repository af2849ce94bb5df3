package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/explain"
)

const (
	// leaderLease is the Lease that the leading allocator holds.
	leaderLease = "purelb-allocator"
	// answers is how long a program may take to send its state. A NetworkPolicy may keep the API server
	// from reaching it, and the other answers must not wait for that.
	answers = 5 * time.Second
	// mostAllocators is the largest number of pods to ask if the leader is not known.
	mostAllocators = 3
	// mostAgents is how many agents one answer asks. An address has one holder and one winner.
	// More agents matter only for a Service with addresses in several networks.
	mostAgents = 8
)

// parallel calls do with each number below n, at most that many at a time. It leaves out none when a context ends,
// because do makes the error then.
func parallel(n, most int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), most, n, do)
}

// monitored is a pod and the port of its metrics.
type monitored struct {
	node, pod string
	port      int32
}

// serving returns the running pods with a container of this name that has a port for metrics.
func serving(pods []corev1.Pod, name string) (all []monitored) {
	for i := range pods {
		p := &pods[i]
		c := explain.ContainerOf(&p.Spec, name)
		if c == nil || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		for _, port := range c.Ports {
			if port.Name == "monitoring" {
				all = append(all, monitored{p.Spec.NodeName, p.Name, port.ContainerPort})
			}
		}
	}
	return all
}

// through sends a request to a path of a program in a pod, through the proxy of the API server.
func (r *reader) through(request *rest.Request, to monitored, path string) *rest.Request {
	return request.Namespace(r.namespace).Resource("pods").Name(fmt.Sprintf("http:%s:%d", to.pod, to.port)).SubResource("proxy").Suffix(path)
}

// state reads the state of a program in a pod: the whole, or only what concerns these addresses. program and format
// are what the pod must be, and most is the largest number of bytes to read.
func (r *reader) state(ctx context.Context, at monitored, program string, format int, addresses []string, most int64, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	request := r.through(r.pods.CoreV1().RESTClient().Get(), at, allocstate.Path).MaxRetries(0)
	if len(addresses) > 0 {
		request = request.Param(agentstate.ByAddress, strings.Join(addresses, ","))
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return err
	}
	var said struct {
		Format  int
		Version string
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("read the state of the %s: %w", program, err)
	}
	if said.Format != format {
		return fmt.Errorf("the %s, version %s, answers in format %d, and this plugin reads format %d: use the plugin of that version", program, said.Version, said.Format, format)
	}
	return json.Unmarshal(text, into)
}

// unheard says why the program in a pod was not heard: the agent of a node, or the allocator if node is "".
func (r *reader) unheard(node, pod string, err error) explain.Unread {
	switch {
	case apierrors.IsForbidden(err):
		return explain.NewUnheard(node, explain.Forbidden, fmt.Sprintf("you have no right to get pods/proxy in namespace %s (the Role purelb-inspector has)", r.namespace))
	case apierrors.IsNotFound(err):
		return explain.NewUnheard(node, explain.NotServed, pod+" does not serve "+allocstate.Path+": it is of an earlier version, or gone")
	}
	return explain.NewUnheard(node, explain.Failed, pod+" did not answer: "+oneLine(err))
}

// leaderOf returns the name of the leading allocator, or "" if leases do not name it.
func leaderOf(leases []coordinationv1.Lease) string {
	for i := range leases {
		if holder := leases[i].Spec.HolderIdentity; leases[i].Name == leaderLease && holder != nil {
			return *holder
		}
	}
	return ""
}

// allocatorState asks the leading allocator for its state, if the command needs it. unheard says
// why there is no state.
func (r *reader) allocatorState(ctx context.Context, pods []corev1.Pod, leader string) (state *allocstate.State, unheard []explain.Unread) {
	if !r.asked.asksAllocator {
		return nil, nil
	}
	asked := serving(pods, "allocator")
	if i := slices.IndexFunc(asked, func(m monitored) bool { return m.pod == leader }); i >= 0 {
		asked = asked[i : i+1]
	}
	last := explain.NewUnheard("", explain.Absent, "no running allocator was found")
	for _, one := range asked[:min(len(asked), mostAllocators)] {
		var s allocstate.State
		switch err := r.state(ctx, one, "allocator", allocstate.Format, nil, allocstate.MaxBytes, &s); {
		case err != nil:
			last = r.unheard("", one.pod, err)
		case s.Leading:
			return &s, nil
		default:
			last = explain.NewUnheard("", explain.Failed, one.pod+" does not lead")
		}
	}
	return nil, []explain.Unread{last}
}

// agentStates asks the agents in wants in parallel, at most mostAgents of them.
func (r *reader) agentStates(ctx context.Context, pods []corev1.Pod, wants explain.Wants) (states map[string]*agentstate.State, unheard []explain.Unread) {
	agents := serving(pods, "lbnodeagent")
	var about []string
	for _, ip := range wants.Addresses {
		about = append(about, ip.String())
	}
	nodes := wants.Agents[:min(len(wants.Agents), mostAgents)]
	said, missing := make([]*agentstate.State, len(nodes)), make([]explain.Unread, len(nodes))
	parallel(len(nodes), mostAgents, func(i int) {
		missing[i] = explain.NewUnheard(nodes[i], explain.Absent, "no running agent was found there")
		at := slices.IndexFunc(agents, func(m monitored) bool { return m.node == nodes[i] })
		if at < 0 {
			return
		}
		var s agentstate.State
		if err := r.state(ctx, agents[at], "agent", agentstate.Format, about, 2*agentstate.MaxBytes, &s); err != nil {
			missing[i] = r.unheard(nodes[i], agents[at].pod, err)
			return
		}
		said[i] = &s
	})
	states = map[string]*agentstate.State{}
	for i, node := range nodes {
		if said[i] == nil {
			unheard = append(unheard, missing[i])
			continue
		}
		states[node] = said[i]
	}
	return states, unheard
}
