package ipamserver

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
)

// Source is a NetBox server, with its token and its certificates. Pools with the same
// Source share a client, which sends one request at a time.
type Source struct {
	URL string
	// TokenFile or TokenEnv has the API token.
	TokenFile, TokenEnv string
	// CAFile has certificates to trust in addition to those of the system; "" means none.
	CAFile string
}

// problem returns the reason why s is unusable, or "". It also returns the field if there is a
// single cause.
func (s Source) problem() (field, problem string) {
	if (s.TokenFile == "") == (s.TokenEnv == "") {
		return "tokenFile", "write either tokenFile, the path of a file with the API token, or tokenEnv, the name of an environment variable with it"
	}
	token, ca, err := s.credentials()
	if err != nil {
		return err.field, err.text
	}
	if _, err := netbox.New(netbox.Config{URL: s.URL, Token: token, CA: ca}); err != nil {
		return "", err.Error()
	}
	return "", ""
}

// unreadable is the error for a field whose file or variable cannot be read.
type unreadable struct{ field, text string }

func (u *unreadable) Error() string { return u.text }

// credentials reads the token and the certificates, which may change at any time.
func (s Source) credentials() (token string, ca []byte, failure *unreadable) {
	token = os.Getenv(s.TokenEnv)
	if s.TokenEnv != "" && token == "" {
		return "", nil, &unreadable{"tokenEnv", "the environment variable " + s.TokenEnv + " is empty: put an API token of NetBox into it"}
	}
	if s.TokenFile != "" {
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return "", nil, &unreadable{"tokenFile", fmt.Sprintf("%v: mount the Secret with the API token of NetBox there", err)}
		}
		token = string(text)
	}
	if s.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(s.CAFile); err == nil && len(ca) == 0 {
			err = fmt.Errorf("%s is empty", s.CAFile)
		}
		if err != nil {
			return "", nil, &unreadable{"caFile", fmt.Sprintf("%v: mount the certificates of the CA of NetBox there, in PEM format", err)}
		}
	}
	return token, ca, nil
}

// connection is the client of a Source. It is replaced when the token or the certificates
// change.
type connection struct {
	source Source
	// dial is netbox.New, except in tests.
	dial func(netbox.Config) (*netbox.Client, error)

	mu     sync.Mutex // guards what follows
	client *netbox.Client
	token  string
	ca     []byte
}

// current returns the client with the present credentials.
func (c *connection) current() (*netbox.Client, error) {
	token, ca, failure := c.source.credentials()
	if failure != nil {
		return nil, &ipam.Error{Kind: ipam.KindMisconfigured, Message: failure.text}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && token == c.token && bytes.Equal(ca, c.ca) {
		return c.client, nil
	}
	client, err := c.dial(netbox.Config{URL: c.source.URL, Token: token, CA: ca})
	if err == nil {
		c.client, c.token, c.ca = client, token, ca
	}
	return client, err
}
