package netboxtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed testdata/schema-*.json
var schemaFiles embed.FS

// callSchema has the names that NetBox's schema allows in a call.
type callSchema struct {
	Query []string `json:"query"`
	Body  []string `json:"body"`
}

var schemas = sync.OnceValue(func() map[string]map[string]callSchema {
	all := map[string]map[string]callSchema{}
	for _, version := range []string{V44, V46} {
		text, err := schemaFiles.ReadFile("testdata/schema-" + version + ".json")
		if err != nil {
			panic(err)
		}
		calls := map[string]callSchema{}
		if err := json.Unmarshal(text, &calls); err != nil {
			panic(err)
		}
		all[version] = calls
	}
	return all
})

var number = regexp.MustCompile(`/[0-9]+/`)

// alsoKnown are names that NetBox accepts in the recordings, although its schema lacks them.
var alsoKnown = callSchema{
	Query: strings.Fields("limit offset ordering fields brief"),
	Body:  strings.Fields("custom_fields tags tenant vrf status role description dns_name comments address"),
}

// checkSchema refuses names that the schema lacks, if the server is strict. NetBox itself ignores
// them, but clients must not rely on this.
func (s *Server) checkSchema(q *question) error {
	if !s.Strict {
		return nil
	}
	path := number.ReplaceAllString(q.r.URL.Path, "/{id}/")
	known, described := schemas()[s.Version][q.r.Method+" "+path]
	if !described {
		return nil // the schema has only the paths below ipam/
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var strange []string
	for name := range q.r.URL.Query() {
		if !slices.Contains(known.Query, name) && !slices.Contains(alsoKnown.Query, name) && s.fieldFilter(name, "ipam.ipaddress") == nil {
			strange = append(strange, "parameter "+name)
		}
	}
	list, _ := entries(q.body)
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		for name := range fields {
			if !slices.Contains(known.Body, name) && !slices.Contains(alsoKnown.Body, name) {
				strange = append(strange, "field "+name)
			}
		}
	}
	if q.r.Method != http.MethodGet && q.r.ContentLength < 0 {
		strange = append(strange, "chunked body")
	}
	if len(strange) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s %s: not in the schema: %s", q.r.Method, path, strings.Join(strange, ", "))
	s.journal.complaint = append(s.journal.complaint, text)
	return detail(http.StatusTeapot, text)
}
