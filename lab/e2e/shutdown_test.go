package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are the ways in which a machine is shut down in order. The machines of the lab have no
// systemd, so the tests do its part.

// unmounting is how long a machine lives on after its programs were told to end. Some programs
// take their time, and disks are unmounted.
const unmounting = 20 * time.Second

// endPrograms tells all programs of a node to end, as systemd does when the machine is shut
// down: the kubelet, kube-proxy, and the programs in containers. No pod is deleted, and
// nothing is restarted.
func (w *world) endPrograms(node string) {
	w.t.Helper()
	for _, program := range []string{"kubelet", "kube-proxy"} {
		w.endProgram(node, program)
	}
	for _, pid := range containedIn(node) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended already
	}
}

// endProgram ends a program of a machine, and returns when it has ended.
func (w *world) endProgram(machine, program string) {
	w.t.Helper()
	if err := lab.Signal(machine, program, syscall.SIGTERM); err != nil {
		w.t.Errorf("end %s on %s: %v", program, machine, err)
	}
	w.until(patience, program+" on "+machine+" has ended", func() bool { return !w.runs(machine, program) })
}

// endPods does what a kubelet with shutdownGracePeriod does when the machine is shut down. It
// tells the containers to end, and writes after a delay that the node is not ready. It lives
// on meanwhile. The conditions of the pods follow when their containers have ended.
//
// The kubelets of the lab cannot do so themselves, because they would learn of the shutdown
// from systemd. The kubelet is stopped, so that it restarts nothing. Its port still accepts
// connections.
func (w *world) endPods(node string, late time.Duration) {
	w.t.Helper()
	if err := lab.Signal(node, "kubelet", syscall.SIGSTOP); err != nil {
		w.t.Fatalf("stop the kubelet of %s: %v", node, err)
	}
	for _, pid := range containedIn(node) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended already
	}
	time.Sleep(late)
	const condition = `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"node is shutting down"}]}}`
	object := &corev1.Node{}
	object.Name = node
	if err := w.Status().Patch(w.ctx, object, client.RawPatch("application/strategic-merge-patch+json", []byte(condition))); err != nil {
		w.t.Fatalf("say that %s is not ready: %v", node, err)
	}
}

// containedIn returns the processes in the containers of a node.
func containedIn(node string) (pids []int) {
	first, err := lab.Spec.State.Process(node)
	if err != nil {
		return nil
	}
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && underShim(pid, first.PID) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// underShim reports whether a shim of containerd is between a process and its machine's first
// process.
func underShim(pid, first int) (shim bool) {
	for pid = parent(pid); pid > 1; pid = parent(pid) {
		if pid == first {
			return shim
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		shim = shim || bytes.HasPrefix(name, []byte("containerd-shim"))
	}
	return false
}
