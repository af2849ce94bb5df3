package netboxtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
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

// route is a call that the server knows.
type route struct {
	pattern *regexp.Regexp
	handle  func(s *Server, q *question) (*answer, error)
	methods []string
}

// question is a request after parsing.
type question struct {
	r     *http.Request
	token *Token
	// id and ranges come from the path.
	id     int64
	ranges bool
	body   any
	// base is the URL by which the client reaches the server: "http://netbox.example".
	base string
}

// answer is a success.
type answer struct {
	status int
	body   any
	etag   string
	place  string
}

func ok(body any) *answer { return &answer{status: http.StatusOK, body: body} }

var (
	allMethods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	routes     = []route{
		{regexp.MustCompile(`^/api/status/$`), (*Server).status, []string{"GET"}},
		{regexp.MustCompile(`^/api/ipam/(prefixes|ip-ranges)/$`), (*Server).blockList, []string{"GET", "POST"}},
		{regexp.MustCompile(`^/api/ipam/(prefixes|ip-ranges)/([^/]+)/$`), (*Server).oneBlock, []string{"GET", "DELETE"}},
		{regexp.MustCompile(`^/api/ipam/(prefixes|ip-ranges)/([^/]+)/available-ips/$`), (*Server).available, []string{"GET", "POST"}},
		{regexp.MustCompile(`^/api/ipam/(ip-addresses)/$`), (*Server).addressList, allMethods},
		{regexp.MustCompile(`^/api/ipam/(ip-addresses)/([^/]+)/$`), (*Server).oneAddress, allMethods},
		{regexp.MustCompile(`^/api/extras/(custom-fields)/$`), (*Server).customFields, []string{"GET", "POST"}},
		{regexp.MustCompile(`^/api/(ipam/vrfs|tenancy/tenants|extras/tags)/$`), (*Server).namedList, []string{"GET", "POST"}},
	}
)

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(routes, func(c route) bool { return c.pattern.MatchString(r.URL.Path) })
	if i < 0 {
		s.noSuchPath(w, r)
		return
	}
	match := routes[i].pattern.FindStringSubmatch(r.URL.Path)
	a, err := s.answer(routes[i], match, r)
	if err != nil {
		f := err.(*failure) //nolint:errorlint // handlers return no other error
		if f.etag != "" {
			w.Header().Set("ETag", f.etag)
		}
		s.writeJSON(w, f.status, f.body)
		return
	}
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	if a.place != "" {
		w.Header().Set("Location", a.place)
	}
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	s.writeJSON(w, a.status, a.body)
}

// noSuchPath answers a request whose path is unknown or lacks its final slash.
func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) {
	slashed := r.URL.Path + "/"
	known := slices.ContainsFunc(routes, func(c route) bool { return c.pattern.MatchString(slashed) })
	s.complain(fmt.Sprintf("%s %s is not in the schema", r.Method, r.URL.Path))
	if known && (r.Method == http.MethodGet || s.before("4.5.9")) {
		if r.URL.RawQuery != "" {
			slashed += "?" + r.URL.RawQuery
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Location", slashed)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	writeHTML(w, http.StatusNotFound, "Page Not Found")
}

func (s *Server) complain(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.complaint = append(s.journal.complaint, text)
}

// answer does the checks that all calls have in common.
func (s *Server) answer(c route, match []string, r *http.Request) (*answer, error) {
	q := &question{r: r, base: "http://" + r.Host}
	if r.TLS != nil {
		q.base = "https://" + r.Host
	}
	var err error
	if q.token, err = s.authenticate(r); err != nil {
		return nil, err
	}
	if !slices.Contains(c.methods, r.Method) {
		return nil, detail(http.StatusMethodNotAllowed, fmt.Sprintf("Method %q not allowed.", r.Method))
	}
	if err := checkAccept(r, s.minor()); err != nil {
		return nil, err
	}
	if len(match) > 2 {
		if q.id, err = strconv.ParseInt(match[2], 10, 64); err != nil {
			return nil, detail(http.StatusNotFound, "Not found.")
		}
	}
	q.ranges = len(match) > 1 && match[1] == "ip-ranges"
	if q.token.ReadOnly && r.Method != http.MethodGet {
		return nil, errForbidden
	}
	if q.body, err = readBody(r); err != nil {
		return nil, err
	}
	if err := s.checkSchema(q); err != nil {
		return nil, err
	}
	return c.handle(s, q)
}

// authenticate returns the token of a request. Every refusal has status 403.
func (s *Server) authenticate(r *http.Request) (*Token, error) {
	refuse := func(text string) (*Token, error) { return nil, detail(http.StatusForbidden, text) }
	header := r.Header.Get("Authorization")
	scheme, secret, _ := strings.Cut(header, " ")
	scheme = strings.ToLower(scheme)
	old := s.before("4.5.0")
	switch {
	case scheme != "token" && (old || scheme != "bearer"):
		return refuse("Authentication credentials were not provided.")
	case secret == "" && old:
		return refuse("Invalid token header. No credentials provided.")
	case secret == "":
		return refuse(`Invalid authorization header: Must be in the form "Bearer <key>.<token>" or "Token <token>"`)
	case strings.Contains(secret, " ") && old:
		return refuse("Invalid token header. Token string should not contain spaces.")
	}
	s.mu.Lock()
	t := s.tokens[secret]
	s.mu.Unlock()
	v2 := strings.HasPrefix(secret, "nbt_") && !old
	switch {
	case v2 && !strings.Contains(secret, "."):
		return refuse("Invalid authorization header: Could not parse key from v2 token. Did you mean to use 'Token' instead of 'Bearer'?")
	case t == nil && old:
		return refuse("Invalid token")
	case t == nil && v2:
		return refuse("Invalid v2 token")
	case t == nil:
		return refuse("Invalid v1 token")
	case t.OtherIP:
		return refuse("Source IP 127.0.0.1 is not permitted to authenticate using this token.")
	case t.Disabled:
		return refuse("Token disabled")
	case t.Expired:
		return refuse("Token expired")
	case t.Inactive:
		return refuse("User inactive")
	}
	return t, nil
}

// may says whether a token has a right.
func (t *Token) may(right string) error {
	if t.Rights == nil || slices.Contains(t.Rights, right) {
		return nil
	}
	return errForbidden
}

func (t *Token) sees(a Address) bool {
	return (t.Visible == nil || t.Visible(a)) && t.may("ipam.view_ipaddress") == nil
}

func (t *Token) writes(a Address) bool { return t.Writable == nil || t.Writable(a) }

func checkAccept(r *http.Request, version string) error {
	accept := r.Header.Get("Accept")
	_, wanted, given := strings.Cut(accept, "version=")
	if given && wanted != version {
		return detail(http.StatusNotAcceptable, `Invalid version in "Accept" header.`)
	}
	if accept != "" && !strings.Contains(accept, "application/json") && !strings.Contains(accept, "*/*") {
		return detail(http.StatusNotAcceptable, "Could not satisfy the request Accept header.")
	}
	return nil
}

// readBody reads JSON. Like gunicorn and NetBox, it treats a body without a length as empty.
func readBody(r *http.Request) (any, error) {
	if r.ContentLength <= 0 {
		return nil, nil
	}
	media := r.Header.Get("Content-Type")
	if kind, _, _ := strings.Cut(media, ";"); kind != "application/json" {
		return nil, detail(http.StatusUnsupportedMediaType, fmt.Sprintf("Unsupported media type %q in request.", media))
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, detail(http.StatusBadRequest, "JSON parse error - the body ends too early")
	}
	var body any
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, detail(http.StatusBadRequest, "JSON parse error - "+parseError(text))
	}
	return body, nil
}

// parseError returns the position at which Python stops, as far as tests need it.
func parseError(text []byte) string {
	var at int
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	if d.Decode(&v) != nil {
		if at = len(text); text[0] != '{' {
			at = 0
		}
	}
	return fmt.Sprintf("Expecting value: line 1 column %d (char %d)", at+1, at)
}

func (s *Server) writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("API-Version", s.minor())
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func writeHTML(w http.ResponseWriter, status int, title string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><head><title>%s</title></head><body></body></html>", title)
}

// status returns the version to any client with a valid token.
func (s *Server) status(*question) (*answer, error) {
	return ok(map[string]any{"netbox-version": s.Version, "netbox-full-version": s.Version, "plugins": map[string]any{}}), nil
}
