package spec

import (
	"fmt"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

// APIServer is the program that the other programs of the control plane need.
const APIServer = "kube-apiserver"

// Arguments that make the lab's executable a program of the control plane machine.
const (
	RegistryCommand = "registry"
	ForwardCommand  = "forward"
)

func (l Lab) controlPlane(s *machine.Spec, m topology.Machine) {
	s.Env = []string{"KUBECONFIG=" + l.pki("admin.kubeconfig")}
	s.Files = append(s.Files, machine.File{Path: corefile, Text: l.dnsConfig()})
	s.Programs = []machine.Program{
		l.etcd(),
		{Name: "registry", Args: []string{l.State.Program(), RegistryCommand, fmt.Sprintf(":%d", RegistryPort), l.State.Images()}},
		{Name: "forward", Listener: true, Args: []string{l.State.Program(), ForwardCommand, fmt.Sprintf("127.0.0.1:%d", APIPort)}},
		l.apiServer(m),
		l.controllerManager(),
		l.program("kube-scheduler", append(l.credentials("scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1")...),
		l.program("coredns", "-conf="+corefile),
	}
}

func (l Lab) etcd() machine.Program {
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return l.program("etcd",
		"--name=lab",
		"--data-dir="+l.State.Etcd(),
		"--listen-client-urls="+clients,
		"--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers,
		"--initial-cluster=lab="+peers,
		"--unsafe-no-fsync", // the data need not survive a crash of the host
		"--log-level=warn")
}

func (l Lab) apiServer(m topology.Machine) machine.Program {
	return l.program(APIServer,
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address="+l.Plan.Primary(m).String(),
		"--bind-address=::",
		fmt.Sprintf("--secure-port=%d", APIPort),
		"--service-cluster-ip-range="+join(l.Plan.Services()),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--client-ca-file="+l.pki("ca.crt"),
		"--tls-cert-file="+l.pki("apiserver.crt"),
		"--tls-private-key-file="+l.pki("apiserver.key"),
		"--kubelet-client-certificate="+l.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key="+l.pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority="+l.pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+l.pki("sa.key"),
		"--service-account-signing-key-file="+l.pki("sa.key"),
		"--requestheader-client-ca-file="+l.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+l.pki("front-proxy-client.crt"),
		"--proxy-client-key-file="+l.pki("front-proxy-client.key"),
		"--enable-aggregator-routing=true",
		"--profiling=false",
		"--v=1")
}

func (l Lab) controllerManager() machine.Program {
	return l.program("kube-controller-manager", append(l.credentials("controller-manager"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.pki("sa.key"),
		"--root-ca-file="+l.pki("ca.crt"),
		"--cluster-signing-cert-file="+l.pki("ca.crt"),
		"--cluster-signing-key-file="+l.pki("ca.key"),
		"--allocate-node-cidrs=false",
		"--cluster-cidr="+join(l.Plan.Pods()),
		"--service-cluster-ip-range="+join(l.Plan.Services()),
		"--leader-elect=false",
		"--bind-address=127.0.0.1")...)
}

// Domain is the domain of the names of Services.
const Domain = "cluster.local"

const corefile = "/etc/lab/Corefile"

// dnsConfig makes CoreDNS answer only for the cluster, because the machines have no DNS server for
// other names.
func (l Lab) dnsConfig() string {
	return fmt.Sprintf(`.:53 {
    errors
    health 127.0.0.1:8053
    kubernetes %s in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
    }
    cache 30
}
`, Domain, l.pki("admin.kubeconfig"))
}

func (l Lab) credentials(who string) []string {
	file := l.pki(who + ".kubeconfig")
	return []string{
		"--kubeconfig=" + file,
		"--authentication-kubeconfig=" + file,
		"--authorization-kubeconfig=" + file,
	}
}
