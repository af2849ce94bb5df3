package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// Facts are the inputs of Check beside a World.
type Facts struct {
	// Version is the version of the API server, such as "v1.36.1".
	Version string
	// APIGroups are the groups that the API server serves.
	APIGroups []string
	Proxy     Proxy
	// HostPorts are the ports of nodes that pods of other programs use.
	HostPorts []HostPort
	// Refused are the actions of an installation that the user has no right to do.
	Refused []string
	// Misheard says for which addresses the answers on the wire are not as they should be: see ToProbe.
	Misheard []string
	// Unsaid holds the facts that could not be found out, each with the reason.
	Unsaid map[string]string

	// all is the World that was given. A view does not have the objects that no answer depends on.
	all World
}

// Proxy is the configuration of kube-proxy.
type Proxy struct {
	Mode      string
	StrictARP bool
}

// The outcomes of a Finding.
const (
	FindingFine    = "ok"
	FindingWarning = "warning"
	FindingFault   = "fault"
	FindingUnknown = "unknown"
)

// Finding is the result of one check.
type Finding struct {
	Category string `json:"category"`
	// Check is the name of the check, and the anchor of Hint.
	Check   string `json:"check"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`

	// passing says that a warning may end without action.
	passing bool
}

// Checkup holds all findings.
type Checkup struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Faults   int       `json:"faults"`
	Unknown  int       `json:"unknown"`
}

// Bad reports whether there is a fault. An unknown result is neither fine nor a fault.
func (c Checkup) Bad() bool { return c.Faults > 0 }

// Again reports whether waiting may help: there is a fault, or a warning that may end without
// action, for example while an installation starts.
func (c Checkup) Again() bool {
	return c.Faults > 0 || slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Status == FindingWarning && f.passing })
}

// probe is one check. It returns no problems if all is well. unknown says that there is no result.
type probe struct {
	category, name, fine string
	// before says that the check is also useful before PureLB is installed.
	before bool
	run    func(v *view, f Facts) result
	// passing says that the warnings of this check may end without action. Other warnings stay until
	// a person changes the cluster.
	passing bool
	// about is what is unknown if one of needs is unknown: the objects of a kind, or a fact in Unsaid.
	about string
	needs []string
}

// check runs p.
func (p probe) check(v *view, f Facts) result {
	for _, need := range p.needs {
		why := v.unknown(need)
		if fact := f.Unsaid[need]; fact != "" {
			why = "unknown: " + fact
		}
		if why != "" {
			return result{unknown: p.about + " is " + why}
		}
	}
	return p.run(v, f)
}

type result struct {
	faults, warnings []string
	// lasting are warnings that do not end without action, also if those of the check may.
	lasting []string
	unknown string
}

// probes are sorted so that each comes after those that it depends on.
var probes = []probe{
	{"Kubernetes", "version", "the API server is recent enough", true, checkVersion, false, "the version of the API server", []string{"version"}},
	{"Kubernetes", "rights", "you have the rights that are needed", true, checkRights, false, "", nil},
	{"Kubernetes", "proxy", "kube-proxy leaves addresses to PureLB", true, checkProxy, false, "how kube-proxy is configured", []string{"proxy"}},
	{"Kubernetes", "others", "no other load balancer is installed", true, checkOthers, false, "", nil},
	{"Kubernetes", "ports", "no other pod has a port of a node that PureLB needs", true, checkPorts, false, "which ports of nodes other pods have", []string{"ports"}},
	{"Kubernetes", "podsecurity", "the namespace admits the pods of PureLB", true, checkPodSecurity, false, "", nil},
	{"Installation", "definitions", "the definitions of PureLB's objects are there", false, checkDefinitions, true, "which objects the API server knows", []string{"groups"}},
	{"Installation", "programs", "all programs are ready", false, checkPrograms, false, "whether the programs run", []string{KindPods}},
	{"Installation", "versions", "all programs are of one version", false, checkVersions, true, "which versions run", []string{KindPods}},
	{"Configuration", "configuration", "ServiceGroups and LBNodeAgents are in order", false, checkConfiguration, false, "whether the configuration is in order", []string{KindGroups, KindAgents}},
	{"Configuration", "networks", "no range is in a network of the cluster", false, checkNetworks, false, "whether a range is in a network of the cluster", []string{KindGroups, KindNodes}},
	{"Nodes", "nodes", "all nodes can announce", false, checkNodes, false, "which nodes can announce", []string{KindLeases}},
	{"Nodes", "clocks", "the clocks of the nodes agree with that of the API server", false, checkClocks, true, "what the clocks of the nodes say", []string{KindLeases}},
	{"Nodes", "gossip", "the nodes hear each other", false, checkGossip, true, "whether the nodes hear each other", []string{KindLeases}},
	{"Nodes", "wire", "the holder of each address answers for it, and no other machine does", false, checkWire, false, "who answers for addresses", []string{KindLeases}},
	{"Routers", "routers", "all BGP sessions are established", false, checkRouters, true, "", nil},
	{"Services", "services", "all Services have addresses that are announced", false, checkAllServices, false, "the state of Services", []string{KindServices}},
}

// CheckUp checks a cluster, before PureLB is installed or after.
func CheckUp(w World, f Facts, before bool) Checkup {
	v := newView(w)
	f.all = w
	var c Checkup
	for _, p := range probes {
		if !before || p.before {
			c.add(p, p.check(v, f))
		}
	}
	return c
}

func (c *Checkup) add(p probe, r result) {
	note := func(status, message string, passing bool) {
		one := Finding{Category: p.category, Check: p.name, Status: status, Message: message, passing: passing}
		if status != FindingFine {
			one.Hint = manual("kubectl-purelb.md#check-" + p.name)
		}
		c.Findings = append(c.Findings, one)
	}
	for _, text := range r.faults {
		note(FindingFault, text, p.passing)
	}
	for _, text := range r.warnings {
		note(FindingWarning, text, p.passing)
	}
	for _, text := range r.lasting {
		note(FindingWarning, text, false)
	}
	c.Faults, c.Warnings = c.Faults+len(r.faults), c.Warnings+len(r.warnings)+len(r.lasting)
	switch {
	case r.unknown != "":
		c.Unknown++
		note(FindingUnknown, r.unknown, p.passing)
	case len(r.faults)+len(r.warnings)+len(r.lasting) == 0:
		c.OK++
		note(FindingFine, p.fine, p.passing)
	}
}

// Tables returns the tables of c, by category.
func (c Checkup) Tables() []Table { return c.tables(mostFindings, true) }

// Wide returns the tables of c with all findings.
func (c Checkup) Wide() []Table { return c.tables(len(c.Findings), true) }

// Short returns the tables of c without results that are fine.
func (c Checkup) Short() []Table { return c.tables(mostFindings, false) }

// mostFindings is how many findings of one check the tables show.
const mostFindings = 10

func (c Checkup) tables(most int, fine bool) []Table {
	tables := []Table{{Lines: []string{c.headline()}}}
	count := map[string]int{}
	for i, f := range c.Findings {
		if !fine && f.Status == FindingFine {
			continue
		}
		count[f.Check]++
		if more := count[f.Check] - most; more > 0 {
			if i+1 == len(c.Findings) || c.Findings[i+1].Check != f.Check {
				t := &tables[len(tables)-1]
				t.Lines = append(t.Lines, fmt.Sprintf("  and %d more; -o wide has all", more))
			}
			continue
		}
		if tables[len(tables)-1].Title != f.Category {
			tables = append(tables, Table{Title: f.Category})
		}
		t := &tables[len(tables)-1]
		t.Lines = append(t.Lines, marks[f.Status]+" "+f.Message)
		if f.Hint != "" {
			t.Lines = append(t.Lines, "    see "+f.Hint)
		}
	}
	return append(tables, Table{Lines: []string{fmt.Sprintf("Result: %d ok, %s, %s, %d unknown", c.OK, counted(c.Warnings, "warning", "warnings"), counted(c.Faults, "fault", "faults"), c.Unknown)}})
}

// marks are the signs of the outcomes.
var marks = map[string]string{FindingFine: "√", FindingWarning: "‼", FindingFault: "×", FindingUnknown: "?"}

// headline is the first of the worst findings: the other findings may be its consequences.
func (c Checkup) headline() string {
	for _, status := range []string{FindingFault, FindingWarning, FindingUnknown} {
		for _, f := range c.Findings {
			if f.Status == status {
				return marks[status] + " " + f.Message
			}
		}
	}
	return marks[FindingFine] + " all is well"
}

// oldest is the oldest version of Kubernetes that PureLB works with.
var oldest = version.MajorMinor(1, 31)

func checkVersion(_ *view, f Facts) result {
	have, err := version.ParseGeneric(f.Version)
	switch {
	case err != nil:
		return result{unknown: fmt.Sprintf("the API server says that its version is %q", f.Version)}
	case have.LessThan(oldest):
		return result{faults: []string{fmt.Sprintf("the API server is %s, and PureLB needs %v or later", f.Version, oldest)}}
	}
	return result{}
}

func checkRights(_ *view, f Facts) result {
	var r result
	for _, u := range f.all.Unread {
		if u.hidden() {
			r.warnings = append(r.warnings, u.String())
		}
	}
	for _, what := range f.Refused {
		r.faults = append(r.faults, "to install PureLB you need the right to "+what)
	}
	if why := f.Unsaid["rights"]; why != "" {
		r.unknown = "whether you may install PureLB is unknown: " + why
	}
	return r
}

func checkProxy(_ *view, f Facts) result {
	if f.Proxy.Mode == "ipvs" && !f.Proxy.StrictARP {
		return result{faults: []string{"kube-proxy runs in IPVS mode without strictARP, so every node answers for every address; set ipvs.strictARP in ConfigMap kube-system/kube-proxy, and restart kube-proxy"}}
	}
	return result{}
}
