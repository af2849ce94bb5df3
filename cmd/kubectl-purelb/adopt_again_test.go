package main

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/service"
)

// given makes a Service of PureLB of the Service with this name, with these addresses.
func (m *movers) given(name string, annotations map[string]any, ips ...string) {
	var ingress []any
	for _, ip := range ips {
		ingress = append(ingress, map[string]any{"ip": ip})
	}
	record := `{"addresses":["` + strings.Join(ips, `","`) + `"],"from":"default","poolType":"local"}`
	for _, o := range m.objects[pathServices] {
		if meta := o["metadata"].(map[string]any); meta["name"] == name {
			meta["annotations"] = annotations
			o["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": ingress}, "conditions": []any{map[string]any{
				"type": "purelb.io/Record", "status": "True", "reason": "Given", "lastTransitionTime": "2026-02-08T00:00:01Z", "message": record,
			}}}
		}
	}
}

// The command could not change the status, or was interrupted. It runs again.
func TestAnAdoptionFromServiceLBGoesOn(t *testing.T) {
	m := newMovers(t)
	for _, o := range m.objects[pathServices] {
		if meta := o["metadata"].(map[string]any); meta["name"] == "nodes" {
			delete(meta, "finalizers")
			meta["annotations"] = map[string]any{service.AnnotationAdopt: "true"}
		}
	}
	out, errs, code := m.ask(t, "adopt", "default/nodes", "--from", "servicelb", "--timeout", "1s")
	if svc := m.service(t, "nodes"); svc.Status.LoadBalancer.Ingress[0].IP != "192.168.10.203" {
		t.Errorf("the Service is %+v; exit code %d, %s%s", svc.Status, code, out, errs)
	}
}

func TestServicesThatShareAnAddressMoveTogetherOrNotAtAll(t *testing.T) {
	m := newMovers(t)
	const behind = "dns-udp has its address too and does not move"
	if out, _, code := m.ask(t, "adopt", "default/dns-tcp", "--dry-run"); code != exitProblems || !strings.Contains(out, behind) {
		t.Errorf("adopt: exit code %d, %s", code, out)
	}
	for _, name := range []string{"dns-tcp", "dns-udp"} {
		m.given(name, map[string]any{service.AnnotationAdopt: "true", service.AnnotationSharing: "dns",
			service.AnnotationAnnouncingIPv4: "n1,eth0,192.168.10.202"}, "192.168.10.202")
	}
	if out, _, code := m.ask(t, "leave", "default/dns-tcp", "--timeout", "1s"); code != exitProblems || !strings.Contains(out, behind) {
		t.Errorf("leave: exit code %d, %s", code, out)
	}
}

// One of two nodes has no network for the IPv6 address.
func TestOnlyWhatANodeCanHaveIsSpread(t *testing.T) {
	for bad, holder := range map[string]string{"purelb-node-n1": "n2", "purelb-node-n2": "n1"} {
		m := newMovers(t)
		for _, l := range m.objects[pathLeases] {
			if meta := l["metadata"].(map[string]any); meta["name"] == bad {
				meta["annotations"].(map[string]any)["purelb.io/subnets"] = "192.168.10.0/24"
			}
		}
		m.given("moved", map[string]any{service.AnnotationAdopt: "true", service.AnnotationAnnouncingIPv4: holder + ",eth0,192.168.10.205",
			service.AnnotationAnnouncingIPv6: holder + ",eth0,2001:db8:10::a:5"}, "192.168.10.205", "2001:db8:10::a:5")
		if out, errs, code := m.ask(t, "rebalance", "--dry-run"); code != exitFine || strings.Contains(out, "2001:db8:10::a:5") {
			t.Errorf("%s: exit code %d, %s%s", bad, code, out, errs)
		}
	}
}
