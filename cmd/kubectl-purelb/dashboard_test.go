package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/testing/expect"
)

// press sends keys to s, and the messages that follow. A word is one key, and other text is typed.
func press(s screen, keys ...string) screen {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab},
		"down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "end": {Code: tea.KeyEnd}, "pgdown": {Code: tea.KeyPgDown}, "backspace": {Code: tea.KeyBackspace},
	}
	for _, key := range keys {
		m, is := special[key]
		if !is {
			m = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		s = send(s, m)
	}
	return s
}

func send(s screen, msg tea.Msg) screen {
	next, cmd := s.Update(msg)
	s = next.(screen)
	if s.rows.SettingFilter() && cmd != nil { // The list filters its rows in a message of its own.
		if all, is := cmd().(tea.BatchMsg); is {
			for _, one := range all {
				if m := one(); strings.Contains(fmt.Sprintf("%T", m), "FilterMatches") {
					s = send(s, m)
				}
			}
		}
	}
	return s
}

// many returns the recorded world with n Services more.
func many(t *testing.T, n int) explain.World {
	w := recorded(t)
	for i := range n {
		svc := *w.Services[0].DeepCopy()
		svc.Namespace, svc.Name = "many", fmt.Sprintf("svc-%04d", i)
		svc.Annotations, svc.Status = nil, corev1.ServiceStatus{}
		w.Services = append(w.Services, svc)
	}
	return w
}

// What the dashboard shows of recorded worlds, after more news and some keys.
func TestDashboardScreens(t *testing.T) {
	moved := with(t, recorded(t), "Services web: {metadata: {annotations: {purelb.io/announcing-IPv4: 'n2,eth0,192.168.10.200'}}}")
	failed := news{err: errors.New("read the cluster: connection refused")}
	for _, tt := range []struct {
		name string
		news []news
		keys string
		want []string
	}{
		{"addresses", []news{{world: recorded(t)}}, "down", []string{
			"PureLB: WARNING, 3 of 9 Services OK, 4 addresses, at 12:00:00 UTC", "[1 Addresses 9]  2 Problems", "NAMESPACE", "  default     api       203.0.113.0      all nodes", "! shop        till", "Waiting (NamespaceDenied)"}},
		{"problems", []news{{world: recorded(t)}}, "2", []string{"[2 Problems 10]", ">!ServiceGroup purelb-system/twice: spec.remote"}},
		{"pools", []news{{world: recorded(t)}}, "3", []string{"default        192.168.10.200-192.168.10.204   4      2      1       66.7"}},
		{"nodes", []news{{world: recorded(t)}}, "4 down", []string{"  n1     yes       1", "> n2", "! n3     no"}},
		{"bgp", []news{{world: recorded(t)}}, "5", []string{"! n2     192.168.10.1   64500      Active"}},
		{"moves", []news{{world: recorded(t)}, {world: moved}}, "6", []string{"> default     web       12:00:00   n1 (eth0)   n2 (eth0)"}},
		{"explain", []news{{world: recorded(t)}}, "4 enter", []string{"(esc: back)", "node n1 can announce local addresses"}},
		{"filter", []news{{world: recorded(t)}}, "/ w e b enter enter", []string{"default/web has 192.168.10.200"}},
		{"many", []news{{world: many(t, 1000)}}, "end", []string{"! many        svc-0999   -                -            Waiting (Exhausted)", ">!shop        till"}},
		{"no right", []news{{world: without(t, explain.KindServices)}}, "", []string{"which Services there are is unknown because of the missing right", "UNKNOWN: Services: "}},
		{"stale", []news{{world: recorded(t)}, failed}, "", []string{"STALE: read the cluster: connection refused", "default     api"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := send(newScreen(), tea.WindowSizeMsg{Width: 80, Height: 24})
			for _, one := range tt.news {
				s = send(s, one)
			}
			got := ansi.Strip(press(s, strings.Fields(tt.keys)...).View().Content)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("there is no %q in\n%s", want, got)
				}
			}
			if w, h := lipgloss.Width(got), lipgloss.Height(got); w > 80 || h > 24 {
				t.Errorf("it has %d columns and %d lines:\n%s", w, h, got)
			}
		})
	}
}

// The manual shows this screen.
func TestTheFirstScreenOfTheDashboard(t *testing.T) {
	s := send(send(newScreen(), tea.WindowSizeMsg{Width: 80, Height: 16}), news{world: recorded(t)})
	got := "$ kubectl purelb dashboard\n"
	for line := range strings.Lines(ansi.Strip(s.View().Content)) {
		got += strings.TrimRight(line, " \n") + "\n"
	}
	golden(t, filepath.Join("testdata", "dashboard.txt"), got)
}

func TestDashboardTakesAnyKeys(t *testing.T) {
	keys := []string{"down", "up", "end", "pgdown", "tab", "enter", "esc", "/", "w", "backspace", "?", "1", "6", "x"}
	for _, world := range []explain.World{recorded(t), {}, without(t, explain.KindServices)} {
		s := send(send(newScreen(), tea.WindowSizeMsg{Width: 20, Height: 6}), news{world: world})
		for i := range 1000 {
			s = press(s, keys[(i*7+i/13)%len(keys)])
			s.View()
		}
	}
}

func TestWithoutATerminalTheDashboardPrintsTheStatus(t *testing.T) {
	out, _ := offline(t, "", "dashboard", "-f", "testdata/cluster.yaml")
	golden(t, filepath.Join("testdata", "golden", "status.txt"), "$ kubectl purelb status -f testdata/cluster.yaml\n"+out+"exit code 1\n")
}

func TestTheDashboardReadsAgainAfterAChange(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	change := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			f.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		select {
		case <-change:
			fmt.Fprint(w, `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}}}`)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	t.Setenv("KUBECONFIG", "/dev/null")
	o := &options{}
	newRoot(o)
	o.kube.APIServer = &server.URL
	r, err := o.newReader()
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	readings, ended := make(chan news), make(chan struct{})
	go func() { r.follow(ctx, 0, func(n news) { readings <- n }); close(ended) }()
	if one := <-readings; one.err != nil || len(one.world.Services) == 0 {
		t.Fatal(one.err, len(one.world.Services))
	}
	change <- struct{}{} // to one of the watches
	<-readings
	cancel()
	<-ended
}

func TestTheDashboardSparesTheAPIServerOfALargeCluster(t *testing.T) {
	for _, tt := range []struct{ took, want time.Duration }{
		{100 * time.Millisecond, 2 * time.Second}, {time.Second, 9 * time.Second}, {20 * time.Second, time.Minute},
	} {
		if got := pauseAfter(tt.took, 2*time.Second); got != tt.want {
			t.Errorf("after a reading of %s it waits for %s, want %s", tt.took, got, tt.want)
		}
	}
}
