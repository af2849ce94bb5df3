package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/explain"
)

// plan is an answer that can be carried out. problem reports whether a part of it has failed. The steps of one list
// are carried out together.
type plan struct {
	answer
	problem func() bool
	steps   func(*reader) [][]step
}

// step is the change of one Service, "namespace/name".
type step struct {
	key string
	// ips are its addresses. It is done when all their Services say so.
	ips        []string
	state, why *string
	begin      func(context.Context) error
	// end undoes what only the change needs. It may be nil.
	end func(context.Context) error
	// missing says what is missing until it is done, or returns "".
	missing func(explain.World) string
}

func (s step) stopped(why string) { *s.state, *s.why = explain.Stopped, why }

// changing completes cmd, which carries out what planned returns.
func (o *options) changing(cmd *cobra.Command, usual time.Duration, planned func(explain.World, []string) (plan, error)) *cobra.Command {
	var dry bool
	var limit time.Duration
	cmd.PreRunE = func(*cobra.Command, []string) error {
		o.noBGP = true
		if !dry && len(o.files) > 0 {
			return fmt.Errorf("%s changes a cluster; with files use --dry-run", cmd.CommandPath())
		}
		return nil
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Change nothing")
	cmd.Flags().DurationVar(&limit, "timeout", usual, "How long to wait for each Service")
	return o.answering(cmd, func(w explain.World, args []string) (answer, bool, error) {
		p, err := planned(w, args)
		if err != nil || dry {
			return p.answer, err == nil && p.problem(), err
		}
		r, err := o.newReader()
		if err != nil {
			return nil, false, err
		}
		r.namespace = w.Namespace
		for _, together := range p.steps(r) {
			if !o.carryOut(cmd.Context(), r, &w, together, limit) {
				break // The first Service that is not done stops the command.
			}
		}
		return p.answer, p.problem(), nil
	})
}

// carryOut changes Services together, waits for each of them, and reports whether all are done in time.
func (o *options) carryOut(ctx context.Context, r *reader, w *explain.World, together []step, limit time.Duration) (done bool) {
	for i, s := range together {
		if s.end != nil {
			defer func() { // also if the user interrupts the command
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
				defer cancel()
				if err := s.end(last); err != nil {
					s.stopped(oneLine(err))
					done = false
				}
			}()
		}
		if err := s.begin(ctx); err != nil {
			for _, before := range together[:i] {
				before.stopped(s.key + ", which shares its address, was not changed")
			}
			s.stopped(oneLine(err))
			return false
		}
	}
	for _, s := range together {
		why, _, err := await(ctx, o, limit, limit/100, func(ctx context.Context) (string, bool, error) {
			err := r.refresh(ctx, w, s)
			why := s.missing(*w)
			return why, why == "", err
		})
		if err != nil {
			why = oneLine(err)
		}
		if why != "" {
			s.stopped(why)
			return false
		}
		*s.state, *s.why = explain.Done, ""
		fmt.Fprintln(o.errs, s.key+": done")
	}
	return true
}

// refresh reads the Services with the addresses of s again into w, and the Leases, which say which addresses
// nodes have as their own.
func (r *reader) refresh(ctx context.Context, w *explain.World, s step) error {
	for i := range w.Services {
		old := &w.Services[i]
		if old.Namespace+"/"+old.Name != s.key && !slices.ContainsFunc(old.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return slices.Contains(s.ips, in.IP) }) {
			continue
		}
		svc := corev1.Service{}
		if err := r.Get(ctx, client.ObjectKeyFromObject(old), &svc); err != nil {
			return err
		}
		w.Services[i] = svc
	}
	var f inventory
	err := kindOf(explain.KindLeases).read(ctx, r, &f, client.InNamespace(w.Namespace))
	if err == nil {
		w.Leases = ofNodes(f.Leases)
	}
	return err
}

// annotate sets an annotation of o in the API server, or removes it if value is nil.
func (r *reader) annotate(ctx context.Context, o client.Object, name string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
	if err == nil {
		err = r.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		kind, _ := r.GroupVersionKindFor(o) // All kinds here are in the scheme.
		return fmt.Errorf("set the annotation %s of %s %s/%s: %w", name, kind.Kind, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// waiting completes cmd, which asks once or until done is true. Its answer tells of a problem if it is bad, or if
// the time is over before it is done.
func waiting[A answer](o *options, cmd *cobra.Command, usage string, ask func(context.Context) (a A, done bool, err error), bad func(A) bool) *cobra.Command {
	var wait bool
	var limit time.Duration
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		once := ask
		if wait && len(o.files) == 0 {
			if _, err := o.newReader(); err != nil {
				return err // Waiting does not change the kubeconfig.
			}
			once = func(ctx context.Context) (A, bool, error) { return await(ctx, o, limit, pause, ask) }
		}
		a, done, err := once(cmd.Context())
		if err != nil {
			return err
		}
		return o.finish(a, bad(a) || wait && !done)
	}
	cmd.Flags().BoolVar(&wait, "wait", false, usage)
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "How long to wait")
	return cmd
}

// pause is the time between two questions about a whole cluster.
const pause = 2 * time.Second

// await calls ask every so often until done is true or the time is over, and returns the last answer. It fails if
// there was no answer, or if another attempt cannot succeed.
func await[T any](ctx context.Context, o *options, limit, every time.Duration, ask func(context.Context) (answer T, done bool, err error)) (last T, _ bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answered, said := false, ""
	for {
		answer, done, err := ask(ctx)
		switch {
		case err == nil && done:
			return answer, true, nil
		case err == nil:
			last, answered, said = answer, true, ""
		case ctx.Err() == nil && hopeless(err):
			return last, false, err
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintln(o.errs, "asking again:", said)
		}
		switch {
		case backoff.Sleep(ctx, every):
		case answered:
			return last, false, nil
		default:
			return last, false, fmt.Errorf("there was no answer in time: %w", err)
		}
	}
}
