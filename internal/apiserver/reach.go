package apiserver

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// inCluster is where a pod finds the namespace that it is in.
const inCluster = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace is the one that this pod is in, and "" outside of a pod.
func Namespace() string { return namespaceIn(inCluster) }

func namespaceIn(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}

// Config says how the API server is reached: as the file kubeconfig says, or
// without one, as pods do. There is no rate limit of our own: the API server's
// priority and fairness knows better.
func Config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; run in a pod, or say --kubeconfig", err)
	}
	config.QPS = -1
	return config, nil
}

// NoticeDeadConnections has client-go find out within 15 seconds that a connection
// to the API server is dead, where it takes 45 by default. It is told by nothing
// but the environment, and reads that when a client is made.
func NoticeDeadConnections() {
	for name, seconds := range map[string]string{
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10",
		"HTTP2_PING_TIMEOUT_SECONDS":      "5",
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, seconds)
		}
	}
}
