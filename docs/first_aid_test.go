package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// kubectl describe prints the events of a Service, and never its conditions.
func TestNoPageLooksForAConditionInDescribe(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	sentence := regexp.MustCompile(`[^.|]*describe (?:service|svc)\b[^.|]*`)
	for _, page := range append(pages, "../README.md") {
		for _, found := range sentence.FindAllString(apitest.Text(t, "docs/"+page), -1) {
			if strings.Contains(found, "condition") {
				t.Errorf("%s: kubectl describe shows no condition:%s", page, found)
			}
		}
	}
}

// Speakers of MetalLB 0.15 have the default port of PureLB's agents, so these would not start beside them.
func TestTheGuideFromMetalLBLeavesItsPort(t *testing.T) {
	steps := apitest.Text(t, "docs/migrate/metallb.md")
	install := regexp.MustCompile(`(?m)^ *helm install purelb .*$`).FindString(steps)
	port := regexp.MustCompile(`lbnodeagent\.port=(\d+)`).FindStringSubmatch(install)
	if port == nil || port[1] == "7472" {
		t.Errorf("agents have the port of MetalLB's speakers: %s", install)
	}
}
