package allocate

import (
	"encoding/json"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// write is a decision to be written into one version of a Service.
type write struct {
	who    ipam.Owner
	svc    *corev1.Service
	result service.Result
}

// finish writes the decision for a Service.
func (m *model) finish(who ipam.Owner, outcome string) {
	w, busy := m.busy[who]
	if !busy {
		return
	}
	delete(m.busy, who)
	if m.patch(w) == nil {
		if !m.outdated(who, w.svc, w.result.Addresses) {
			m.allocations.settle(who, w.result.Addresses)
		}
		return
	}
	m.unsettled[who] = true
	switch outcome {
	case "lost", "late", "done":
		m.queue[who] = true
		if outcome == "late" {
			m.late = append(m.late, w)
		}
		if outcome == "done" {
			m.write(w)
		}
	default:
		if m.write(w) {
			m.unsettled[who] = false
			m.allocations.settle(who, w.result.Addresses)
		}
	}
}

// patch returns the patch of w, nil if there is nothing to write.
func (m *model) patch(w write) []byte {
	patch, err := w.result.Patch(w.svc, time.Unix(0, 0))
	must(m.t, err)
	return patch
}

// write performs w, unless the Service has changed since.
func (m *model) write(w write) bool {
	patch := m.patch(w)
	if patch == nil || !m.apply(w.who, w.svc, patch) {
		return false
	}
	m.given[w.who] = w.result.Addresses
	// A Service keeps an address that another controller gave it, even if a Service of ours also
	// holds the address.
	contended := m.allocations.cluster.Store.Contended(w.who)
	m.foreign[w.who] = addr.Without(m.foreign[w.who], addr.Without(m.foreign[w.who], contended))
	return true
}

// apply applies a patch for svc, unless the Service has changed since.
func (m *model) apply(who ipam.Owner, svc *corev1.Service, patch []byte) bool {
	if now, there := m.live[who]; !there || now.ResourceVersion != svc.ResourceVersion || now.UID != svc.UID {
		return false
	}
	before, err := json.Marshal(svc)
	must(m.t, err)
	text, err := jsonpatch.MergePatch(before, patch)
	must(m.t, err)
	after := &corev1.Service{}
	must(m.t, json.Unmarshal(text, after))
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	m.put(who, after)
	return true
}

// age lets so much time pass that the late writes of a Service take no effect any more.
func (m *model) age(who ipam.Owner) {
	m.late = slices.DeleteFunc(m.late, func(w write) bool { return w.who == who })
	delete(m.unsettled, who)
}

// arrive performs the oldest of the late writes.
func (m *model) arrive() {
	if len(m.late) > 0 {
		m.write(m.late[0])
		m.late = m.late[1:]
	}
}
