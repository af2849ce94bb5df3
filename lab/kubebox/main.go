// Kubebox is etcd and every Kubernetes program of the lab in one binary. That saves link time, disk
// and memory, because the kernel keeps one copy of its pages for all of them. The name by which it
// is called, or its first argument, selects the program.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps a name to its function, which returns the exit code.
var programs = map[string]func() int{
	"etcd":                    etcd,
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllers.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 ctl,
}

func main() {
	if _, known := programs[name()]; !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
	}
	run, known := programs[name()]
	if !known {
		fmt.Fprintf(os.Stderr, "kubebox: call me by the name of a program, or name one first: %s\n",
			strings.Join(slices.Sorted(maps.Keys(programs)), " "))
		os.Exit(2)
	}
	os.Exit(run())
}

func name() string { return filepath.Base(os.Args[0]) }

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func etcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// ctl is for kubectl. Unlike the servers, kubectl prints errors for users, without a log prefix.
func ctl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
