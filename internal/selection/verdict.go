package selection

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// verdict is the condition of the Service.
func (m *matter) verdict(result service.Result, refusal *Refusal, conflict string) (ok bool, reason, message string) {
	switch n := len(result.Addresses); {
	case conflict != "":
		return false, ReasonConflict, result.Having(conflict)
	case refusal != nil && n > 0 && m.r.Policy == service.Some && refusal.lacking:
		return true, ReasonPartial, result.Having(refusal.Message)
	case refusal != nil:
		return false, refusal.Reason, result.Having(refusal.Message)
	case n == 0:
		return false, ReasonDeleting, "the Service is being deleted"
	}
	return true, ReasonAllocated, result.Having(m.aside(result))
}

// aside says that the Service names another group than that of its addresses,
// for which it does not ask.
func (m *matter) aside(result service.Result) string {
	from := strings.Split(result.From, ", ")
	if m.r.Group == "" || !slices.ContainsFunc(result.Addresses, func(a netip.Addr) bool {
		g, _, ok := m.Config.GroupOf(a)
		return !m.asksFor(a) && (ok && !named(g, m.r.Group) || !ok && !slices.Contains(from, m.r.Group))
	}) {
		return ""
	}
	return fmt.Sprintf("the annotation %s is not in effect, as a Service keeps the addresses that it has; set %s: \"true\" to have them replaced",
		service.AnnotationGroup, service.AnnotationReevaluate)
}

// named reports whether g is called name.
func named(g config.Group, name string) bool {
	return g.Name == name || g.Alias == name
}
