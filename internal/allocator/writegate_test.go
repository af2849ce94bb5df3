package allocator

import (
	"cmp"
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
	asked := bodyOf(req)
	status := map[string]int{
		"ok": 200, "bad": 422, "gone": 404, "conflict": 409, "timeout": 504, "fault": 500, "unreachable": 500, "denied": 500,
	}[asked]
	body := map[string]string{
		"fault":       `{"kind":"Status","message":"etcdserver: request timed out","code":500}`,
		"unreachable": `{"kind":"Status","message":"Internal error occurred: failed calling webhook \"x.example.com\": refused","code":500}`,
		"denied":      `{"kind":"Status","message":"admission webhook \"x.example.com\" denied the request: no","code":500}`,
	}[asked]
	if status == 0 {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(cmp.Or(body, "{}")))}, nil
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
		{"if the last renewal is too old", func(f *writeGate) {
			for range 3 {
				time.Sleep(10 * time.Second)
				f.renew(time.Now())
			}
		}, errNotRenewed, 44 * time.Second},
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

func TestWriteIsInDoubtUntilItMustFail(t *testing.T) {
	tests := []struct {
		name    string
		answers string
		want    int
	}{
		{"a successful write", "ok", 0},
		{"a refused write", "bad conflict gone", 0},
		{"a write without an answer", "never", 1},
		{"a write that the API server gave up", "timeout", 1},
		{"an unanswered write, then a successful one", "never ok", 0},
		{"a write that the API server gave up, then a conflict", "timeout conflict", 0},
		{"an unanswered write to a deleted object", "never gone", 0},
		{"an unanswered write, then an invalid one", "never bad", 1},
		{"a write of the status of a ServiceGroup, which the API server gave up", "group", 0},
		{"a write that hits a fault of the API server", "fault", 1},
		{"a write whose admission webhook is unreachable", "unreachable unreachable", 0},
		{"a write that an admission webhook denies with a 500", "denied denied", 0},
		{"an unanswered write, then one that an admission webhook denies", "never denied", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newWriteGate(10 * time.Second)
				for answer := range strings.FieldsSeq(tt.answers) {
					f.renew(time.Now())
					path := web
					switch answer {
					case "ok":
						path = strings.TrimSuffix(web, "/status") // the same object
					case "group":
						path, answer = "/apis/purelb.io/v2/namespaces/purelb-system/servicegroups/default/status", "timeout"
					}
					_ = ask(f, http.MethodPatch, path, answer)
				}
				if n := f.doubts(); n != tt.want {
					t.Errorf("%d objects are in doubt, want %d", n, tt.want)
				}
				f.close()
			})
		})
	}
}

func TestBodyCanBeReadAfterTheGate(t *testing.T) {
	f := newWriteGate(0)
	defer f.close()
	for _, asked := range []string{"fault", "denied"} {
		req, err := http.NewRequest(http.MethodPatch, "http://api"+web, strings.NewReader(asked))
		must(t, err)
		resp, err := f.wrap(fakeTransport{}).RoundTrip(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.HasSuffix(string(body), `"code":500}`) {
			t.Errorf("%s: the body is %q, error %v", asked, body, err)
		}
		resp.Body.Close()
	}
}
