package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/explain"
)

// press sends keys to d. A word is one key, and other text is typed.
func press(d dashboard, keys ...string) dashboard {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab},
		"down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "end": {Code: tea.KeyEnd}, "pgdown": {Code: tea.KeyPgDown}, "backspace": {Code: tea.KeyBackspace},
	}
	for _, key := range keys {
		m, is := special[key]
		if !is {
			m = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		next, _ := d.Update(m)
		d = next.(dashboard)
	}
	return d
}

func send(d dashboard, msg tea.Msg) dashboard {
	next, _ := d.Update(msg)
	return next.(dashboard)
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

// The screens of the dashboard in recorded worlds, after more news and some keys.
func TestDashboardScreens(t *testing.T) {
	moved := with(t, recorded(t), "Services web: {metadata: {annotations: {purelb.io/announcing-IPv4: 'n2,eth0,192.168.10.200'}}}")
	failed := newsMsg{err: errors.New("read the cluster: connection refused"), stale: "no watch of Services"}
	for _, tt := range []struct {
		name          string
		width, height int
		color         bool
		news          []newsMsg
		keys          string
	}{
		{"addresses-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, ""},
		{"addresses-160x50", 160, 50, false, []newsMsg{{world: recorded(t)}}, ""},
		{"addresses-color-80x24", 80, 24, true, []newsMsg{{world: recorded(t)}}, ""},
		{"addresses-color-160x50", 160, 50, true, []newsMsg{{world: recorded(t)}}, ""},
		{"problems-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "2"},
		{"problems-160x50", 160, 50, false, []newsMsg{{world: recorded(t)}}, "2 down"},
		{"pools-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "3"},
		{"nodes-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "4"},
		{"bgp-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "5"},
		{"moves-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}, {world: moved}}, "6"},
		{"explain-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "2 down enter"},
		{"filter-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "/ w e b"},
		{"filter-nothing-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "/ x x enter"},
		{"help-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}}, "?"},
		{"many-80x24", 80, 24, false, []newsMsg{{world: many(t, 1000)}}, "end up up"},
		{"no-right-80x24", 80, 24, false, []newsMsg{{world: without(t, explain.KindServices)}}, ""},
		{"no-leases-80x24", 80, 24, false, []newsMsg{{world: without(t, explain.KindLeases)}}, "4"},
		{"stale-80x24", 80, 24, false, []newsMsg{{world: recorded(t)}, failed}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := dashboard{namespace: "purelb-system", color: tt.color}
			d = send(d, tea.WindowSizeMsg{Width: tt.width, Height: tt.height})
			for _, news := range tt.news {
				d = send(d, news)
			}
			got := press(d, strings.Fields(tt.keys)...).View().Content
			lines := strings.Split(got, "\n")
			if len(lines) != tt.height {
				t.Errorf("%d lines on a screen of %d", len(lines), tt.height)
			}
			for i, line := range lines {
				if n := utf8.RuneCountInString(line); n > tt.width && !tt.color {
					t.Errorf("line %d has %d characters", i+1, n)
				}
			}
			if !tt.color && strings.Contains(got, "\x1b") {
				t.Error("there are escape sequences without color")
			}
			golden(t, filepath.Join("testdata", "dashboard", tt.name+".txt"), got+"\n")
		})
	}
}

// The picture in the manual is a screen of the golden files.
func TestTheManualShowsTheDashboard(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-purelb.md"))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(filepath.Join("testdata", "dashboard", "addresses-80x24.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "```text\n"+string(picture)+"```\n") {
		t.Error("the manual does not show testdata/dashboard/addresses-80x24.txt in a block of text")
	}
}

func TestDashboardKeysStayInsideTheRows(t *testing.T) {
	keys := []string{"down", "up", "end", "pgdown", "tab", "enter", "esc", "/", "w", "backspace", "?", "1", "6", "x"}
	for _, world := range []explain.World{recorded(t), {}, without(t, explain.KindServices)} {
		d := send(send(dashboard{}, tea.WindowSizeMsg{Width: 20, Height: 6}), newsMsg{world: world})
		for i := range 3000 {
			d = press(d, keys[(i*7+i/13)%len(keys)])
			if n := len(d.rows()); d.cursor < 0 || n > 0 && d.cursor >= n {
				t.Fatalf("after %d keys the cursor is at %d of %d", i, d.cursor, n)
			}
			d.screen()
		}
	}
}

func TestDashboardQuits(t *testing.T) {
	d := send(dashboard{}, tea.WindowSizeMsg{Width: 80, Height: 24})
	if _, cmd := d.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not quit")
	}
	if _, cmd := press(d, "/").Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd != nil {
		t.Error("q quits while a filter is typed")
	}
}

func TestWithoutATerminalTheDashboardPrintsOneScreen(t *testing.T) {
	out, code := offline(t, "", "dashboard", "-f", "testdata/cluster.yaml")
	golden(t, filepath.Join("testdata", "dashboard", "addresses-80x24.txt"), out)
	if code != exitFine {
		t.Errorf("exit code %d", code)
	}
}

// A watch that ends makes its kind stale until it begins again, and each event and each end
// makes the dashboard read again.
func TestAnEndedWatchIsStale(t *testing.T) {
	served := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if <-served {
			fmt.Fprint(w, `{"type":"ADDED","object":{}}`)
			return
		}
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	f, err := newFollower(&rest.Config{Host: server.URL}, "purelb-system")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.paths[explain.KindConfigurations]; got != pathConfigs {
		t.Errorf("BGPConfigurations are watched at %s, and they are read at %s", got, pathConfigs)
	}
	served <- false
	if f.watch(t.Context(), explain.KindPods, f.paths[explain.KindPods]) {
		t.Error("a forbidden watch began")
	}
	if got, want := f.stale(time.Now().Add(time.Minute)), "no watch of Pods"; got != want {
		t.Errorf("stale is %q, want %q", got, want)
	}
	if got := f.stale(time.Now().Add(-time.Minute)); got != "" {
		t.Errorf("at once stale is %q", got)
	}
	served <- true
	<-f.changed
	if !f.watch(t.Context(), explain.KindPods, f.paths[explain.KindPods]) {
		t.Error("the watch did not begin")
	}
	select {
	case <-f.changed:
	default:
		t.Error("an event does not make the dashboard read again")
	}
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

// On 80 columns every column of a page is in sight, however long the cells of others are.
func TestDashboardShowsAllColumns(t *testing.T) {
	for _, page := range []dashPage{
		{head: []string{"GROUP", "TYPE", "RANGE", "USED", "FREE", "UTIL%"}, rows: []dashRow{{cells: []string{"local", "local", "2001:db8:1:250:b::1-2001:db8:1:250:b::ff", "0", "18446744073709551616", "0.0"}}}},
		{head: []string{"SERVICE", "ADDRESSES", "ANNOUNCED BY", "STATUS"}, rows: []dashRow{{cells: []string{"dash/longer-name-of-a-service-in-a-shop-of-a-town", "172.30.250.200", "node-1 (eth0)", "Waiting (UnknownPool)"}}}},
		{head: []string{"NODE", "HEALTHY", "ANNOUNCES", "SUBNETS", "PROBLEM"}, rows: []dashRow{{cells: []string{"node-1", "yes", "2", "172.30.250.0/24,2001:db8:1:250::/64", strings.Repeat("long ", 40)}}}},
	} {
		for _, width := range []int{78, 60} {
			head, lines := lay(page, page.rows, width)
			for _, name := range page.head {
				if !strings.Contains(head, name) {
					t.Errorf("at %d columns the head %q lacks %s", width, head, name)
				}
			}
			for _, line := range append(lines, head) {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%q has %d characters, want at most %d", line, n, width)
				}
			}
		}
		_, lines := lay(page, page.rows, 78)
		if last := page.rows[0].cells[len(page.head)-1]; len(last) < 25 && !strings.HasSuffix(lines[0], last) {
			t.Errorf("%q does not end with %q", lines[0], last)
		}
	}
}
