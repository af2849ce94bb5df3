package peering

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Annotations of a Service that set attributes of its routes. Lists are separated by commas.
// An empty annotation means an empty list, whatever the group sets.
const (
	AnnotationCommunities      = "purelb.io/bgp-communities"
	AnnotationLargeCommunities = "purelb.io/bgp-large-communities"
	AnnotationMED              = "purelb.io/bgp-med"
	AnnotationLocalPreference  = "purelb.io/bgp-local-preference"
)

// ParseAttributes reads route attributes. A value that cannot be read becomes a Problem and
// is left out. Fields of the problems are communities[2], largeCommunities[0], med and
// localPreference.
func ParseAttributes(communities, largeCommunities []string, med, localPreference *int64) (Attributes, []Problem) {
	var f findings
	a := Attributes{
		Communities:      f.communities("communities", communities),
		LargeCommunities: f.largeCommunities("largeCommunities", largeCommunities),
	}
	if med != nil {
		a.MED = f.unsigned("med", strconv.FormatInt(*med, 10))
	}
	if localPreference != nil {
		a.LocalPref = f.unsigned("localPreference", strconv.FormatInt(*localPreference, 10))
	}
	return a, f.problems
}

// AttributesOf reads the annotations of a Service. The fields of the problems have the form
// metadata.annotations[purelb.io/bgp-med].
func AttributesOf(annotations map[string]string) (Attributes, []Problem) {
	var f findings
	var a Attributes
	if text, ok := annotations[AnnotationCommunities]; ok {
		a.Communities = f.communities(annotation(AnnotationCommunities), list(text))
	}
	if text, ok := annotations[AnnotationLargeCommunities]; ok {
		a.LargeCommunities = f.largeCommunities(annotation(AnnotationLargeCommunities), list(text))
	}
	if text, ok := annotations[AnnotationMED]; ok {
		a.MED = f.unsigned(annotation(AnnotationMED), text)
	}
	if text, ok := annotations[AnnotationLocalPreference]; ok {
		a.LocalPref = f.unsigned(annotation(AnnotationLocalPreference), text)
	}
	return a, f.problems
}

// mostCommunities is the longest list of communities, as in the schema of ServiceGroup. The attributes of
// a route must fit into an UPDATE message of 4,096 bytes: GoBGP panics for a longer IPv4 route, and drops
// an IPv6 one (osrg/gobgp#2629). Two full lists take 1,024 bytes.
const mostCommunities = 64

func annotation(name string) string { return "metadata.annotations[" + name + "]" }

// list returns the elements of a text with commas. For an empty text it returns an empty
// list, not nil.
func list(text string) []string {
	all := []string{}
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			all = append(all, element)
		}
	}
	return all
}

// communities reads a list, sorts it and removes duplicates. nil stays nil.
func (f *findings) communities(field string, texts []string) []uint32 {
	return values(f, field, texts, parseCommunity)
}

func (f *findings) largeCommunities(field string, texts []string) []string {
	return values(f, field, texts, parseLarge)
}

// values reads a list. If no element can be read, it returns nil, so that a mistake does not
// remove the values of the group. It leaves out the elements after the first mostCommunities.
func values[T uint32 | string](f *findings, field string, texts []string, parse func(string) (T, error)) []T {
	if n := len(texts); n > mostCommunities {
		f.note(field, ReasonParseError, "there are %d elements, so those after the first %d are left out: remove some", n, mostCommunities)
		texts = texts[:mostCommunities]
	}
	var all []T
	if texts != nil && len(texts) == 0 {
		all = []T{}
	}
	for i, text := range texts {
		v, err := parse(text)
		if err != nil {
			f.note(at(field, i), ReasonParseError, "%v", err)
			continue
		}
		all = append(all, v)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (f *findings) unsigned(field, text string) *uint32 {
	n, ok := number(strings.TrimSpace(text), 32)
	if !ok {
		f.note(field, ReasonParseError, "%s is not a number from 0 to %d", quote(text), uint32(math.MaxUint32))
		return nil
	}
	v := uint32(n)
	return &v
}

// Merge returns the attributes of service. A kind of attribute that service does not set comes from
// group.
func Merge(group, service Attributes) Attributes {
	if service.Communities != nil {
		group.Communities = service.Communities
	}
	if service.LargeCommunities != nil {
		group.LargeCommunities = service.LargeCommunities
	}
	if service.MED != nil {
		group.MED = service.MED
	}
	if service.LocalPref != nil {
		group.LocalPref = service.LocalPref
	}
	return group
}

func (a Attributes) empty() bool {
	return len(a.Communities) == 0 && len(a.LargeCommunities) == 0 && a.MED == nil && a.LocalPref == nil && a.Weight == 0 && a.Profile == ""
}
