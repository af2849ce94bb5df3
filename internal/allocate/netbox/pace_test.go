package netbox

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"120":                           2 * time.Minute,
		"-5":                            0,
		"999999999999":                  10 * time.Minute,
		"99999999999999999999":          0,
		"soon":                          0,
		"Tue, 01 Jan 2030 12:00:30 GMT": 30 * time.Second,
		"Tue, 01 Jan 2030 11:00:00 GMT": 0,
		"Wed, 02 Jan 2030 11:00:00 GMT": 10 * time.Minute,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
}

// The client uses the proxy variables of the environment, as other programs do.
func TestTransportUsesTheProxyOfTheEnvironment(t *testing.T) {
	rt, err := transport(nil)
	if err != nil {
		t.Fatal(err)
	}
	if tr := rt.(*http.Transport); tr.Proxy == nil || tr.IdleConnTimeout >= 2*time.Second {
		t.Errorf("proxy %t, idle connections are kept for %v", tr.Proxy != nil, tr.IdleConnTimeout)
	}
}

func TestVersionsAreReadAndCompared(t *testing.T) {
	for text, want := range map[string]string{"4.6.8": "4.6.8", "4.4.10-Docker-3.4.1": "4.4.10", "4.7.0-beta1": "4.7.0", "5.0": "5.0.0", "four": "", "": "", "4": ""} {
		v, ok := readVersion(text)
		if got := v.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %s, %t", text, got, ok)
		}
	}
	if v := (version{4, 10, 0}); v.before(4, 6, 0) || !v.before(4, 10, 1) || v.before(4, 10, 0) {
		t.Error("4.10.0 is compared wrongly")
	}
}
