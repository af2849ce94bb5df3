// Otherlb is a second load balancer controller for the lab's cluster. It knows nothing of PureLB.
// Tests run both at the same time. Otherlb treats the status of Services as MetalLB's controller
// does:
//
//   - It serves Services of type LoadBalancer that have the class of the flag
//     -class. Without the flag it serves Services without a class.
//   - It clears an address that is in none of its ranges. It does not check which program
//     gave that address. It also does this when it starts.
//   - It then gives the Service the lowest free address of its own ranges, if it
//     has any.
//   - It repeats this after each change of a Service or of its ranges.
//
// Its ranges are in a ConfigMap. Without the ConfigMap it has none. It announces
// nothing: other programs put addresses on nodes.
//
// It counts its writes to a Service in the annotation otherlb.lab/writes of that Service. So a test
// can distinguish these writes from others, even after a restart.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	class := flag.String("class", "", "serve Services of this load balancer class (default: those without one)")
	namespace := flag.String("namespace", "default", "the namespace of the ConfigMap with the ranges")
	name := flag.String("config", "otherlb", "the name of the ConfigMap with the ranges")
	flag.Parse()
	if err := run(ctx, *class, types.NamespacedName{Namespace: *namespace, Name: *name}); err != nil {
		slog.Error("otherlb ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, class string, config types.NamespacedName) error {
	access, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	access.QPS = -1
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	c := newController(client, class, config)
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(":8080", c) }()
	go func() { failed <- c.run(ctx) }()
	return <-failed
}
