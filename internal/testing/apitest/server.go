package apitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Without a logger, controller-runtime prints a stack trace among the results of tests.
func init() { ctrllog.SetLogger(ctrllog.Log.WithSink(ctrllog.NullLogSink{})) }

// Server is a running etcd and kube-apiserver.
type Server struct {
	// Config is the connection as administrator, without a client-side rate limit.
	Config *rest.Config
	// Kubeconfig is the path of a file with the same connection for kubectl.
	Kubeconfig string

	plane *envtest.ControlPlane
	dir   string
}

// serviceNetworks are the networks of ClusterIPs, one per family. IPv4 comes first: a
// Service without ipFamilies gets that family.
const serviceNetworks = "10.96.0.0/16,fd00:10:96::/112"

// patience limits each step of the start and of the end. The machine may be slow, and busy with
// other tests. The API server alone may wait a minute for open connections.
const patience = 3 * time.Minute

// tries is how often the programs are started. Each try uses new ports: a port that was
// free may be in use by the time the program listens on it.
const tries = 3

func start() (*Server, error) {
	crds, err := findCRDs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "purelb-apitest-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(crds); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(crds string) error {
	bin := filepath.Join(s.dir, "bin")
	if err := installPrograms(bin); err != nil {
		return err
	}
	if err := s.startPlane(bin); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver: %w", err)
	}
	admin, err := s.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("make an administrator: %w", err)
	}
	s.Config = admin.Config()
	text, err := admin.KubeConfig()
	if err != nil {
		return fmt.Errorf("make an administrator: %w", err)
	}
	s.Kubeconfig = filepath.Join(s.dir, "kubeconfig")
	if err := os.WriteFile(s.Kubeconfig, text, 0o600); err != nil {
		return err
	}
	if err := awaitDefaults(s.Config); err != nil {
		return fmt.Errorf("wait for the Service default/kubernetes: %w", err)
	}
	return installCRDs(s.Config, crds)
}

// startPlane starts the programs.
func (s *Server) startPlane(bin string) error {
	var errs []error
	for i := range tries {
		dir := filepath.Join(s.dir, strconv.Itoa(i))
		certs := filepath.Join(dir, "certs")
		if err := os.MkdirAll(certs, 0o700); err != nil {
			return err
		}
		plane := controlPlane(bin, filepath.Join(dir, "etcd"), certs)
		err := plane.Start()
		if err == nil {
			s.plane = plane
			return nil
		}
		errs = append(errs, err, plane.Stop())
	}
	return errors.Join(errs...)
}

// controlPlane is an etcd and an API server, with the folders of their files.
func controlPlane(bin, data, certs string) *envtest.ControlPlane {
	plane := &envtest.ControlPlane{
		Etcd: &envtest.Etcd{Path: filepath.Join(bin, "etcd"), DataDir: data, StartTimeout: patience, StopTimeout: patience},
	}
	server := plane.GetAPIServer()
	server.Path = filepath.Join(bin, "kube-apiserver")
	server.CertDir = certs
	server.StartTimeout, server.StopTimeout = patience, patience
	server.Configure().Set("service-cluster-ip-range", serviceNetworks)
	return plane
}

// awaitDefaults waits until the API server has made the namespace default and its Service
// kubernetes. After that, it can allocate cluster addresses.
func awaitDefaults(config *rest.Config) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	there := func(ctx context.Context) (bool, error) {
		_, err := clients.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err == nil, nil
	}
	return wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, there)
}

// installCRDs installs the definitions in a folder. It retries if the API server is too
// busy to accept one of them within its own time limit.
func installCRDs(config *rest.Config, folder string) error {
	installed := func(context.Context) (bool, error) {
		_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{folder}, ErrorIfPathMissing: true, MaxTime: patience})
		if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	}
	return wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, installed)
}

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	var err error
	if s.plane != nil {
		err = s.plane.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
