package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/explain"
)

func newDashboard(o *options) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Follow addresses, problems, pools, nodes, BGP and moves in the terminal", Args: noArguments,
		Long: `Follow addresses, problems, pools, nodes, BGP and moves in the terminal. It watches the
cluster, reads it again after a change, and says what is stale. Enter explains a row.

It uses no color if NO_COLOR is set. Where the output is no terminal that can move its
cursor, it prints what "status" prints.`,
		Example: `  kubectl purelb dashboard
  kubectl purelb dashboard --interval 10s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.dashboard(cmd.Context(), max(interval, time.Second))
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "The shortest time between two readings of the cluster")
	return cmd
}

// fps limits how often the screen is drawn. The terminal gets only the changes.
const fps = 10

// dashboard shows a dashboard until the user quits.
func (o *options) dashboard(ctx context.Context, interval time.Duration) error {
	if len(o.files) > 0 || !canMove(o.out) {
		w, err := o.world(ctx)
		if err != nil {
			return err
		}
		if !canMove(o.out) {
			return o.finish(explain.StatusOf(w), false)
		}
		shown, _ := newScreen().Update(news{world: w})
		_, err = tea.NewProgram(shown, tea.WithContext(ctx), tea.WithInput(o.in), tea.WithOutput(o.out)).Run()
		return err
	}
	r, err := o.newReader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := tea.NewProgram(newScreen(), tea.WithContext(ctx), tea.WithFPS(fps), tea.WithInput(o.in), tea.WithOutput(o.out))
	var feed sync.WaitGroup
	defer feed.Wait()
	defer cancel()
	feed.Go(func() { r.follow(ctx, interval, func(n news) { p.Send(n) }) })
	if _, err := p.Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the dashboard: %w", err)
	}
	return nil
}

// canMove reports whether out is a terminal that can move its cursor.
func canMove(out any) bool {
	file, is := out.(*os.File)
	if !is || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// follow reads the cluster after each change, with pauses, and at least every minute: answers also depend on
// the time, and a watch may be missing.
func (r *reader) follow(ctx context.Context, interval time.Duration, send func(news)) {
	changed := make(chan struct{}, 1)
	var watches sync.WaitGroup
	defer watches.Wait()
	for watching := false; ctx.Err() == nil; {
		began := time.Now()
		w, err := r.read(ctx)
		send(news{w, err})
		if err != nil {
			backoff.Sleep(ctx, 5*interval)
			continue
		}
		for _, k := range kinds {
			namespace := ""
			if k.home {
				namespace = w.Namespace
			}
			if !watching && !k.later { // the first reading has found the namespace
				watches.Go(func() { r.watch(ctx, k, namespace, changed) })
			}
		}
		watching = true
		backoff.Sleep(ctx, pauseAfter(time.Since(began), interval))
		backoff.Wait(ctx, time.Minute, changed)
	}
}

// watch pokes changed after each change of a kind, and after the end of each watch. It gets only the metadata of
// objects. The user may have no right to watch, so the pauses between attempts grow.
func (r *reader) watch(ctx context.Context, k kind, namespace string, changed chan<- struct{}) {
	pauses := backoff.Pauses{Min: time.Second, Max: 30 * time.Second}
	for ctx.Err() == nil {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if w, err := r.Watch(ctx, list, client.InNamespace(namespace)); err == nil {
			for range w.ResultChan() {
				backoff.Poke(changed)
			}
			backoff.Poke(changed)
			pauses.Reset()
		}
		backoff.Sleep(ctx, pauses.Next())
	}
}

// pauseAfter returns how long to wait after a reading. took is how long the reading took. In a
// large cluster a reading takes seconds, and Leases and Nodes change all the time. Without a pause
// the dashboard would always be reading.
func pauseAfter(took, interval time.Duration) time.Duration {
	return max(interval, min(9*took, time.Minute))
}
