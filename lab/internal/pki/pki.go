// Package pki makes the certificates of a cluster, and writes kubeconfigs with them. It knows
// nothing of the machines that use them.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte
}

// Subject is the subject of a certificate. The certificate is valid for a server at Hosts, and for
// a client called Name, a member of Group.
type Subject struct {
	Name  string
	Group string
	Hosts []string // names and addresses
}

// NewAuthority makes an authority and writes NAME.crt and NAME.key.
func NewAuthority(dir, name string) (*Authority, error) {
	key, err := newKey(dir, name)
	if err != nil {
		return nil, err
	}
	t := template(Subject{Name: name})
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	t.ExtKeyUsage = nil
	a := &Authority{cert: t, key: key}
	if a.PEM, err = a.sign(t, &key.PublicKey); err != nil {
		return nil, err
	}
	return a, write(dir, name+".crt", a.PEM)
}

// Issue makes a key and a certificate, and writes FILE.crt and FILE.key.
func (a *Authority) Issue(dir, file string, s Subject) error {
	key, err := newKey(dir, file)
	if err != nil {
		return err
	}
	crt, err := a.sign(template(s), &key.PublicKey)
	if err != nil {
		return err
	}
	return write(dir, file+".crt", crt)
}

// IssueKubeconfig does the same as Issue. It also writes FILE.kubeconfig, which uses the
// certificate for the server.
func (a *Authority) IssueKubeconfig(dir, file, server string, s Subject) error {
	if err := a.Issue(dir, file, s); err != nil {
		return err
	}
	return a.Kubeconfig(dir, file, server, filepath.Join(dir, file+".kubeconfig"))
}

// Kubeconfig writes a kubeconfig with the context "lab" from FILE.crt and
// FILE.key.
func (a *Authority) Kubeconfig(dir, file, server, out string) error {
	crt, err := os.ReadFile(filepath.Join(dir, file+".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(dir, file+".key"))
	if err != nil {
		return err
	}
	b := base64.StdEncoding.EncodeToString
	return os.WriteFile(out, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: %s, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: %s}}]
current-context: lab
`, server, b(a.PEM), file, b(crt), b(key), file), 0o600)
}

// NewKey writes NAME.key, for signing tokens and the like.
func NewKey(dir, name string) error {
	_, err := newKey(dir, name)
	return err
}

func (a *Authority) sign(t *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", t.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func template(s Subject) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if s.Group != "" {
		t.Subject.Organization = []string{s.Group}
	}
	for _, h := range s.Hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			t.IPAddresses = append(t.IPAddresses, ip.AsSlice())
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(dir, name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func write(dir, name string, b []byte) error {
	return os.WriteFile(filepath.Join(dir, name), b, 0o600)
}
