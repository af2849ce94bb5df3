package backends

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// secretTimeout limits the reading of a Secret.
const secretTimeout = 10 * time.Second

// serverID is what groups must have in common to share a client of NetBox.
type serverID struct {
	url       string
	token, ca config.SecretKey
}

// server is a NetBox server that groups share.
type server struct {
	id      serverID
	manager *Manager
	// confirmed gets a signal when a person confirms the release of orphans.
	confirmed chan struct{}

	mu sync.Mutex // guards what follows
	// client was made with these credentials.
	client    *netbox.Client
	token, ca []byte
	// members are the groups that were found on the server, as they were then.
	members map[string]netBox
}

// connect returns a client with the present credentials of the Secrets. It returns the
// existing client if its credentials are unchanged.
func (s *server) connect(ctx context.Context) (*netbox.Client, error) {
	token, ca, err := s.credentials(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if s.client != nil && bytes.Equal(token, s.token) && bytes.Equal(ca, s.ca) {
		return s.client, nil
	}
	client, err := s.manager.options.NetBox(netbox.Config{
		URL: s.id.url, Token: string(token), CA: ca, Observe: s.manager.options.Exchange,
	})
	if err != nil {
		return nil, err
	}
	s.client, s.token, s.ca = client, token, ca
	return client, nil
}

// current reports whether groups should use this client.
func (s *server) current(client *netbox.Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client == client
}

// credentials reads the token, and the certificates if there are some.
func (s *server) credentials(ctx context.Context) (token, ca []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	if token, err = s.secret(ctx, s.id.token, "API token of a user of NetBox"); err != nil || s.id.ca.Name == "" {
		return token, nil, err
	}
	ca, err = s.secret(ctx, s.id.ca, "certificate of the CA of NetBox in PEM format")
	return token, ca, err
}

// secret reads a value that should exist.
func (s *server) secret(ctx context.Context, key config.SecretKey, what string) ([]byte, error) {
	value, err := s.manager.options.Secret(ctx, key)
	switch {
	case err == nil && len(bytes.TrimSpace(value)) == 0:
		return nil, misconfigured("the Secret %s/%s has no entry %s, or is not there: put the %s there", key.Namespace, key.Name, key.Key, what)
	case err != nil:
		return nil, &ipam.Error{Kind: ipam.KindUnavailable, Cause: err,
			Message: fmt.Sprintf("the Secret %s/%s with the %s cannot be read: %v", key.Namespace, key.Name, what, err)}
	}
	return value, nil
}

// enter adds a group that was found, or replaces it.
func (s *server) enter(m netBox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[m.group.Name] = m
	if m.confirmed != "" {
		backoff.Poke(s.confirmed)
	}
}

// leave removes a group whose worker ends.
func (s *server) leave(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, group)
}

// parents is how many prefixes and IP ranges the groups have. To count the addresses of each takes a
// request.
func (s *server) parents() (sum int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		sum += max(1, len(m.pool.Facts().Parents))
	}
	return sum
}

// byField returns the groups by the custom field of their keys, sorted by name.
func (s *server) byField() map[string][]netBox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[string][]netBox{}
	for _, m := range s.members {
		list[m.group.Field] = append(list[m.group.Field], m)
	}
	for _, members := range list {
		slices.SortFunc(members, func(a, b netBox) int { return cmp.Compare(a.group.Name, b.group.Name) })
	}
	return list
}
