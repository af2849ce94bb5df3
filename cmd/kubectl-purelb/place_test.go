package main

import (
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/service"
)

func TestAServiceMovesToANode(t *testing.T) {
	m := newMovers(t)
	on := func() (node string, named bool) {
		svc := m.service(t, "moved")
		_, named = svc.Annotations[service.AnnotationNode]
		return service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4])[0].Node, named
	}
	out, errs, code := m.ask(t, "move", "default/moved", "n1")
	if node, named := on(); node != "n1" || named || code != exitFine || !strings.Contains(out, "Done") {
		t.Errorf("it is on %s, and names a node: %t; exit code %d, %s%s", node, named, code, out, errs)
	}
	m.silent = "moved"
	out, errs, code = m.ask(t, "move", "default/moved", "n2", "--timeout", "1s")
	if node, named := on(); node != "n1" || named || code != exitProblems || !strings.Contains(out, "192.168.10.205 is on n1") {
		t.Errorf("no agent takes it: it is on %s, and names a node: %t; exit code %d, %s%s", node, named, code, out, errs)
	}
	m.forbidden = "moved"
	out, _, code = m.ask(t, "move", "default/moved", "n2")
	if code != exitProblems || !strings.Contains(out, "set the annotation purelb.io/node of Service default/moved") {
		t.Errorf("it may not be changed: exit code %d, %s", code, out)
	}
}

func TestServicesAreSpreadAgain(t *testing.T) {
	m := newMovers(t)
	if out, errs, code := m.ask(t, "move", "default/moved", "n1"); code != exitFine {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	m.changed = nil
	plan, _, code := m.ask(t, "rebalance", "--dry-run")
	if code != exitFine || len(m.changed) > 0 || !strings.Contains(plan, "Ready") {
		t.Fatalf("exit code %d, changed %q, %s", code, m.changed, plan)
	}
	if out, errs, code := m.ask(t, "rebalance"); code != exitFine || strings.Contains(out, "Ready") || len(m.changed) == 0 {
		t.Errorf("exit code %d, changed %q, %s%s", code, m.changed, out, errs)
	}
	changed := slices.Clone(m.changed)
	if out, _, _ := m.ask(t, "rebalance"); !slices.Equal(m.changed, changed) {
		t.Errorf("the second time it changed %q, %s", m.changed[len(changed):], out)
	}
}
