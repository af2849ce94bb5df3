package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// inCluster is the file in which a pod finds its namespace.
const inCluster = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace of this pod, and "" outside of a pod.
func Namespace() string { return namespaceIn(inCluster) }

func namespaceIn(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}

// Config returns the connection to the API server: from the file kubeconfig, or,
// without one, from the service account of the pod. It sets no client-side rate
// limit, because the API server has its own priority and fairness limits. While the
// API server is out of reach, watches do not fail: they wait and log that.
func Config(kubeconfig string, log *slog.Logger) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; run in a pod, or set --kubeconfig", err)
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return retryingWatch{next, log} })
	return config, nil
}

// Client returns a client for the objects of one group of the API, whose types add registers. It
// needs less memory than a client for all of Kubernetes.
func Client(config *rest.Config, group schema.GroupVersion, add func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion, c.NegotiatedSerializer = "/apis", &group, serializer.NewCodecFactory(scheme).WithoutConversion()
	if group.Group == "" {
		c.APIPath = "/api"
	}
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	if !strings.HasSuffix(group.Group, "purelb.io") { // custom resources have no other encoding
		c.ContentType, c.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	}
	c.UserAgent = cmp.Or(c.UserAgent, rest.DefaultKubernetesUserAgent()) // for the audit log
	return rest.RESTClientFor(c)
}

// noticed is the longest time until a client notices that a connection to the API
// server is dead. silent is how long a connection may be idle before the client
// checks it.
const noticed, silent = 15 * time.Second, 10 * time.Second

// ForWrites returns config for many small writes in parallel: each write has its
// own connection (HTTP/1.1), which later writes reuse. With one connection for all
// of them (HTTP/2), each write costs both ends about a fifth more CPU time. HTTP/2
// finds dead connections by pings. Here the kernel finds them. If the connection
// ends at a proxy, the kernel does not notice that the connection behind the proxy
// is dead.
//
// The kernel sends nothing more on a connection that is closed, or whose process has ended. So a
// write that was given up does not arrive later.
func ForWrites(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	if config.Dial == nil {
		config.Dial = dialer().DialContext
	}
	return config
}

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h: how many milliseconds sent
// data may stay unacknowledged.
const tcpUserTimeout = 18

// dialer returns a dialer for connections that the kernel ends when they are dead.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silent, Interval: noticed - silent, Count: 1},
		Control: func(_, _ string, c syscall.RawConn) error {
			var refused error
			err := c.Control(func(fd uintptr) {
				refused = errors.Join(
					syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(noticed.Milliseconds())),
					syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}))
			})
			return errors.Join(err, refused)
		},
	}
}

// NoticeDeadConnections makes client-go notice a dead connection to the API server
// within 15 seconds instead of its default of 45. Client-go reads this setting only
// from the environment, when it makes a client.
func NoticeDeadConnections() {
	for name, after := range map[string]time.Duration{
		"HTTP2_READ_IDLE_TIMEOUT_SECONDS": silent,
		"HTTP2_PING_TIMEOUT_SECONDS":      noticed - silent,
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, strconv.Itoa(int(after.Seconds())))
		}
	}
}
