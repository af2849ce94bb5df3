package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
)

func newProbe(o *options) *cobra.Command {
	var nodes []string
	cmd := &cobra.Command{
		Use: "probe ADDRESS", Short: "Ask all agents who answers for an address on their segments", Args: oneArgument(isAddress),
		Long: `Ask the agents who answers for an address of a ServiceGroup or a Service, by ARP or
Neighbor Discovery. Each agent whose node has the network of the address says which
machines answered: a node, a machine that is no node, or none. Silence counts only if a
machine that must answer did.

You need the rights of the Role purelb-prober in the namespace of PureLB. The exit code
is 1 if the wire is not as it should be, or if nothing is known of it.`,
		Example: `  kubectl purelb probe 192.0.2.10
  kubectl purelb probe 192.0.2.10 --node node-1 --node node-2
  kubectl purelb probe 2001:db8::10 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ip := netip.MustParseAddr(args[0]).Unmap()
			r, err := o.cluster()
			if err != nil {
				return err
			}
			r.find(cmd.Context())
			answers, err := r.probe(cmd.Context(), ip, nodes)
			if err != nil {
				return err
			}
			s := probe.Summarize(ip, answers)
			return o.finish(probed{s}, s.Problem)
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "Only the agents of these nodes")
	return cmd
}

// newPods returns what sends requests to pods through the proxy of the API server.
func newPods(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json" // as agents read and write
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return c, nil
}

const (
	// agentTimeout is how long one agent may take. A probe takes an agent one second, and up to
	// four probes for other users may come first.
	agentTimeout = 20 * time.Second
	// atOnce is how many agents are asked in parallel.
	atOnce = 64
	// busyTries is how often an overloaded agent is asked again.
	busyTries = 5
	// tokenLife is the shortest lifetime of a token that the API server allows.
	tokenLife = 10 * time.Minute
)

// probe asks the agents of nodes, or all agents if nodes is empty.
func (r *reader) probe(ctx context.Context, ip netip.Addr, nodes []string) ([]probe.Answer, error) {
	agents, err := r.agents(ctx, nodes)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout(len(agents)))
	defer cancel()
	token, err := r.token(ctx, ip)
	if err != nil {
		return nil, err
	}
	answers := make([]probe.Answer, len(agents))
	parallel(len(agents), atOnce, func(i int) {
		var err error
		if answers[i], err = r.askOne(ctx, agents[i], token, ip); err != nil {
			answers[i] = probe.Unanswered(agents[i].node, ip, oneLine(r.because(err)))
		}
	})
	return answers, nil
}

// probeTimeout returns how long this number of agents may take together. It is a minute, and
// longer if some agents must wait for others.
func probeTimeout(agents int) time.Duration {
	return time.Minute + time.Duration(agents/atOnce)*agentTimeout/5
}

// agents returns the running agents of nodes, or all if nodes is empty.
func (r *reader) agents(ctx context.Context, nodes []string) ([]monitored, error) {
	pods, err := r.pods.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=purelb"})
	if err != nil {
		return nil, fmt.Errorf("list the agents: %w", r.because(err))
	}
	agents := slices.DeleteFunc(serving(pods.Items, "lbnodeagent"), func(a monitored) bool { return len(nodes) > 0 && !slices.Contains(nodes, a.node) })
	for _, node := range nodes {
		if !slices.ContainsFunc(agents, func(a monitored) bool { return a.node == node }) {
			return nil, fmt.Errorf("no agent runs on node %s", node)
		}
	}
	if len(agents) == 0 {
		return nil, fmt.Errorf("no agent runs in namespace %s (--purelb-namespace names another)", r.namespace)
	}
	return agents, nil
}

// token creates a token that is valid only for a probe of ip.
func (r *reader) token(ctx context.Context, ip netip.Addr) (string, error) {
	request, err := r.pods.CoreV1().ServiceAccounts(r.namespace).CreateToken(ctx, probe.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{probe.Audience(ip)}, ExpirationSeconds: new(int64(tokenLife.Seconds()))},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no ServiceAccount %s/%s: the chart makes it, unless prober.enabled is false", r.namespace, probe.Account)
	case err != nil:
		return "", fmt.Errorf("make a token for the agents: %w", r.because(err))
	}
	return request.Status.Token, nil
}

// askOne asks one agent. It tries again if an overloaded agent sends Retry-After.
func (r *reader) askOne(ctx context.Context, a monitored, token string, ip netip.Addr) (answer probe.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	body, err := json.Marshal(probe.Request{Address: ip})
	if err != nil {
		return answer, err
	}
	text, err := r.through(r.pods.CoreV1().RESTClient().Post(), a, probe.Path).
		SetHeader(probe.Header, token).SetHeader("Content-Type", "application/json").Body(body).MaxRetries(busyTries).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		return answer, errors.New("the agent answers no probes: it is older, or prober.enabled is false")
	case err != nil:
		return answer, said(text, err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of the agent: %w", err)
	}
	answer.Node = a.node // An agent answers only for its own node.
	return answer, nil
}

// said returns the error in text: a Status of the API server, or the message of an agent. Without
// one, it returns err.
func said(text []byte, err error) error {
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	if words := strings.TrimSpace(string(text)); words != "" && len(words) < longest {
		return errors.New("the agent said: " + words)
	}
	return err
}

// longest is the length limit for messages of agents that are shown.
const longest = 500

// because adds to err which Role has the right, if err is about a missing right.
func (r *reader) because(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (the Role purelb-prober of namespace %s has that right)", err, r.namespace)
	}
	return err
}

// probed is a Summary that can be printed.
type probed struct{ probe.Summary }

// Tables returns the tables of p.
func (p probed) Tables() []explain.Table {
	t := explain.Table{Head: []string{"NODE", "INTERFACE", "HAS IT", "ANSWER", "MAC", "CONTROLS"}}
	for _, a := range p.Answers {
		has := "no"
		if a.Here {
			has = "yes"
		}
		heard := 0
		for _, c := range a.Controls {
			if c.Answered {
				heard++
			}
		}
		row := func(answer, mac string) {
			t.Rows = append(t.Rows, []string{a.Node, cmp.Or(a.Interface, "-"), has, answer, cmp.Or(mac, "-"), fmt.Sprintf("%d of %d", heard, len(a.Controls))})
		}
		if len(a.Machines) == 0 {
			row(wordFor(a), "")
		}
		for _, m := range a.Machines {
			row(cmp.Or(m.Node, "another machine"), m.MAC)
		}
	}
	return []explain.Table{{Lines: []string{p.Summary.Summary}}, t}
}

// wordFor describes an answer that names no machine.
func wordFor(a probe.Answer) string {
	switch a.Result {
	case probe.Silent:
		return "none"
	case probe.OffLink:
		return "not asked: not in its networks"
	}
	return "unknown: " + a.Why
}
