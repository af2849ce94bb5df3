package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificateIsValidForItsHostsAndSubject(t *testing.T) {
	dir := t.TempDir()
	ca := authority(t, dir)
	err := ca.Issue(dir, "node-1", Subject{
		Name: "system:node:node-1", Group: "system:nodes", Hosts: []string{"node-1", "172.30.250.101", "2001:db8:1:250::101"},
	})
	if err != nil {
		t.Fatal(err)
	}
	crt := certificate(t, filepath.Join(dir, "node-1.crt"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	for host, serves := range map[string]bool{
		"node-1": true, "172.30.250.101": true, "2001:db8:1:250::101": true, "node-2": false, "172.30.250.102": false,
	} {
		_, err := crt.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
		if (err == nil) != serves {
			t.Errorf("%s: %v", host, err)
		}
	}
	if crt.Subject.CommonName != "system:node:node-1" || crt.Subject.Organization[0] != "system:nodes" {
		t.Errorf("subject is %s", crt.Subject)
	}
}

func TestAnotherAuthorityIsNotTrusted(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := authority(t, dir).Issue(dir, "x", Subject{Name: "x", Hosts: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority(t, other).PEM)
	if _, err := certificate(t, filepath.Join(dir, "x.crt")).Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("another authority verifies the certificate")
	}
}

func TestOnlyTheOwnerReadsKeysAndKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	if err := authority(t, dir).IssueKubeconfig(dir, "admin", "https://127.0.0.1:16443", Subject{Name: "admin"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "admin.key", "admin.kubeconfig"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
	if !strings.Contains(string(text), `server: "https://127.0.0.1:16443"`) || !strings.Contains(string(text), "current-context: lab") {
		t.Errorf("kubeconfig:\n%s", text)
	}
}

func authority(t *testing.T, dir string) *Authority {
	t.Helper()
	ca, err := NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func certificate(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	crt, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return crt
}
