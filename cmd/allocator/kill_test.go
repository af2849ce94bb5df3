package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// asAllocator is the environment variable that makes the test binary run as an allocator, so that
// the test can kill it.
const asAllocator = "PURELB_TEST_AS_ALLOCATOR"

func TestMain(m *testing.M) {
	if os.Getenv(asAllocator) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts an allocator as a separate process.
func start(t *testing.T, kubeconfig string) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	expect.NoError(t, err)
	output = &bytes.Buffer{}
	cmd = exec.Command(exe, "--namespace", "purelb-system", "--kubeconfig", kubeconfig, "--port", "0", "--health-address", "0",
		"--identity", "allocator-1")
	cmd.Env = append(os.Environ(), asAllocator+"=1", "DEFAULT_ANNOUNCER=PureLB")
	cmd.Stdout, cmd.Stderr = output, output
	expect.NoError(t, cmd.Start())
	return cmd, output
}

const group = `
apiVersion: purelb.io/v1
kind: ServiceGroup
metadata:
  name: default
  namespace: purelb-system
spec:
  local:
    v4pools:
    - {subnet: 10.64.0.0/22, pool: 10.64.0.0/22, aggregation: default}
    v6pools:
    - {subnet: "2001:db8::/64", pool: "2001:db8::/64", aggregation: default}
`

func TestRepeatedKillsDoubleAndLoseNoAddress(t *testing.T) {
	server := apitest.Start(t)
	for _, args := range [][]string{{"create", "namespace", "purelb-system"}, {"apply", "-f", "-"}} {
		if out, err := server.Kubectl(group, args...); err != nil {
			t.Fatal(err, out)
		}
	}
	clients, err := kubernetes.NewForConfig(server.Config)
	expect.NoError(t, err)
	const rounds, each = 8, 20
	for i := range rounds {
		var wg sync.WaitGroup
		wg.Go(func() {
			for j := range each {
				create(t, clients, i*each+j)
			}
		})
		kill(t, server.Kubeconfig, 200*time.Millisecond+time.Duration(i)*60*time.Millisecond)
		wg.Wait()
	}
	last, output := start(t, server.Kubeconfig)
	defer func() {
		_ = last.Process.Kill()
		_ = last.Wait()
		if t.Failed() {
			t.Log(output)
		}
	}()
	await(t, clients, rounds*each)
}

// kill starts an allocator and kills it after a while.
func kill(t *testing.T, kubeconfig string, after time.Duration) {
	t.Helper()
	cmd, _ := start(t, kubeconfig)
	time.Sleep(after) // the kill may come at any moment, whatever the process is doing
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the error says that it was killed
}

func create(t *testing.T, clients kubernetes.Interface, i int) {
	policy := corev1.IPFamilyPolicyRequireDualStack
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("svc-%03d", i)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if _, err := clients.CoreV1().Services("default").Create(context.Background(), svc, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// await waits until n Services have an address of each family. It fails if two Services have the
// same address.
func await(t *testing.T, clients kubernetes.Interface, n int) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // the other process says nothing when it is done
		list, err := clients.CoreV1().Services("default").List(context.Background(), metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer"})
		expect.NoError(t, err)
		holders := map[string]string{}
		for _, svc := range list.Items {
			for _, in := range svc.Status.LoadBalancer.Ingress {
				if other, taken := holders[in.IP]; taken {
					t.Fatalf("%s and %s both have %s", other, svc.Name, in.IP)
				}
				holders[in.IP] = svc.Name
			}
			branded := svc.Annotations["purelb.io/allocated-by"] == "PureLB"
			if has := len(svc.Status.LoadBalancer.Ingress); has != 0 && has != 2 || branded != (has == 2) {
				t.Fatalf("%s has %d addresses, and the annotations %v", svc.Name, has, svc.Annotations)
			}
		}
		if len(holders) == 2*n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d addresses are allocated; %s", len(holders), 2*n, strings.TrimSpace(fmt.Sprint(len(list.Items))+" Services"))
		}
	}
}
