package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/explain"
)

// The limits of a report. A report must not overload a large cluster, or fill the memory of the
// user's machine. The report lists what it leaves out.
const (
	// mostPods is the largest number of pods to ask if the user names no nodes.
	mostPods = 64
	// mostOfFile is how many bytes of a file are kept: the end of a log, the beginning of others.
	mostOfFile = 2 << 20
	// lastLines is how many lines of a log are requested.
	lastLines = 5000
	// fetchLimit is how long all pods together may take. fetchers is how many files are fetched in
	// parallel.
	fetchLimit = 2 * time.Minute
	fetchers   = 8
	// beginLimit is how long to wait for the beginning of a file, so that a few dead nodes cannot
	// use up fetchLimit. The rest of a file may take longer, because the connection may be slow.
	beginLimit = 15 * time.Second
)

var errSilent = fmt.Errorf("there was no answer within %s", beginLimit)

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
		case container(&p.Spec, "lbnodeagent") == nil:
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

// stream is a request whose answer is read in parts.
type stream interface {
	Stream(context.Context) (io.ReadCloser, error)
}

// source is a file to fetch from a pod.
type source struct {
	name string
	open func() stream
	// log says that the end of the file matters most.
	log bool
}

// fetched is a file, or the error why there is none. cut says which part is left out.
type fetched struct {
	name string
	text []byte
	cut  string
	err  error
}

// fetch reads the files of pods, of several pods in parallel. It closes the channel after the last
// file.
func fetch(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod) <-chan fetched {
	work, out := make(chan []source), make(chan fetched)
	var all sync.WaitGroup
	for range fetchers {
		all.Go(func() {
			for files := range work {
				fetchPod(ctx, files, out)
			}
		})
	}
	go func() {
		for i := range pods {
			work <- sourcesOf(c, &pods[i])
		}
		close(work)
		all.Wait()
		close(out)
	}()
	return out
}

// fetchPod reads the files of one pod. If the node does not answer for a log, it skips the other
// files.
func fetchPod(ctx context.Context, files []source, out chan<- fetched) {
	var silent error
	for _, s := range files {
		one := fetched{name: s.name, err: silent}
		if silent == nil {
			one = s.fetch(ctx)
		}
		switch {
		case one.err == nil:
		case ctx.Err() != nil:
			one.err = fmt.Errorf("there was no time left to ask for it: %w", ctx.Err())
		case silent == nil && s.log && errors.Is(one.err, errSilent):
			silent = fmt.Errorf("the node does not answer for %s: %w", s.name, errSilent)
		}
		out <- one
	}
}

// fetch reads the file.
func (s source) fetch(ctx context.Context) fetched {
	one := fetched{name: s.name}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(beginLimit, func() { cancel(errSilent) })
	body, err := s.open().Stream(ctx)
	limit.Stop()
	if err != nil {
		one.err = err
		if errors.Is(context.Cause(ctx), errSilent) {
			one.err = errSilent
		}
		return one
	}
	defer body.Close()
	var cut int64
	if s.log {
		one.text, cut, one.err = tail(body, mostOfFile)
	} else {
		one.text, one.err = io.ReadAll(io.LimitReader(body, mostOfFile))
		if one.err == nil {
			cut, one.err = io.Copy(io.Discard, io.LimitReader(body, 1))
		}
	}
	switch {
	case cut > 0 && s.log:
		one.cut = fmt.Sprintf("the first %d bytes of the last %d lines are left out", cut, lastLines)
	case cut > 0:
		one.cut = fmt.Sprintf("what follows the first %d bytes is left out", len(one.text))
	}
	return one
}

// tail returns the last lines of from, limited to most bytes, and how many bytes precede them. It
// drops half a line: that could begin inside a password, which the redactor would not recognize.
// It keeps no more than twice that limit in memory.
func tail(from io.Reader, most int) (text []byte, cut int64, err error) {
	buffer := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = from.Read(buffer)
		text = append(text, buffer[:n]...)
		if over := len(text) - most; over > 0 && (err != nil || len(text) >= 2*most) {
			cut += int64(over)
			text = append(text[:0], text[over:]...)
		}
	}
	if cut > 0 {
		_, whole, _ := bytes.Cut(text, []byte("\n"))
		cut += int64(len(text) - len(whole))
		text = whole
	}
	if err == io.EOF {
		err = nil
	}
	return text, cut, err
}

// sourcesOf returns the logs of the containers of p, and the pages that the programs serve.
func sourcesOf(c kubernetes.Interface, p *corev1.Pod) []source {
	var all []source
	pods := c.CoreV1().Pods(p.Namespace)
	for _, one := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		all = append(all, source{p.Name + "." + one.Name + ".log", func() stream {
			return pods.GetLogs(p.Name, &corev1.PodLogOptions{Container: one.Name, TailLines: new(int64(lastLines)), Timestamps: true})
		}, true})
		for _, port := range one.Ports {
			if !strings.HasSuffix(port.Name, "monitoring") { // The speaker's port is bgp-monitoring.
				continue
			}
			for _, page := range []string{"state", "metrics"} {
				all = append(all, source{p.Name + "." + one.Name + "." + page, func() stream {
					return pods.ProxyGet("http", p.Name, fmt.Sprint(port.ContainerPort), "/"+page, nil)
				}, false})
			}
		}
	}
	return all
}
