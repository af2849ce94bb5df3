package netboxtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// failure is an answer that is not a success. Its body is JSON.
type failure struct {
	status int
	body   any
	etag   string
}

func (f *failure) Error() string { return fmt.Sprintf("HTTP %d", f.status) }

func detail(status int, text string) *failure {
	return &failure{status: status, body: map[string]any{"detail": text}}
}

var errForbidden = detail(http.StatusForbidden, "You do not have permission to perform this action.")

// question is a request after parsing.
type question struct {
	r     *http.Request
	token *Token
	// id comes from the path.
	id    int64
	query url.Values
	body  map[string]any
	kind  kind
	// base is the URL by which the client reaches the server: "http://netbox.example".
	base string
}

// answer is a success.
type answer struct {
	status int
	body   any
	etag   string
}

func ok(body any) *answer { return &answer{status: http.StatusOK, body: body} }

// call is a request that the server knows.
type call struct {
	pattern string
	// names are the parameters and the fields of the body that the request may have.
	names string
	// right is the permission that it needs, and kind that of its objects.
	right  string
	kind   kind
	handle func(q *question) (*answer, error)
}

const (
	ofLists     = " limit ordering fields id__gt"
	ofAddresses = "status role tenant tags description dns_name custom_fields"
)

// calls lists the requests of the driver.
func (s *Server) calls() []call {
	calls := []call{
		{"GET /api/status/", "", "", kind{}, s.status},
		{"GET /api/extras/custom-fields/", "name", "extras.view_customfield", kind{}, s.listFields},
		{"POST /api/extras/custom-fields/", "name type object_types unique filter_logic label description", "extras.add_customfield", kind{}, s.makeField},
		{"GET /api/tenancy/tenants/", "slug", tenants.right, tenants, s.listNamed},
		{"GET /api/extras/tags/", "slug", tags.right, tags, s.listNamed},
		{"GET /api/ipam/ip-addresses/", "address parent vrf_id tenant status family" + ofLists, "ipam.view_ipaddress", kind{}, s.listAddresses},
		{"POST /api/ipam/ip-addresses/", "address vrf " + ofAddresses, "ipam.add_ipaddress", kind{}, s.makeNamed},
		{"GET /api/ipam/ip-addresses/{id}/", "fields", "ipam.view_ipaddress", kind{}, s.readAddress},
		{"PATCH /api/ipam/ip-addresses/{id}/", ofAddresses, "ipam.change_ipaddress", kind{}, s.changeAddress},
		{"DELETE /api/ipam/ip-addresses/{id}/", "", "ipam.delete_ipaddress", kind{}, s.removeAddress},
	}
	for _, k := range []kind{prefixes, ranges} {
		path := "/api/" + k.path + "/"
		calls = append(calls,
			call{"GET " + path, k.filter + ofLists, k.right, k, s.listBlocks},
			call{"GET " + path + "{id}/", "", k.right, k, s.readBlock},
			call{"POST " + path + "{id}/available-ips/", ofAddresses, "ipam.add_ipaddress", k, s.makeFree})
	}
	return calls
}

// handler serves the calls, and refuses all other requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, c := range s.calls() {
		mux.HandleFunc(c.pattern+"{$}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, c) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if !strings.HasPrefix(pattern, r.Method) || !strings.HasSuffix(r.URL.Path, "/") || r.Header.Get("Accept") != "application/json" {
			s.refuse(w, r, strange("no call of the driver"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, c call) {
	a, err := s.answer(r, c)
	if err != nil {
		s.refuse(w, r, err.(*failure)) //nolint:errorlint // handlers return no other error
		return
	}
	writeJSON(w, a.status, a.etag, a.body)
}

// strange is the answer to a request that this server does not imitate.
func strange(why string) *failure { return detail(http.StatusTeapot, why) }

// refuse answers with f. It records strange requests.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *failure) {
	if f.status == http.StatusTeapot {
		s.mu.Lock()
		s.journal.complaints = append(s.journal.complaints, fmt.Sprintf("%s %s: %v", r.Method, r.URL, f.body))
		s.mu.Unlock()
	}
	writeJSON(w, f.status, f.etag, f.body)
}

// answer does what all calls have in common. A call for addresses takes time, and one that changes
// them holds the lock of NetBox meanwhile.
func (s *Server) answer(r *http.Request, c call) (*answer, error) {
	q := &question{r: r, query: r.URL.Query(), kind: c.kind, base: "http://" + r.Host}
	if r.TLS != nil {
		q.base = "https://" + r.Host
	}
	var err error
	if q.token, err = s.authenticate(r); err != nil {
		return nil, err
	}
	if id := r.PathValue("id"); id != "" {
		if q.id, err = strconv.ParseInt(id, 10, 64); err != nil {
			return nil, strange("no id")
		}
	}
	if q.body, err = s.readBody(r); err != nil {
		return nil, err
	}
	if name := s.unknown(q, strings.Fields(c.names)); name != "" {
		return nil, strange("not in a request of the driver: " + name)
	}
	if !q.token.may(c.right) {
		return nil, errForbidden
	}
	if strings.HasSuffix(c.right, "_ipaddress") {
		if r.Method != http.MethodGet {
			<-s.lock
			defer func() { s.lock <- struct{}{} }()
		}
		s.work(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.handle(q)
}

// unknown returns the name of a parameter or field that the driver does not send, or not with this
// value. NetBox itself ignores unknown names. It also ignores a filter for a custom field that does
// not exist, which only a strict server refuses.
func (s *Server) unknown(q *question, names []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, values := range q.query {
		known := slices.Contains(names, name) && (name != "ordering" || values[0] == "id")
		if strings.HasPrefix(name, "cf_") && slices.Contains(names, "parent") {
			known = s.fieldFilter(name) != nil || !s.Strict && !strings.Contains(strings.TrimSuffix(name, "__isw"), "__")
		}
		if !known {
			return name
		}
	}
	for name, value := range q.body {
		if !slices.Contains(names, name) || !plausible(name, value) {
			return name
		}
	}
	return ""
}

// plausible says whether the driver sends such a value of a field.
func plausible(name string, value any) bool {
	isReference := func(v any) bool {
		_, byID := v.(float64)
		attributes, _ := v.(map[string]any)
		_, bySlug := attributes["slug"].(string)
		return byID || bySlug && len(attributes) == 1
	}
	isNot := func(v any) bool { return !isReference(v) }
	switch value := value.(type) {
	case []any:
		return name != "tags" || !slices.ContainsFunc(value, isNot)
	case map[string]any:
		return name == "custom_fields" || isReference(value)
	case float64:
		return name == "vrf" || name == "tenant"
	case string:
		return name != "vrf" && name != "tenant"
	}
	return true
}

// authenticate returns the token of a request. Every refusal has status 403.
func (s *Server) authenticate(r *http.Request) (*Token, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	old := s.before("4.5.0")
	s.mu.Lock()
	t := s.tokens[secret]
	s.mu.Unlock()
	refusal := ""
	switch {
	case scheme != "Token" && (old || scheme != "Bearer"):
		refusal = "Authentication credentials were not provided."
	case t != nil:
		refusal = t.Refusal
	case old:
		refusal = "Invalid token"
	case strings.HasPrefix(secret, "nbt_"):
		refusal = "Invalid v2 token"
	default:
		refusal = "Invalid v1 token"
	}
	if refusal != "" {
		return nil, detail(http.StatusForbidden, refusal)
	}
	return t, nil
}

// may says whether a token has a right. Everyone has "".
func (t *Token) may(right string) bool {
	return right == "" || t.Rights == nil || slices.Contains(t.Rights, right)
}

func (t *Token) writes(a Address) bool { return t.Writable == nil || t.Writable(a) }

// readBody reads an object. Like gunicorn and NetBox, a server that is not strict treats a body
// without a length as empty.
func (s *Server) readBody(r *http.Request) (body map[string]any, err error) {
	switch {
	case r.Method == http.MethodGet || r.ContentLength == 0:
		return nil, nil
	case r.ContentLength < 0 && s.Strict:
		return nil, strange("a body without a length")
	case r.ContentLength < 0:
		return nil, nil
	case r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&body) != nil:
		return nil, strange("the body is no JSON object")
	}
	return body, nil
}

func writeJSON(w http.ResponseWriter, status int, etag string, body any) {
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// status returns the version to any client with a valid token.
func (s *Server) status(*question) (*answer, error) {
	return ok(map[string]any{"netbox-version": s.Version}), nil
}
