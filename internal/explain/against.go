package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// Change is what happens to a Service when files are applied.
type Change struct {
	Service string `json:"service"`
	// Before and After are its addresses. Waits says why it would lack some.
	Before []string `json:"before"`
	After  []string `json:"after"`
	Waits  string   `json:"waits,omitempty"`
	Code   string   `json:"code,omitempty"`
	At     string   `json:"at,omitempty"`
}

// Against checks the cluster live as it would be after files were applied. It reports on the
// objects in files, on new problems elsewhere, and on the changes of Services.
func Against(live, files World) Validation {
	after := applied(live, files)
	was, is := newView(live), newView(after)
	known := map[string]bool{}
	for _, c := range validate(was).Checks {
		known[c.Status+c.Message] = true
	}
	all := validate(is)
	r := Validation{Unread: all.Unread, Guesses: all.Guesses}
	for _, c := range all.Checks {
		if c.At != "" || c.Status != Pass && !known[c.Status+c.Message] {
			r.count(c)
		}
	}
	r.Changes = []Change{}
	for _, one := range is.plan.Requests {
		if c, changes := is.change(was, one); changes {
			r.Changes = append(r.Changes, c)
		} else if _, served := is.plan.Choices[ipam.Owner(one.Key())]; served {
			r.Unchanged++
		}
	}
	return r
}

// change returns how the Service of r differs from was, and whether it does.
func (v *view) change(was *view, r service.Request) (c Change, changes bool) {
	who := ipam.Owner(r.Key())
	before, after := was.plan.Choices[who], v.plan.Choices[who]
	c = Change{Service: r.Key(), At: v.at(Object{"Service", r.Namespace, r.Name}, "")}
	if old, there := was.objects[r.Key()]; there {
		c.Before = texts(service.Ingress(old))
	}
	c.After = texts(after.Result.Addresses)
	if after.Refusal != nil && !after.Refusal.Claiming {
		c.Waits, c.Code = after.Result.Message, after.Result.Reason
	}
	same := slices.Equal(before.Result.Addresses, after.Result.Addresses) && before.Result.Reason == after.Result.Reason
	_, served := v.plan.Choices[who]
	return c, served && !same
}

// line describes c in a sentence.
func (c Change) line() string {
	what := ""
	switch {
	case len(c.After) == 0 && c.Waits == "":
		what = "would wait for its backend"
	case len(c.After) == 0:
		what = "would wait: " + c.Waits
	case len(c.Before) == 0:
		what = "would get " + list(c.After)
	case slices.Equal(c.Before, c.After):
		what = "would keep " + list(c.Before)
	default:
		what = fmt.Sprintf("would have %s in place of %s", list(c.After), list(c.Before))
	}
	if len(c.After) > 0 && c.Waits != "" {
		what += ", and wait for more: " + c.Waits
	}
	text := "Service " + c.Service + " " + what
	if c.At != "" {
		text = c.At + ": " + text
	}
	if c.Waits != "" {
		text += " [" + c.Code + "]"
	}
	return text
}

// applied returns live together with the objects of files.
func applied(live, files World) World {
	w := live
	w.Groups = overlay(live.Groups, files.Groups, live.Now, func(o, old *v2.ServiceGroup) { o.Status = old.Status })
	w.Agents = overlay(live.Agents, files.Agents, live.Now, func(o, old *v2.LBNodeAgent) { o.Status = old.Status })
	w.Configurations = overlay(live.Configurations, files.Configurations, live.Now, func(o, old *bgpv1.BGPConfiguration) { o.Status = old.Status })
	w.Namespaces = overlay(live.Namespaces, files.Namespaces, live.Now, func(_, _ *metav1.PartialObjectMetadata) {})
	w.Services = overlay(live.Services, files.Services, live.Now, reapply)
	w.Services = slices.DeleteFunc(w.Services, func(svc corev1.Service) bool { return files.turned(svc) })
	w.Origins, w.Mistakes = files.Origins, files.Mistakes
	w.Guesses = slices.DeleteFunc(slices.Clone(files.Guesses), func(g Guess) bool {
		return g.Field == FieldFamilies && slices.ContainsFunc(live.Services, func(svc corev1.Service) bool {
			return g.Object == Object{"Service", svc.Namespace, svc.Name} // the cluster knows them
		})
	})
	if files.Settled {
		w.Settled, w.Rules, w.Install = true, files.Rules, files.Install
	}
	return w
}

// turned reports whether files give svc another type.
func (w World) turned(svc corev1.Service) bool {
	_, there := w.Origins[Object{"Service", svc.Namespace, svc.Name}]
	return there && !slices.ContainsFunc(w.Services, func(o corev1.Service) bool { return o.Namespace == svc.Namespace && o.Name == svc.Name })
}

// overlay returns live with the objects of files. An object of files replaces the object of the
// same name. keep copies the parts that a manifest does not set.
func overlay[T any, P interface {
	*T
	metav1.Object
}](live, files []T, now time.Time, keep func(o, old P)) []T {
	all := slices.Clone(live)
	for i := range files {
		one := files[i]
		o := P(&one)
		j := slices.IndexFunc(all, func(other T) bool {
			return P(&other).GetNamespace() == o.GetNamespace() && P(&other).GetName() == o.GetName()
		})
		if j < 0 {
			o.SetCreationTimestamp(metav1.NewTime(now))
			all = append(all, one)
			continue
		}
		old := P(&all[j])
		o.SetUID(old.GetUID())
		o.SetCreationTimestamp(old.GetCreationTimestamp())
		keep(o, old)
		all[j] = one
	}
	return all
}

// reapply changes o, which is from a manifest, as the API server does if old exists: "kubectl
// apply" keeps the annotations that others set, and the API server keeps the cluster IPs and
// families.
func reapply(o, old *corev1.Service) {
	var last struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	// Without a record of the last manifest, no annotation is removed.
	_ = json.Unmarshal([]byte(old.Annotations[corev1.LastAppliedConfigAnnotation]), &last)
	annotations := map[string]string{}
	for key, value := range old.Annotations {
		if _, applied := last.Metadata.Annotations[key]; !applied {
			annotations[key] = value
		}
	}
	for key, value := range o.Annotations {
		annotations[key] = value
	}
	o.Annotations, o.Status, o.DeletionTimestamp = annotations, old.Status, old.DeletionTimestamp
	o.Spec.ClusterIP, o.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	if o.Spec.IPFamilyPolicy == nil || old.Spec.IPFamilyPolicy != nil && *o.Spec.IPFamilyPolicy == *old.Spec.IPFamilyPolicy {
		o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = old.Spec.IPFamilies, old.Spec.IPFamilyPolicy
	}
}
