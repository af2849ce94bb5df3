package allocate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeTransport answers with the status that the request's body names. A request without an
// answer lasts until it is cancelled.
type fakeTransport struct{}

func (fakeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	status := map[string]int{"ok": 200, "bad": 422, "conflict": 409, "fault": 500, "timeout": 504}[bodyOf(req)]
	if status == 0 {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

func bodyOf(req *http.Request) string {
	if req.Body == nil {
		return "ok"
	}
	text, _ := io.ReadAll(req.Body)
	return string(text)
}

// ask sends a request through f and returns its error.
func ask(f *writeGate, method, path, body string) error {
	req, err := http.NewRequest(method, "http://api"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := f.wrap(fakeTransport{}).RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

const web = "/api/v1/namespaces/default/services/web/status"

func TestGateIsOpenWhileTheLeaseIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWriteGate(14 * time.Second)
		is := func(when string, want error) {
			t.Helper()
			if err := ask(f, http.MethodPatch, web, "ok"); !errors.Is(err, want) {
				t.Errorf("%s a write has the error %v, want %v", when, err, want)
			}
			if err := ask(f, http.MethodGet, web, "ok"); err != nil {
				t.Errorf("%s a read has the error %v", when, err)
			}
		}
		is("before the Lease is taken", errNotRenewed)
		sent := time.Now()
		time.Sleep(3 * time.Second)
		f.renew(sent)
		is("after the Lease is taken", nil)
		time.Sleep(11*time.Second - time.Nanosecond)
		is("until the last moment", nil)
		time.Sleep(time.Nanosecond)
		is("14 s after the renewal was sent", errNotRenewed)
		f.renew(time.Now())
		is("after a late renewal", nil)
		time.Sleep(13 * time.Second)
		f.renew(time.Now())
		time.Sleep(13 * time.Second)
		is("after a renewal in time", nil)
		f.close()
		is("at the end", errNotLeading)
		f.renew(time.Now())
		is("after the end", errNotLeading)
	})
}

func TestUnansweredWriteIsCancelled(t *testing.T) {
	tests := []struct {
		name string
		do   func(*writeGate)
		want error
		at   time.Duration
	}{
		{"if the Lease is not renewed", func(*writeGate) {}, errNotRenewed, 14 * time.Second},
		{"at the end", func(f *writeGate) {
			time.Sleep(5 * time.Second)
			f.close()
		}, errNotLeading, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, start := newWriteGate(14*time.Second), time.Now()
				f.renew(start)
				go tt.do(f)
				if err := ask(f, http.MethodPatch, web, "never"); !errors.Is(err, tt.want) {
					t.Errorf("the error is %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took != tt.at {
					t.Errorf("the write is cancelled after %s, want %s", took, tt.at)
				}
				synctest.Wait()
				f.close()
			})
		})
	}
}

func TestGateWaitsForRunningWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWriteGate(0)
		f.wait()
		deaf := through(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Minute) // it ignores the cancellation
			return nil, errors.New("cut off")
		})
		start := time.Now()
		for range 3 {
			go func() {
				req, _ := http.NewRequest(http.MethodPatch, "http://api"+web, nil)
				if resp, err := f.wrap(deaf).RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}()
		}
		synctest.Wait()
		f.close()
		f.wait()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the gate waits for %s, want %s", took, time.Minute)
		}
	})
}

func TestWritesOfUnknownOutcomeAreWaitedFor(t *testing.T) {
	tests := []struct {
		name    string
		answers string
		want    time.Duration
	}{
		{"no write", "", 0},
		{"a successful write", "ok", 0},
		{"refused writes", "bad conflict", 0},
		{"a write without an answer", "never", 6 * time.Second},
		{"a write that the API server gave up", "timeout", 6 * time.Second},
		{"a write that hits a fault of the API server", "fault", 6 * time.Second},
		{"an unanswered write, then a successful one", "never ok", 5 * time.Second},
		{"two unanswered writes", "never never", 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newWriteGate(10 * time.Second)
				for i, answer := range strings.Fields(tt.answers) {
					if i > 0 {
						time.Sleep(time.Second)
					}
					f.renew(time.Now())
					_ = ask(f, http.MethodPatch, web, answer)
				}
				if got := max(0, f.quiet()); got != tt.want {
					t.Errorf("writes may take effect for %s, want %s", got, tt.want)
				}
				f.close()
			})
		})
	}
}

func TestWritesHaveATimeoutOfTheAPIServer(t *testing.T) {
	f := newWriteGate(0)
	defer f.close()
	for _, tt := range []struct{ method, url, want string }{
		{http.MethodPatch, "http://api" + web, "timeout=5s"},
		{http.MethodPatch, "http://api" + web + "?fieldManager=purelb-allocator", "fieldManager=purelb-allocator&timeout=5s"},
		{http.MethodGet, "http://api" + web, ""},
	} {
		req, err := http.NewRequest(tt.method, tt.url, nil)
		must(t, err)
		var sent string
		resp, err := f.wrap(through(func(req *http.Request) (*http.Response, error) {
			sent = req.URL.RawQuery
			return fakeTransport{}.RoundTrip(req)
		})).RoundTrip(req)
		must(t, err)
		resp.Body.Close()
		if sent != tt.want || tt.url != req.URL.String() {
			t.Errorf("%s %s is sent with %q, want %q; the request is changed to %s", tt.method, tt.url, sent, tt.want, req.URL)
		}
	}
}

// The writes of a leader end before another allocator takes its expired Lease.
func TestWritesEndBeforeTheLease(t *testing.T) {
	if writeEnds > leaseDuration-renewDeadline {
		t.Errorf("a write may take effect for %s, and the Lease lasts %s after the last write", writeEnds, leaseDuration-renewDeadline)
	}
}
