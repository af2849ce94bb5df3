package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/service"
)

// World is the known part of a cluster.
type World struct {
	census.Objects
	// Rules say how PureLB reads Services.
	Rules    service.Rules
	Services []corev1.Service
	// EndpointSlices are read if what nodes announce depends on them: see NeedsEndpoints.
	EndpointSlices []discoveryv1.EndpointSlice
	Configurations []bgpv1.BGPConfiguration
	NodeStatuses   []bgpv1.BGPNodeStatus
	// Pods are the pods of PureLB.
	Pods []corev1.Pod
	// Allocator is the answer of the leading allocator at /state, and AgentStates are those of agents, by node.
	// Unheard are the programs that were asked and did not answer.
	Allocator   *allocstate.State
	AgentStates map[string]*agentstate.State
	Unheard     []Unread
	// Now is the time of the API server's clock. It is zero if answers must not depend on time, as
	// for files.
	Now time.Time
	// Origins say which objects are from files.
	Origins map[Object]Origin
	// Mistakes are the parts of files that could not be read.
	Mistakes []Mistake
	// Unread are the kinds that could not be read, or that the files do not have.
	Unread []Unread
	// Guesses are the assumptions about objects in files.
	Guesses []Guess
	// Settled says that the options of PureLB's installation are known. Otherwise they are
	// assumed to be the chart's defaults.
	Settled bool
	// Guessed says that nothing shows that PureLB is in Namespace.
	Guessed bool
	// Uninstalled says why PureLB seems not to be in Namespace, or is "".
	Uninstalled string
}

// Object names an object.
type Object struct{ Kind, Namespace, Name string }

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Origin is the place of an object in a file.
type Origin struct {
	File string
	// Line is the first line of the document. Path is the place of the object in it, or "" for
	// the whole document.
	Line int
	Path string
	// LineOf returns the line of a field of the document, such as spec.local.v4pools[0].pool, or of the
	// nearest field around it. It is called only for problems.
	LineOf func(path string) int
}

// At returns the place of a field, or of the nearest field around it.
func (o Origin) At(field string) string {
	if o.File == "" {
		return ""
	}
	line := o.Line
	if path := strings.Trim(o.Path+"."+field, "."); path != "" && o.LineOf != nil {
		line = o.LineOf(path)
	}
	return fmt.Sprintf("%s:%d", o.File, line)
}

// Mistake is a part of a file that cannot be read, or that the API server would refuse.
type Mistake struct {
	Object Object
	Field  string
	// Place is file:line where there is no Object.
	Place   string
	Message string
}

// A Guess is the assumed value of a field that an object in a file does not have.
type Guess struct {
	Object Object
	Field  string
	What   string
}

// The fields that are guessed.
const (
	FieldNamespace = "metadata.namespace"
	FieldFamilies  = "spec.ipFamilies"
)
