package netboxtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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
	mediaType := func(h http.Header) string { kind, _, _ := strings.Cut(h.Get("Content-Type"), ";"); return kind }
	if mediaType(got.Header()) != mediaType(e.replied) {
		list = append(list, fmt.Sprintf("Content-Type %q, recorded %q", got.Header().Get("Content-Type"), e.replied.Get("Content-Type")))
	}
	if got.Header().Get("Location") != e.replied.Get("Location") {
		list = append(list, fmt.Sprintf("Location %q, recorded %q", got.Header().Get("Location"), e.replied.Get("Location")))
	}
	if (got.Header().Get("ETag") == "") != (e.replied.Get("ETag") == "") {
		list = append(list, fmt.Sprintf("ETag %q, recorded %q", got.Header().Get("ETag"), e.replied.Get("ETag")))
	}
	if mediaType(e.replied) != "application/json" {
		return list
	}
	if a, b := normal(body), normal(e.reply); a != b {
		list = append(list, fmt.Sprintf("body\n%s\nrecorded\n%s", a, b))
	}
	return list
}

// notImitated are fields that the server leaves out and no client here reads.
var notImitated = strings.Fields(`children _depth search_weight ui_visible ui_editable is_cloneable default
	related_object_filter related_object_type weight validation_minimum validation_maximum validation_regex
	choice_set comments group_name django-version hostname installed_apps python-version rq-workers-running tagged_items created last_updated`)

// normal formats JSON in one way, without times and the fields of notImitated.
func normal(text string) string {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	out, _ := json.MarshalIndent(strip(value), "", " ")
	return string(out)
}

func strip(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range notImitated {
			if name != "comments" || value["data_type"] != nil {
				delete(value, name)
			}
		}
		if value["data_type"] != nil {
			delete(value, "display_url")
		}
		for name := range value {
			value[name] = strip(value[name])
		}
	case []any:
		for i := range value {
			value[i] = strip(value[i])
		}
	}
	return value
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
