package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

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
cursor, it prints the first page once.`,
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
	d := dashboard{namespace: cmp.Or(o.purelb, installNamespace), color: os.Getenv("NO_COLOR") == ""}
	offline := len(o.files) > 0 || o.archive != ""
	if !canMove(o.out) {
		w, err := o.world(ctx)
		if err != nil {
			return err
		}
		d.width, d.height, d.color = 80, 24, false
		_, err = fmt.Fprintln(o.out, d.learn(newsMsg{world: w}).screen())
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(d, tea.WithContext(ctx), tea.WithFPS(fps), tea.WithInput(o.in), tea.WithOutput(o.out))
	var feed sync.WaitGroup
	defer feed.Wait()
	defer cancel()
	if offline {
		w, err := o.world(ctx)
		if err != nil {
			return err
		}
		feed.Go(func() { p.Send(newsMsg{world: w}) })
	} else {
		r, err := o.newReader()
		if err != nil {
			return err
		}
		r.find(ctx)
		follows, err := newFollower(r.config, r.namespace)
		if err != nil {
			return err
		}
		feed.Go(func() { follows.run(ctx) })
		feed.Go(func() { follows.read(ctx, interval, r, p.Send) })
	}
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

// follower watches all kinds that the dashboard shows. A change only triggers another reading.
type follower struct {
	client  rest.Interface
	paths   map[string]string
	changed chan struct{}

	mu   sync.Mutex
	lost map[string]time.Time
}

func newFollower(config *rest.Config, namespace string) (*follower, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer, config.QPS = scheme.Codecs.WithoutConversion(), -1
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	in := "/namespaces/" + namespace + "/"
	return &follower{client: c, changed: make(chan struct{}, 1), lost: map[string]time.Time{}, paths: map[string]string{
		explain.KindServices:       "/api/v1/services",
		explain.KindNodes:          "/api/v1/nodes",
		explain.KindPods:           "/api/v1" + in + "pods",
		explain.KindLeases:         "/apis/coordination.k8s.io/v1" + in + "leases",
		explain.KindGroups:         "/apis/purelb.io/v2/servicegroups",
		explain.KindAgents:         "/apis/purelb.io/v2/lbnodeagents",
		explain.KindConfigurations: "/apis/bgp.purelb.io/v1/configs",
		explain.KindNodeStatuses:   "/apis/bgp.purelb.io/v1/bgpnodestatuses",
	}}, nil
}

// run watches until ctx is done.
func (f *follower) run(ctx context.Context) {
	var all sync.WaitGroup
	for kind, path := range f.paths {
		all.Go(func() {
			pauses := backoff.Pauses{Min: time.Second, Max: 30 * time.Second}
			for ctx.Err() == nil {
				if f.watch(ctx, kind, path) {
					pauses.Reset()
				}
				backoff.Sleep(ctx, pauses.Next())
			}
		})
	}
	all.Wait()
}

// watch watches one kind until the watch ends, and reports whether it began. The API server sends
// only the metadata of objects.
func (f *follower) watch(ctx context.Context, kind, path string) (began bool) {
	request := f.client.Get().AbsPath(path).Param("watch", "1").Param("timeoutSeconds", "300").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").MaxRetries(0)
	if kind == explain.KindServices {
		request.Param("fieldSelector", "spec.type=LoadBalancer")
	}
	stream, err := request.Stream(ctx)
	if err == nil {
		defer stream.Close()
		f.follows(kind)
		for buffer := make([]byte, 64<<10); err == nil; {
			if _, err = stream.Read(buffer); err == nil {
				backoff.Poke(f.changed)
			}
		}
		began = true
	}
	f.mu.Lock()
	if _, lost := f.lost[kind]; !lost && ctx.Err() == nil {
		f.lost[kind] = time.Now()
	}
	f.mu.Unlock()
	backoff.Poke(f.changed)
	return began
}

func (f *follower) follows(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lost, kind)
}

// grace is how long a kind may have no watch before it is stale. A watch ends every few minutes,
// and the follower starts it again.
const grace = 5 * time.Second

// stale names the kinds that have no watch. It returns "" if all have one.
func (f *follower) stale(now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	away := slices.DeleteFunc(slices.Sorted(maps.Keys(f.lost)), func(kind string) bool { return now.Sub(f.lost[kind]) < grace })
	if len(away) == 0 {
		return ""
	}
	return "no watch of " + strings.Join(away, ", ")
}

// pauseAfter returns how long to wait after a reading. took is how long the reading took. In a
// large cluster a reading takes seconds, and Leases and Nodes change all the time. Without a pause
// the dashboard would always be reading.
func pauseAfter(took, interval time.Duration) time.Duration {
	return max(interval, min(9*took, time.Minute))
}

// read reads the cluster after each change, with pauses, and sends the result. Without a change it
// reads every minute, and more often while a reading fails or a watch is missing.
func (f *follower) read(ctx context.Context, interval time.Duration, r *reader, send func(tea.Msg)) {
	for {
		began := time.Now()
		w, err := r.read(ctx)
		pause := interval
		if err == nil { // A failed reading may only have waited for the API server.
			pause = pauseAfter(time.Since(began), interval)
		}
		stale := f.stale(time.Now())
		if ctx.Err() != nil {
			return
		}
		send(newsMsg{world: w, err: err, stale: stale})
		again := time.Minute // The answers also depend on the time.
		if err != nil || stale != "" {
			again = 5 * interval
		}
		backoff.Sleep(ctx, pause)
		backoff.Wait(ctx, again, f.changed)
	}
}
