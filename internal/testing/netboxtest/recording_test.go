package netboxtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exchange is a recorded request with its reply.
type exchange struct {
	number  int
	title   string
	method  string
	target  string
	header  http.Header
	body    string
	status  int
	replied http.Header
	reply   string
}

var (
	heading     = regexp.MustCompile(`(?m)^### (\d+)\. ?(.*)$`)
	requestLine = regexp.MustCompile(`(?m)^(GET|POST|PUT|PATCH|DELETE|OPTIONS|HEAD|TRACE) (\S+) HTTP/1\.1$`)
	statusLine  = regexp.MustCompile(`(?m)^HTTP/1\.1 (\d+).*$`)
	remark      = regexp.MustCompile(`(?m)^# .*$`)
)

// readRecording reads the exchanges of a file. It leaves out requests without a reply.
func readRecording(t *testing.T, name string) []exchange {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var list []exchange
	places := heading.FindAllStringSubmatchIndex(string(text), -1)
	for i, place := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		part := string(text[place[1]:end])
		e, ok := readExchange(part)
		e.number, _ = strconv.Atoi(string(text[place[2]:place[3]]))
		e.title = string(text[place[4]:place[5]])
		if ok {
			list = append(list, e)
		}
	}
	return list
}

func readExchange(part string) (exchange, bool) {
	request := requestLine.FindStringSubmatchIndex(part)
	status := statusLine.FindStringSubmatchIndex(part)
	if request == nil || status == nil {
		return exchange{}, false
	}
	e := exchange{method: part[request[2]:request[3]], target: part[request[4]:request[5]]}
	e.header, e.body = cutHeader(part[request[1]:status[0]])
	e.status, _ = strconv.Atoi(part[status[2]:status[3]])
	e.replied, e.reply = cutHeader(part[status[1]:])
	e.reply = strings.TrimSpace(remark.ReplaceAllString(e.reply, ""))
	return e, true
}

// cutHeader reads header lines up to an empty one.
func cutHeader(text string) (http.Header, string) {
	lines, body, _ := strings.Cut(strings.TrimPrefix(text, "\n")+"\n\n", "\n\n")
	header := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			header.Add(name, strings.TrimSpace(value))
		}
	}
	return header, strings.Trim(body, "\n")
}

// send sends the request of e to a server. It notes which ETag of the server corresponds to which
// recorded one.
func (e exchange) send(s *Server, etags map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(e.method, "http://netbox.example"+e.target, strings.NewReader(e.body))
	r.Header = e.header.Clone()
	r.Header.Del("Host")
	r.ContentLength = int64(len(e.body))
	if ours := etags[r.Header.Get("If-Match")]; ours != "" {
		r.Header.Set("If-Match", ours)
	}
	if r.Header.Get("Transfer-Encoding") == "chunked" {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if recorded := e.replied.Get("ETag"); recorded != "" {
		etags[recorded] = w.Header().Get("ETag")
	}
	return w
}

// differences compares an answer with the recorded one.
func (e exchange) differences(got *httptest.ResponseRecorder) []string {
	var list []string
	body := got.Body.String()
	if got.Code != e.status {
		return []string{fmt.Sprintf("status %d, recorded %d; body %s", got.Code, e.status, body)}
	}
	if (got.Header().Get("ETag") == "") != (e.replied.Get("ETag") == "") {
		list = append(list, fmt.Sprintf("ETag %q, recorded %q", got.Header().Get("ETag"), e.replied.Get("ETag")))
	}
	if !same(decoded(body), decoded(e.reply), got.Code >= http.StatusBadRequest) {
		list = append(list, fmt.Sprintf("body\n%s\nrecorded\n%s", body, e.reply))
	}
	return list
}

// decoded reads a body, which is JSON or empty.
func decoded(text string) (value any) {
	_ = json.Unmarshal([]byte(text), &value)
	return value
}

// same compares JSON without times. Unless it is exact, the server may leave out fields that no client
// here reads.
func same(got, recorded any, exact bool) bool {
	switch got := got.(type) {
	case map[string]any:
		recorded, isObject := recorded.(map[string]any)
		if !isObject || exact && len(got) != len(recorded) {
			return false
		}
		for name := range got {
			if name != "created" && !same(got[name], recorded[name], exact) {
				return false
			}
		}
		return true
	case []any:
		recorded, isList := recorded.([]any)
		return isList && slices.EqualFunc(got, recorded, func(a, b any) bool { return same(a, b, exact) })
	}
	return got == recorded
}

// imitate gives a server what a request has made that the server refuses.
func (e exchange) imitate(s *Server, etags map[string]string) {
	if e.method == http.MethodGet || e.status >= http.StatusBadRequest {
		return
	}
	if e.method == http.MethodDelete {
		var removed []struct{ ID int64 }
		_ = json.Unmarshal([]byte(e.body), &removed)
		for _, one := range removed {
			s.db.removeAddress(one.ID)
		}
		return
	}
	list, isList := decoded(e.reply).([]any)
	if !isList {
		list = []any{decoded(e.reply)}
	}
	for _, one := range list {
		text, _ := json.Marshal(one)
		var r struct {
			ID              int64
			Address, Prefix netip.Prefix
			Start           netip.Prefix `json:"start_address"`
			End             netip.Prefix `json:"end_address"`
			VRF, Tenant     *struct{ Name, Slug string }
			Status, Role    *struct{ Value string }
			Tags            []struct{ Slug string }
			DNSName         string `json:"dns_name"`
			Description     string
			Fields          map[string]any `json:"custom_fields"`
		}
		if err := json.Unmarshal(text, &r); err != nil {
			continue // not an address or a block
		}
		vrf := ""
		if r.VRF != nil {
			vrf = r.VRF.Name
		}
		switch {
		case r.Prefix.IsValid():
			s.AddBlock(Block{ID: r.ID, Prefix: r.Prefix, VRF: vrf})
		case r.Start.IsValid():
			s.AddBlock(Block{ID: r.ID, Prefix: r.Start, End: r.End.Addr(), VRF: vrf})
		case r.Address.IsValid():
			a := Address{ID: r.ID, Prefix: r.Address, VRF: vrf, Status: r.Status.Value, DNSName: r.DNSName, Description: r.Description, Fields: r.Fields}
			if r.Tenant != nil {
				a.Tenant = r.Tenant.Slug
			}
			if r.Role != nil {
				a.Role = r.Role.Value
			}
			for _, t := range r.Tags {
				a.Tags = append(a.Tags, t.Slug)
			}
			s.db.removeAddress(a.ID)
			s.AddAddress(a)
			etags[e.replied.Get("ETag")] = s.etag(*s.db.address(a.ID))
		}
	}
}

// firstID returns the id of the first object that the reply reports as created, or 0.
func (e exchange) firstID() int64 {
	if e.status != http.StatusCreated {
		return 0
	}
	var one struct{ ID int64 }
	var several []struct{ ID int64 }
	if json.Unmarshal([]byte(e.reply), &several) == nil && len(several) > 0 {
		return several[0].ID
	}
	_ = json.Unmarshal([]byte(e.reply), &one)
	return one.ID
}
