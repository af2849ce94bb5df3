package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
)

func newCheck(o *options) *cobra.Command {
	var before bool
	cmd := waiting(o, &cobra.Command{
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
	}, "Wait until there is neither a fault nor a warning that may end by itself",
		func(ctx context.Context) (explain.Checkup, bool, error) { return o.checkUp(ctx, before) }, explain.Checkup.Bad)
	cmd.Flags().BoolVar(&before, "pre", false, "Check only what PureLB needs to be installed")
	return cmd
}

// checkUp checks the cluster. done is true if a longer wait cannot improve the result.
func (o *options) checkUp(ctx context.Context, before bool) (c explain.Checkup, done bool, err error) {
	r, err := o.cluster()
	if err != nil {
		return c, false, err
	}
	w, err := r.read(ctx)
	if err != nil {
		return c, false, fmt.Errorf("check the cluster: %w", err)
	}
	f := r.facts(ctx, before)
	if !before {
		f.Misheard, err = r.listen(ctx, explain.Probes(w))
		if err != nil {
			f.Unsaid["wire"] = oneLine(err)
		}
	}
	c = explain.CheckUp(w, f, before)
	return c, !c.Again() && !w.Failed(), nil
}

// listen asks the agents who answers for addresses. It returns what is wrong, and an error if some of the
// answers are not known.
func (r *reader) listen(ctx context.Context, asked []explain.ToProbe) (wrong []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	said, errs := make([]string, len(asked)), make([]error, len(asked))
	parallel(len(asked), atOnce, func(i int) { said[i], errs[i] = r.hear(ctx, asked[i]) })
	return slices.DeleteFunc(said, func(text string) bool { return text == "" }), errors.Join(errs...)
}

// hear asks about one address. It returns what is wrong, or "".
func (r *reader) hear(ctx context.Context, one explain.ToProbe) (wrong string, err error) {
	answers, err := r.probe(ctx, one.Address, one.Nodes)
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
