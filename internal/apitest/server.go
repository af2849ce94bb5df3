package apitest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Server is a running etcd and kube-apiserver.
type Server struct {
	// Config reaches it as administrator, without a client-side rate limit.
	Config *rest.Config
	// Kubeconfig is the path of a file that says the same to kubectl.
	Kubeconfig string

	env *envtest.Environment
	dir string
}

// serviceNetworks are the ClusterIPs, one range per family, IPv4 first: what a
// Service without ipFamilies gets.
const serviceNetworks = "10.96.0.0/16,fd00:10:96::/112"

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
	if err := os.Mkdir(filepath.Join(s.dir, "certs"), 0o700); err != nil {
		return err
	}
	s.env = environment(s.dir, bin, crds)
	cfg, err := s.env.Start()
	if err != nil {
		return fmt.Errorf("start etcd and kube-apiserver: %w", err)
	}
	cfg.QPS = -1
	s.Config = cfg
	s.Kubeconfig = filepath.Join(s.dir, "kubeconfig")
	return os.WriteFile(s.Kubeconfig, s.env.KubeConfig, 0o600)
}

// environment is the control plane, with everything that it writes under dir.
func environment(dir, bin, crds string) *envtest.Environment {
	env := &envtest.Environment{
		BinaryAssetsDirectory:    bin,
		CRDDirectoryPaths:        []string{crds},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	cp := &env.ControlPlane
	cp.Etcd = &envtest.Etcd{
		Path:    filepath.Join(bin, "etcd"),
		DataDir: filepath.Join(dir, "etcd"),
	}
	server := cp.GetAPIServer()
	server.Path = filepath.Join(bin, "kube-apiserver")
	server.CertDir = filepath.Join(dir, "certs")
	server.Configure().Set("service-cluster-ip-range", serviceNetworks)
	return env
}

// Stop ends the server and removes its files.
func (s *Server) Stop() error {
	var err error
	if s.env != nil {
		err = s.env.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
