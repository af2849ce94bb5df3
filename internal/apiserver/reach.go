package apiserver

import (
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
// priority and fairness knows better. Watches do not fail while it is out of reach:
// they wait, and log that they do.
func Config(kubeconfig string, log *slog.Logger) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; run in a pod, or say --kubeconfig", err)
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return patience{next, log} })
	return config, nil
}

// noticed is how long it takes at most to find out that a connection to the API
// server is dead, of which silent is without a question whether it is.
const noticed, silent = 15 * time.Second, 10 * time.Second

// ForWrites is config for many small writes at a time: each has a connection to
// itself (HTTP/1.1), and the next one uses it again. Through one connection for all
// (HTTP/2) each costs both ends about a fifth more of their time. Where
// HTTP/2 has pings, the kernel finds out that such a connection is dead; not so one
// that ends at a proxy, of which the other half is.
func ForWrites(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	if config.Dial == nil {
		config.Dial = dialer().DialContext
	}
	return config
}

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h: for how many milliseconds what
// was sent may stay unacknowledged.
const tcpUserTimeout = 18

// dialer makes connections of which the kernel finds out that they are dead.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silent, Interval: noticed - silent, Count: 1},
		Control: func(_, _ string, c syscall.RawConn) error {
			var refused error
			err := c.Control(func(fd uintptr) {
				refused = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(noticed.Milliseconds()))
			})
			return errors.Join(err, refused)
		},
	}
}

// NoticeDeadConnections has client-go find out within 15 seconds that a connection
// to the API server is dead, where it takes 45 by default. It is told by nothing
// but the environment, and reads that when a client is made.
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
