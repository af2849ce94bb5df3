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

// These are the ways of an orderly shutdown. The machines of the lab have no systemd, so the tests
// do its part.

// unmounting is the time from SIGTERM until the machine is off. In this time, programs end and disks
// are unmounted.
const unmounting = 20 * time.Second

// endPrograms sends SIGTERM to all programs of a node, as systemd does at a shutdown: the kubelet,
// kube-proxy, and the programs in containers. No pod is deleted, and no program restarts.
func (w *world) endPrograms(node string) {
	w.t.Helper()
	for _, program := range []string{"kubelet", "kube-proxy"} {
		w.endProgram(node, program)
	}
	for _, pid := range containedIn(node) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // the process may have ended
	}
}

// endProgram ends a program of a machine and waits until it has ended.
func (w *world) endProgram(machine, program string) {
	w.t.Helper()
	if err := lab.Signal(machine, program, syscall.SIGTERM); err != nil {
		w.t.Errorf("end %s on %s: %v", program, machine, err)
	}
	w.until(patience, program+" on "+machine+" has ended", func() bool { return !w.runs(machine, program) })
}

// endPods does what a kubelet with shutdownGracePeriod does at a shutdown. It sends SIGTERM to the
// containers. After a delay, it writes that the node is not ready. The kubelet itself runs on. The
// conditions of the pods change when their containers have ended.
//
// The kubelets of the lab cannot do that, because they would learn of the shutdown from systemd. The
// test stops the kubelet with a signal, so that it restarts nothing. Its port still accepts
// connections.
func (w *world) endPods(node string, late time.Duration) {
	w.t.Helper()
	if err := lab.Signal(node, "kubelet", syscall.SIGSTOP); err != nil {
		w.t.Fatalf("stop the kubelet of %s: %v", node, err)
	}
	for _, pid := range containedIn(node) {
		_ = syscall.Kill(pid, syscall.SIGTERM) // the process may have ended
	}
	time.Sleep(late)
	const condition = `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"node is shutting down"}]}}`
	object := &corev1.Node{}
	object.Name = node
	if err := w.Status().Patch(w.ctx, object, client.RawPatch("application/strategic-merge-patch+json", []byte(condition))); err != nil {
		w.t.Fatalf("write that %s is not ready: %v", node, err)
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

// underShim reports whether a process is a descendant of a shim of containerd on its machine.
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
