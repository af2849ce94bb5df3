package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/explain"
)

// The limits of a report. A report must not overload a large cluster, or fill the memory of the
// user's machine. The report lists what it leaves out.
const (
	// mostPods is the largest number of pods to ask if the user names no nodes.
	mostPods = 64
	// lastLines is how many lines of a log are requested, and mostOfLog how many of their last bytes are kept.
	lastLines = 5000
	mostOfLog = 2 << 20
	// mostOfPage is how many of the first bytes of a page are kept. No /state has more.
	mostOfPage = allocstate.MaxBytes
	// fetchLimit is how long all pods together may take, and podLimit how long one may. fetchers is how many pods
	// are asked in parallel.
	fetchLimit = 2 * time.Minute
	podLimit   = 30 * time.Second
	fetchers   = 8
)

// podsToAsk returns the pods that a report asks, and the names of the others. The allocators come
// first, then pods with problems and pods on nodes with problems.
func podsToAsk(w explain.World, nodes []string) (asked []corev1.Pod, left []string) {
	troubled := map[string]bool{}
	if e, err := explain.ElectionOf(w, "", ""); err == nil {
		for _, n := range e.Nodes {
			troubled[n.Node] = !n.Healthy || n.Problem != ""
		}
	}
	unwell := func(s corev1.ContainerStatus) bool { return !s.Ready || s.RestartCount > 0 }
	rank := func(p corev1.Pod) int {
		switch {
		case explain.ContainerOf(&p.Spec, "lbnodeagent") == nil:
			return 0
		case slices.Contains(nodes, p.Spec.NodeName):
			return 1
		case len(nodes) > 0:
			return 4
		case troubled[p.Spec.NodeName] || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), unwell):
			return 2
		}
		return 3
	}
	pods := slices.SortedFunc(slices.Values(w.Pods), func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range pods {
		if r := rank(p); r == 1 || r < 4 && len(asked) < mostPods {
			asked = append(asked, p)
		} else {
			left = append(left, p.Name)
		}
	}
	return asked, left
}

// fetched is a file, or the error why there is none. cut says that it is not complete.
type fetched struct {
	name string
	text []byte
	cut  bool
	err  error
}

// fetch reads the logs of the containers of pods, and the pages that they serve, of several pods in parallel. It
// closes the channel after the last file.
func fetch(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod) <-chan fetched {
	out := make(chan fetched)
	go func() {
		defer close(out)
		parallel(len(pods), fetchers, func(i int) {
			ctx, cancel := context.WithTimeout(ctx, podLimit)
			defer cancel()
			fetchPod(ctx, c, &pods[i], out)
		})
	}()
	return out
}

// fetchPod reads the files of p.
func fetchPod(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, out chan<- fetched) {
	pods := c.CoreV1().Pods(p.Namespace)
	for _, one := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		out <- read(ctx, p.Name+"."+one.Name+".log", pods.GetLogs(p.Name, &corev1.PodLogOptions{Container: one.Name, TailLines: new(int64(lastLines)), Timestamps: true}), end)
		for _, port := range one.Ports {
			if !strings.HasSuffix(port.Name, "monitoring") { // The speaker's port is bgp-monitoring.
				continue
			}
			for _, page := range []string{"state", "metrics"} {
				out <- read(ctx, p.Name+"."+one.Name+"."+page, pods.ProxyGet("http", p.Name, fmt.Sprint(port.ContainerPort), "/"+page, nil), beginning)
			}
		}
	}
}

// read reads a part of a file, which is called name.
func read(ctx context.Context, name string, from interface {
	Stream(ctx context.Context) (io.ReadCloser, error)
}, keep part) fetched {
	body, err := from.Stream(ctx)
	if err != nil {
		return fetched{name: name, err: err}
	}
	defer body.Close()
	text, cut, err := keep(body)
	return fetched{name, text, cut, err}
}

// part reads the part of a file that matters most. It drops half a line or value at the cut: that could be half a
// secret, which the redactor does not know.
type part func(io.Reader) (text []byte, cut bool, err error)

// beginning reads the first bytes of a page.
func beginning(page io.Reader) (text []byte, cut bool, err error) {
	text, err = io.ReadAll(io.LimitReader(page, mostOfPage+1))
	if cut = len(text) > mostOfPage; cut {
		text = text[:mostOfPage]
		if i := bytes.LastIndexAny(text, "\n,"); i >= 0 { // A /state is one line.
			text = text[:i+1]
		}
	}
	return text, cut, err
}

// end reads a whole log, and keeps the last lines.
func end(log io.Reader) (text []byte, cut bool, err error) {
	for n := mostOfLog; n == mostOfLog && err == nil; {
		var more []byte
		more, err = io.ReadAll(io.LimitReader(log, mostOfLog))
		n, text = len(more), append(text, more...)
		if over := len(text) - mostOfLog; over > 0 {
			text, cut = text[over:], true
		}
	}
	if cut {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, cut, err
}
