// Oldest is the API server of the oldest Kubernetes that PureLB supports. Its first argument is the
// name of the program. Kubebox has the same argument, so tests can use either.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const program = "kube-apiserver"

func main() {
	if len(os.Args) < 2 || os.Args[1] != program {
		fmt.Fprintf(os.Stderr, "usage: oldest %s [FLAG...]\n", program)
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
