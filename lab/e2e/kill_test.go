package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/product"
)

// leader returns the pod of the leading allocator.
func (w *world) leader() (pod string) {
	w.t.Helper()
	w.until(2*patience, "an allocator leads", func() bool {
		var lease coordinationv1.Lease
		err := w.Get(w.ctx, client.ObjectKey{Namespace: product.Namespace, Name: "purelb-allocator"}, &lease)
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		pod = *lease.Spec.HolderIdentity
		return pod != ""
	})
	return pod
}

// leadingPod waits until the leading allocator is ready and is not terminating. It returns its pod. A
// terminating allocator leads until it has released its Lease.
func (w *world) leadingPod() (pod corev1.Pod) {
	w.t.Helper()
	w.until(2*patience, "an allocator that is not terminating leads", func() bool {
		var lead corev1.Pod
		err := w.Get(w.ctx, client.ObjectKey{Namespace: product.Namespace, Name: w.leader()}, &lead)
		if err != nil || lead.DeletionTimestamp != nil || !ready(lead) {
			return false
		}
		pod = lead
		return true
	})
	return pod
}

// freshAllocator replaces the allocator's pod. In the old pod, the kubelet may restart the container
// only after minutes.
func (w *world) freshAllocator() {
	w.t.Helper()
	w.replace("allocator", "")
}

// allocatorsReady returns the number of ready allocators, leading or standby.
func (w *world) allocatorsReady() (n int) {
	w.t.Helper()
	for _, p := range w.podsOf("allocator") {
		if p.DeletionTimestamp == nil && ready(p) {
			n++
		}
	}
	return n
}

// kill sends SIGKILL to the allocator of a pod. It reports whether the process existed.
func (w *world) kill(pod string) bool {
	w.t.Helper()
	return w.killProcess("allocator", "PURELB_POD_NAME="+pod)
}

// killAgents sends SIGKILL to the agents of nodes. The function that it returns waits until all these
// agents are ready again.
func (w *world) killAgents(nodes ...string) (wait func()) {
	w.t.Helper()
	before := map[string]string{}
	for _, n := range nodes {
		before[n] = agentIn(w.readyPod("lbnodeagent", n))
	}
	for _, n := range nodes {
		w.until(patience, "there is an agent on "+n+" to kill", func() bool { return w.killProcess("lbnodeagent", "PURELB_NODE_NAME="+n) })
	}
	return func() {
		w.t.Helper()
		for _, n := range nodes {
			// The pod stays ready until the kubelet notices the end of the process.
			w.until(3*patience, "the agent on "+n+" was started again", func() bool {
				p, ok := w.productPod("lbnodeagent", n)
				return ok && agentIn(p) != before[n]
			})
		}
	}
}

// agentIn returns the ID of the agent's container in a pod. The ID changes with each restart.
func agentIn(p corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == "lbnodeagent" {
			return c.ContainerID
		}
	}
	return ""
}

// killProcess sends SIGKILL to the process of a program with a variable in its environment. It
// reports whether the process existed.
func (w *world) killProcess(program, variable string) bool {
	w.t.Helper()
	pid, ok := processOf(program, variable)
	if !ok {
		return false
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Errorf("kill the %s with %s: %v", program, variable, err)
	}
	return true
}

// processOf finds a process in a pod of this lab. The machines of all labs share the PID namespace of
// this machine, so their processes are visible here.
func processOf(program, variable string) (pid int, ok bool) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		name, err := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		if err != nil || string(bytes.TrimSpace(name)) != program {
			continue
		}
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte(variable+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && lab.descends(pid) {
			return pid, true
		}
	}
	return 0, false
}

// descends reports whether a process is a descendant of a machine's first process.
func (f fixture) descends(pid int) bool {
	for ; pid > 1; pid = parent(pid) {
		for _, m := range f.Machines() {
			if first, err := f.Spec.State.Process(m.Name); err == nil && first.PID == pid {
				return true
			}
		}
	}
	return false
}

// parent returns the parent of a process, or 0.
func parent(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name in parentheses may contain any characters.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}
