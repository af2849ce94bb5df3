package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
)

func newCheck(o *options) *cobra.Command {
	var before, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "check", Short: "Check the cluster, before PureLB is installed and after", Args: noArguments,
		Long: `Check the cluster, before PureLB is installed (--pre) and after: Kubernetes, the
installation, the configuration, the nodes, the routers and the Services.

Each line is fine (√), a fault (×), a warning (‼) or unknown (?), with the place in the
manual that says more. -o short leaves out what is fine. The exit code is 1 if there is a
fault. With --wait the command asks until there is neither a fault nor a warning that may
end by itself, such as programs of different versions in a rollout. If one is left when
the time is over, the exit code is 1. It does not wait for the end of other warnings, such
as that of another load balancer in the cluster.`,
		Example: `  kubectl purelb check --pre
  kubectl purelb check --wait --timeout 2m
  kubectl purelb check -o short`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.files) > 0 {
				return errors.New("check looks at a cluster, not at files; validate looks at files")
			}
			r, err := o.newReader()
			if err != nil {
				return err
			}
			var unread bool
			ask := func(ctx context.Context) (explain.Checkup, bool, error) {
				c, failed, err := r.checkUp(ctx, before)
				unread = failed
				return c, !wait || !c.Again() && !unread, err
			}
			var c explain.Checkup
			if wait {
				ctx, cancel := context.WithTimeout(cmd.Context(), limit)
				defer cancel()
				c, err = await(ctx, o, pause, ask)
			} else {
				c, _, err = ask(cmd.Context())
			}
			if err != nil {
				return err
			}
			return o.finish(c, c.Bad() || wait && (c.Again() || unread))
		},
	}
	cmd.Flags().BoolVar(&before, "pre", false, "Check only what PureLB needs to be installed")
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until there is neither a fault nor a warning that may end by itself")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "How long to wait")
	return cmd
}

// checkUp checks the cluster once. unread says that a part could not be read, and that another
// attempt may succeed.
func (r *reader) checkUp(ctx context.Context, before bool) (c explain.Checkup, unread bool, err error) {
	w, err := r.read(ctx)
	if err != nil {
		return explain.Checkup{}, false, fmt.Errorf("check the cluster: %w", err)
	}
	f := r.facts(ctx, before)
	if !before {
		f.Misheard, err = r.listen(ctx, explain.Probes(w))
		if err != nil {
			f.Unsaid["wire"] = oneLine(err)
		}
	}
	return explain.CheckUp(w, f, before), w.Failed(), nil
}

// listen asks the agents who answers for addresses. It returns what is wrong, and an error if some of the
// answers are not known.
func (r *reader) listen(ctx context.Context, asked []explain.ToProbe) (wrong []string, err error) {
	if len(asked) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	said, errs := make([]string, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, one := range asked {
		all.Go(func() { said[i], errs[i] = r.prober().hear(ctx, one) })
	}
	all.Wait()
	return slices.DeleteFunc(said, func(text string) bool { return text == "" }), errors.Join(errs...)
}

// hear asks about one address. It returns what is wrong, or "".
func (p *prober) hear(ctx context.Context, one explain.ToProbe) (wrong string, err error) {
	answers, err := p.ask(ctx, one.Address, one.Nodes)
	if err != nil {
		return "", err
	}
	s := probe.Summarize(one.Address, answers)
	for _, a := range answers {
		if a.Result == probe.Unknown {
			return "", fmt.Errorf("node %s: %s", a.Node, a.Why)
		}
	}
	if !s.Problem {
		return "", nil
	}
	return s.Summary, nil
}
