package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Component is one program of PureLB.
type Component struct {
	name string `col:"COMPONENT"`
	// Image is the image of its containers. If they differ, it lists all images.
	Image string `json:"image" col:"IMAGE"`
	// Pods is the number of pods that have it. Running counts those in which it is ready.
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	ready   string `col:"READY"`
}

func (c Component) String() string {
	if c.Pods == 0 {
		return "not found"
	}
	return fmt.Sprintf("%d of %d ready", c.Running, c.Pods)
}

// Components are the programs of PureLB that run in a cluster.
type Components struct {
	Allocator   Component `json:"allocator"`
	LBNodeAgent Component `json:"lbnodeagent"`
	K8gobgp     Component `json:"k8gobgp"`
}

func components(pods []corev1.Pod) Components {
	return Components{Allocator: component(pods, "allocator"), LBNodeAgent: component(pods, agentContainer), K8gobgp: component(pods, "k8gobgp")}
}

// component returns the component of the containers of that name.
func component(pods []corev1.Pod, name string) Component {
	c := Component{name: name}
	var images []string
	for _, p := range pods {
		one := ContainerOf(&p.Spec, name)
		if one == nil {
			continue
		}
		c.Pods++
		images = append(images, one.Image)
		if notReady(p, name) == "" {
			c.Running++
		}
	}
	slices.Sort(images)
	c.Image = strings.Join(slices.Compact(images), ", ")
	c.ready = c.String()
	return c
}

// agentContainer is the name of the container of the node agent.
const agentContainer = "lbnodeagent"

// ContainerOf returns the container of that name, or nil.
func ContainerOf(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// notReady says why the container of that name in p is not ready, or returns "".
func notReady(p corev1.Pod, name string) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.Name != name:
		case s.Ready:
			return ""
		case s.State.Waiting != nil:
			return strings.TrimSuffix(s.State.Waiting.Reason+": "+s.State.Waiting.Message, ": ")
		case s.State.Terminated != nil:
			return fmt.Sprintf("it ended with code %d (%s)", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		default:
			return fmt.Sprintf("it runs, and is not ready; it was restarted %d times", s.RestartCount)
		}
	}
	return "it has not been started (" + string(p.Status.Phase) + ")"
}

// Version is the version of everything that runs.
type Version struct {
	Plugin string `json:"plugin"`
	*Components
	// Consistent says that all programs have the same version.
	Consistent *bool    `json:"consistent,omitempty"`
	Unread     []Unread `json:"unknown,omitempty"`
}

// Versions returns the versions of the programs in w, and of the plugin.
func Versions(w World, plugin string) Version {
	v := Version{Plugin: plugin}
	if !w.knows(KindPods) {
		v.Unread = slices.DeleteFunc(slices.Clone(w.Unread), func(u Unread) bool { return u.Kind != KindPods })
		return v
	}
	all := components(w.Pods)
	tags := slices.Concat(tagsOf(all.Allocator.Image), tagsOf(all.LBNodeAgent.Image), tagsOf(all.K8gobgp.Image))
	slices.Sort(tags)
	consistent := len(slices.Compact(tags)) <= 1
	v.Components, v.Consistent = &all, &consistent
	return v
}

// tagsOf returns the tags of images, a list with commas. A digest does not name the version,
// because each program has its own digest.
func tagsOf(images string) []string {
	var tags []string
	for image := range strings.SplitSeq(images, ", ") {
		image, _, _ = strings.Cut(image, "@")
		if _, tag, tagged := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":"); tagged {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Tables returns the tables of v.
func (v Version) Tables() []Table {
	rows := []Component{{name: "kubectl-purelb", Image: v.Plugin}}
	if c := v.Components; c != nil {
		rows = append(rows, c.Allocator, c.LBNodeAgent, c.K8gobgp)
	}
	t := TableOf("", rows)
	if v.Components != nil && !*v.Consistent {
		t.Lines = []string{"The components are of different versions."}
	}
	return append([]Table{t}, unreadTable(v.Unread)...)
}
